package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pushcost/internal/child"
	"pushcost/internal/crowd"
	"pushcost/internal/feed"
	"pushcost/internal/setup"
)

// floorSetup is a server that does nothing but write(2) to bare descriptors.
var floorSetup = setup.Setup{Transport: "floor", Lib: "fd", HTTP: "1.1"}

// rounds is how many broadcasts of each of the three are compared.
const rounds = 11

// A Broadcaster pushes the same events to all clients of a setup, and beside
// it, in turn, to as many clients of the floor: what disturbs the machine
// disturbs both.
type Broadcaster struct{ crowd, floor *gathering }

// NewBroadcaster starts both servers.
func NewBroadcaster(ctx context.Context, s setup.Setup) (*Broadcaster, error) {
	c, err := gather(ctx, crowd.StartArgs{Setup: s})
	if err != nil {
		return nil, err
	}
	floor, err := gather(ctx, crowd.StartArgs{Setup: floorSetup})
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return &Broadcaster{c, floor}, nil
}

// Stop ends servers and clients.
func (b *Broadcaster) Stop() error { return errors.Join(b.crowd.stop(), b.floor.stop()) }

// A Broadcast is what it takes to push an event to all clients, every one of
// which got every event.
type Broadcast struct {
	Setup  setup.Setup
	Conns  int
	Writes int64 // to the sockets of all clients, for all events
	Events int
	Allocs int64 // objects, for all events

	// Rounds of the contestant and of the floor; Again is the floor once more,
	// as another contestant would be measured.
	Rounds, Floor, Again []Round
}

// A Round is one event.
type Round struct {
	Reached time.Duration // from the call to when the last client has it
	CPU     time.Duration // the server's meanwhile
}

// Run broadcasts to n clients; a later run is to no fewer.
func (b *Broadcaster) Run(n int) (result Broadcast, err error) {
	result = Broadcast{Setup: b.crowd.setup, Conns: n, Events: rounds}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s to %d: %w", result.Setup, n, err)
		}
	}()
	events := feed.Trades()
	for _, g := range []*gathering{b.crowd, b.floor} {
		if _, err := g.grow(n, 0); err != nil {
			return result, err
		}
		if _, err := g.round(events[rounds]); err != nil { // the first one grows buffers
			return result, err
		}
	}
	writes, before, err := b.crowd.spent()
	if err != nil {
		return result, err
	}
	for _, event := range events[:rounds] {
		for _, turn := range []struct {
			of     *gathering
			rounds *[]Round
		}{{b.floor, &result.Floor}, {b.crowd, &result.Rounds}, {b.floor, &result.Again}} {
			r, err := turn.of.round(event)
			if err != nil {
				return result, err
			}
			*turn.rounds = append(*turn.rounds, r)
		}
	}
	after, memory, err := b.crowd.spent()
	result.Writes, result.Allocs = after-writes, memory.Allocs-before.Allocs
	return result, err
}

func (g *gathering) spent() (writes int64, m child.Memory, err error) {
	if err := g.server.Call("Writes", 0, &writes); err != nil {
		return 0, m, err
	}
	m, err = g.server.Memory()
	return writes, m, err
}

func (g *gathering) round(event []byte) (r Round, err error) {
	before, err := g.server.CPU()
	if err != nil {
		return r, err
	}
	b, a, err := g.broadcast(event, 1)
	if err != nil {
		return r, err
	}
	after, err := g.server.CPU()
	return Round{Reached: a.Last.Sub(b.Began), CPU: after - before}, err
}

func leastCPU(rounds []Round) float64 {
	return float64(slices.MinFunc(rounds, func(a, b Round) int { return int(a.CPU - b.CPU) }).CPU)
}

// TimesFloor is the server's CPU time as a multiple of the floor's: minima, since
// whatever disturbs a measurement adds to it.
func (b Broadcast) TimesFloor() float64 { return leastCPU(b.Rounds) / leastCPU(b.Floor) }

// FloorTimesFloor is the same of the floor itself: how far to trust the other.
func (b Broadcast) FloorTimesFloor() float64 { return leastCPU(b.Again) / leastCPU(b.Floor) }

// Metrics are a broadcast's figures.
func (b Broadcast) Metrics() []Metric {
	sent := float64(b.Conns * b.Events)
	var reached []time.Duration
	for _, r := range b.Rounds {
		reached = append(reached, r.Reached)
	}
	slices.Sort(reached)
	return []Metric{
		{"writes/event", float64(b.Writes) / sent},
		{"allocs/event", float64(b.Allocs) / sent},
		{"cpu-ns/write", leastCPU(b.Rounds) / float64(b.Conns)},
		{"all-ns", float64(reached[len(reached)/2])},
		{"x-floor", b.TimesFloor()},
		{"floor-x-floor", b.FloorTimesFloor()},
	}
}
