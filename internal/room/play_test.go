package room

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pushcost/internal/board"
	"pushcost/internal/codec"
	"pushcost/internal/eventstream"
)

// A choice picks one of n: at random, or as a fuzzer says.
type choice func(n int) int

// A subscriber is one stream with all decoders that could be at its end.
type subscriber struct {
	*Subscriber
	clients map[string]client
}

func (s *subscriber) receive(wire, want []byte) error {
	for _, name := range slices.Sorted(maps.Keys(s.clients)) {
		if err := s.clients[name].receive(wire, want); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// play publishes events to subscribers who join, miss events and get private
// ones and heartbeats by chance, and decodes every byte of every one as it is sent.
func play(t *testing.T, coding codec.Name, events int, event func() []byte, choose choice) {
	enc := encoder(t, coding)
	joined, private, decoded := 0, 0, 0
	var subs []*subscriber
	for i := range events {
		deliver := func(s *subscriber, wire, want []byte) {
			decoded += len(want)
			require.NoError(t, s.receive(wire, want), "%s, event %d", coding, i)
		}
		public := event()
		chunk := enc.Encode(public)
		for n, s := range subs {
			chance := 0 // the first subscriber gets everything and nothing else
			if n > 0 {
				chance = choose(16)
			}
			if chance == 12 {
				deliver(s, enc.Beat(), nil)
			}
			if chance == 13 { // asleep
				continue
			}
			if chance == 14 { // the second is a piece of what is public
				private += 2
				for _, own := range [][]byte{fmt.Appendf(nil, ": token %x\n\n", choose(1<<16)), public[:choose(len(public)+1)]} {
					deliver(s, s.Private(own), own)
				}
			}
			deliver(s, s.Next(chunk), public)
			if chance == 15 {
				require.Nil(t, s.Next(chunk), "a chunk that comes twice")
			}
		}
		if len(subs) > 0 && choose(8) > 0 {
			continue
		}
		joined++
		s := &subscriber{clients: clients(coding)}
		var wire []byte
		if choose(4) > 0 {
			s.Subscriber, wire = enc.Join()
			deliver(s, wire, public)
		} else { // begins with a page of its own
			s.Subscriber, wire = enc.Open()
			deliver(s, wire, nil)
			deliver(s, s.Private(public), public)
		}
		if len(subs) < 4 {
			subs = append(subs, s)
		} else {
			subs[1+choose(3)] = s
		}
	}
	t.Logf("%d events, %d subscribers joined, %d private events, %d MB decoded by each decoder", events, joined, private, decoded/1e6)
}

// pages returns a source of events: a board of so many rows after a few
// commands, now and then another board, damaged, or no board at all.
func pages(style board.Style, least, most int, choose choice) func() []byte {
	var b *board.Board
	n := 0
	return func() []byte {
		if b == nil || choose(50) == 0 {
			b = board.Sized(fmt.Sprint("room-", choose(3)), style, least+choose(most-least+1))
		}
		for range choose(3) {
			if err := b.Apply(choose(b.Rows()), fmt.Sprintf("%08x", choose(1<<30))); err != nil {
				panic(err)
			}
		}
		n++
		return damage(eventstream.AppendEvent(nil, fmt.Sprint(n), b.HTML()), choose)
	}
}

func damage(event []byte, choose choice) []byte {
	at := choose(len(event) + 1)
	switch choose(40) {
	case 0:
		return event[:at]
	case 1:
		return event[at:]
	case 2:
		return nil
	case 3:
		return slices.Insert(event, at, letters(choose(300), choose)...)
	case 4:
		return slices.Concat(event[at:], event[:at])
	case 5:
		return letters(choose(len(event)+1), choose)
	case 6:
		return slices.Insert(event, at, event[:at/2]...)
	case 7:
		for range min(choose(20), len(event)) {
			event[choose(len(event))] ^= 1 << choose(8)
		}
	}
	return event
}

func letters(n int, choose choice) []byte {
	b := make([]byte, n)
	alphabet := 1 + choose(256)
	for i := range b {
		b[i] = byte(choose(alphabet))
	}
	return b
}

// Every byte of every event arrives, by all decoders, though events are
// damaged, missed, private, and subscribers come and go. A share of it runs
// by default; PUSHCOST_FULL=1 runs 100,000 events of 1 to 16 KB and 2,000 of
// 88 KB, a half in each style, for each coding.
func TestEveryByteOfEveryEventArrives(t *testing.T) {
	small, large := 300, 8
	if os.Getenv("PUSHCOST_FULL") == "1" {
		small, large = 100_000, 2_000
	}
	for _, coding := range codings {
		for _, style := range []board.Style{board.Utility, board.Semantic} {
			t.Run(fmt.Sprintf("coding=%s/style=%s", coding, style), func(t *testing.T) {
				t.Parallel()
				choose := rand.New(rand.NewPCG(5, 3)).IntN
				play(t, coding, small/2, pages(style, 2, 31, choose), choose)
				play(t, coding, large/2, pages(style, board.Rows, board.Rows, choose), choose)
			})
		}
	}
}

// FuzzRoom lets the fuzzer write the events and choose who gets which.
func FuzzRoom(f *testing.F) {
	seed := rand.NewChaCha8([32]byte{'r'})
	for coding := range codings {
		for range 4 {
			data := make([]byte, 600)
			seed.Read(data)
			data[0] = byte(coding)
			f.Add(data)
		}
		f.Add([]byte{byte(coding), 0, 1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		coding := codings[int(data[0])%len(codings)]
		data = data[1:]
		take := func(n int) []byte {
			n = min(n, len(data))
			taken := data[:n]
			data = data[n:]
			return taken
		}
		choose := func(n int) int {
			chosen := 0
			for limit := 1; limit < n; limit *= 256 {
				for _, b := range take(1) {
					chosen = chosen*256 + int(b)
				}
			}
			return chosen % n
		}
		var event []byte
		next := func() []byte {
			at := choose(len(event) + 1)
			event = slices.Insert(slices.Clone(event), at, take(choose(64))...)
			event = event[:min(len(event), 1<<16)]
			event = damage(event, choose)
			return event
		}
		play(t, coding, 40, next, choose)
	})
}
