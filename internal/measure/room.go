package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"pushcost/internal/child"
	"pushcost/internal/codec"
	"pushcost/internal/crowd"
	"pushcost/internal/setup"
)

// A Room is an experiment: what does it cost to send all subscribers of a room
// the same events, compressed for each by an encoder of its own, or once for all?
// Beside it, in turn, a server sends as many bytes that were encoded before,
// without a coding: what disturbs the machine disturbs both.
type Room struct {
	Codec codec.Name
	Each  bool // an encoder for each

	Few, Many int // subscribers; memory is the slope between them
	Decoders  int // of those who join together, where an encoder is shared

	Events [][]byte // two to the few, one to the many, the others to measure
}

// A Roomful is what that takes. Every subscriber got every event.
type Roomful struct {
	Room
	Join  int   // bytes that a new stream begins with: the last event, or if that is not sent, the next
	Sizes []int // bytes that each event took in a subscriber's stream

	JoinEncodes int64 // calls of an encoder while the many joined
	Encodes     int64 // for the events measured

	CPU, Identity, Again []time.Duration // the server's for an event; Again is Identity once more

	few, many [2]child.Memory // after the few have theirs, and at the end; the server's, and that without a coding
}

// Run runs the experiment.
func (r Room) Run(ctx context.Context) (full Roomful, err error) {
	full = Roomful{Room: r}
	defer func() {
		if err != nil {
			err = fmt.Errorf("a room of %d, %s: %w", r.Many, r.Codec, err)
		}
	}()
	if full.Join, full.Sizes, err = r.sizes(); err != nil {
		return full, err
	}
	s := setup.Setup{Transport: "sse", Lib: "encoded", HTTP: "1.1"}
	identity, err := gather(ctx, crowd.StartArgs{Setup: s})
	if err != nil {
		return full, err
	}
	defer func() { err = errors.Join(err, identity.stop()) }()
	// Who reads must be alike: the server spends the time to wake him.
	if identity.mirror, err = newMirror(codec.Identity, r.Decoders); err != nil {
		return full, err
	}
	if s.Codec = r.Codec; r.Each {
		s.Lib = "http"
	}
	subject, err := gather(ctx, crowd.StartArgs{Setup: s})
	if err != nil {
		return full, err
	}
	defer func() { err = errors.Join(err, subject.stop()) }()
	if !r.Each {
		if subject.mirror, err = newMirror(r.Codec, r.Decoders); err != nil {
			return full, err
		}
	}

	both := [2]*gathering{subject, identity}
	populate := func(n int, events [][]byte) (encodes int64, err error) {
		before, err := subject.compressions()
		if err != nil {
			return 0, err
		}
		for _, g := range both {
			if _, err := g.grow(n, 0); err != nil {
				return 0, err
			}
		}
		after, err := subject.compressions()
		if err != nil {
			return 0, err
		}
		for _, event := range events { // which grow buffers
			if _, err := subject.spent(event); err != nil {
				return 0, err
			}
			if _, err := identity.spent(blank(full.Join)); err != nil {
				return 0, err
			}
		}
		return after - before, nil
	}
	memory := func(of *[2]child.Memory) (err error) {
		for i, g := range both {
			if of[i], err = g.server.Memory(); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err = populate(r.Few, r.Events[:2]); err != nil {
		return full, err
	}
	if err = memory(&full.few); err != nil {
		return full, err
	}
	if full.JoinEncodes, err = populate(r.Many, r.Events[2:3]); err != nil {
		return full, err
	}
	before, err := subject.compressions()
	if err != nil {
		return full, err
	}
	for i, event := range r.Events[3:] {
		for _, turn := range []struct {
			of    *gathering
			event []byte
			cpu   *[]time.Duration
		}{{identity, blank(full.Sizes[i]), &full.Identity}, {subject, event, &full.CPU}, {identity, blank(full.Sizes[i]), &full.Again}} {
			cpu, err := turn.of.spent(turn.event)
			if err != nil {
				return full, err
			}
			*turn.cpu = append(*turn.cpu, cpu)
		}
	}
	after, err := subject.compressions()
	if err != nil {
		return full, err
	}
	full.Encodes = after - before
	return full, memory(&full.many)
}

// resident is what a subscriber takes of pages, in bytes.
func (f Roomful) resident(side int) float64 {
	return float64(f.many[side].RSS-f.few[side].RSS) / float64(f.Many-f.Few)
}

// Metrics are a room's figures.
func (f Roomful) Metrics() []Metric {
	total := 0
	for _, size := range f.Sizes {
		total += size
	}
	return []Metric{
		{"patch-B", math.Round(float64(total) / float64(len(f.Sizes)))},
		{"join-B", float64(f.Join)},
		{"encodes/event", float64(f.Encodes) / float64(len(f.CPU))},
		{"cpu-ns/patch", math.Round(median(f.CPU) / float64(f.Many))},
		{"x-identity", ratio(f.CPU, f.Identity, f.Again)},
		{"identity-x-identity", ratio(f.Again, f.Identity)},
		{"RSS-B/conn", math.Round(f.resident(0))},
		{"RSS-x-identity", f.resident(0) / f.resident(1)},
	}
}

// sizes are what an encoder in this process makes of the events.
func (r Room) sizes() (join int, sizes []int, err error) {
	if !r.Each {
		m, err := newMirror(r.Codec, 0)
		if err != nil {
			return 0, nil, err
		}
		for i, event := range r.Events {
			if i == 2 {
				join = len(m.join())
			}
			sizes = append(sizes, len(m.next(framed(event))))
		}
		return join, sizes[3:], nil
	}
	var body bytes.Buffer
	w, err := codec.NewWriter(r.Codec, &body)
	if err != nil {
		return 0, nil, err
	}
	for _, event := range r.Events[2:] {
		body.Reset()
		_, err := w.Write(framed(event))
		if err := errors.Join(err, w.Flush()); err != nil {
			return 0, nil, err
		}
		sizes = append(sizes, body.Len())
	}
	return sizes[0], sizes[1:], nil
}

// blank is an event of so many bytes in a stream without a coding.
func blank(size int) []byte {
	return bytes.Repeat([]byte{'.'}, max(1, size-len(framed(nil))))
}
