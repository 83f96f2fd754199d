package measure

import (
	"log/slog"

	"pushcost/internal/codec"
	"pushcost/internal/eventstream"
	"pushcost/internal/fleet"
	"pushcost/internal/room"
)

// A mirror encodes, in this process, what a server encodes once for all: an
// encoder makes the same bytes of the same events. So a few clients decode what
// they get, and the others compare it with the mirror's, byte for byte: thousands of
// windows would take the machine's memory and time.
type mirror struct {
	next     func(event []byte) []byte // what the event is for all who were there before
	join     func() []byte             // what who joins now gets at once
	last     []byte
	decoders int // of those who join together
}

func newMirror(coding codec.Name, decoders int) (*mirror, error) {
	m := &mirror{decoders: decoders}
	if coding == codec.Identity {
		m.next = func(event []byte) []byte { return event }
		m.join = func() []byte { return nil }
		return m, nil
	}
	encoder, err := room.NewEncoder(coding, room.Options{Log: slog.New(slog.DiscardHandler)}) // the server has one
	if err != nil {
		return nil, err
	}
	member, _ := encoder.Join()
	m.next = func(event []byte) []byte { return member.Next(encoder.Encode(event)) }
	m.join = func() []byte {
		_, wire := encoder.Join()
		return wire
	}
	return m, nil
}

// joining divides who joins into those who decode and those who do not.
func (m *mirror) joining(all fleet.DialArgs) []fleet.DialArgs {
	if wire := m.join(); len(wire) > 0 {
		all.Greeting = fleet.Greeting{Data: m.last, Wire: wire}
	}
	decoding, encoded := all, all
	decoding.N = min(all.N, m.decoders)
	encoded.N, encoded.Encoded = all.N-decoding.N, true
	return []fleet.DialArgs{decoding, encoded}
}

// expected is an event, so many times, as either kind gets it.
func (m *mirror) expected(data []byte, times int) (all []fleet.ExpectArgs) {
	m.last = data
	for range times {
		all = append(all, fleet.ExpectArgs{Data: data, Times: 1, Wire: m.next(framed(data))})
	}
	return all
}

func framed(data []byte) []byte { return eventstream.AppendEvent(nil, "", data) }
