package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aclements/go-moremath/stats"

	"pushcost/internal/crowd"
	"pushcost/internal/feed"
	"pushcost/internal/fleet"
	"pushcost/internal/setup"
)

// floorSetup is a server that does nothing but write(2) to bare descriptors.
var floorSetup = setup.Setup{Transport: "floor", Lib: "fd", HTTP: "1.1"}

// live are broadcasts that are timed.
const live = 3

// A Broadcaster pushes the same events to all clients of a setup, and beside
// it, in turn, to as many clients of the floor: what disturbs the machine
// disturbs both. One floor serves for all setups.
type Broadcaster struct {
	floor  *gathering
	crowds map[setup.Setup]*gathering
}

// NewBroadcaster starts the floor.
func NewBroadcaster(ctx context.Context) (*Broadcaster, error) {
	floor, err := gather(ctx, crowd.StartArgs{Setup: floorSetup})
	return &Broadcaster{floor, make(map[setup.Setup]*gathering)}, err
}

// Stop ends servers and clients.
func (b *Broadcaster) Stop() error {
	err := b.floor.stop()
	for _, c := range b.crowds {
		err = errors.Join(err, c.stop())
	}
	return err
}

// A Broadcast is what it takes to push an event to all clients, every one of
// which got every event.
type Broadcast struct {
	Setup  setup.Setup
	Conns  int
	Events int

	Payload int64 // of all events, in bytes

	// To all clients, for all events.
	Writes int64   // to sockets
	Bytes  int64   // received
	Allocs float64 // objects, beyond those of the floor

	// CPU is the server's, for an event: the contestant's, the floor's, and
	// the floor's once more, as another contestant's would be measured.
	CPU, Floor, Again []time.Duration

	// Reached is the time from the call to when the last client has an event.
	Reached []time.Duration
}

// Run broadcasts to n clients; a later run, whatever its setup, is to no fewer.
// Rounds are broadcasts whose CPU time is measured, of each of the three that
// are compared.
func (b *Broadcaster) Run(ctx context.Context, s setup.Setup, n, rounds int) (result Broadcast, err error) {
	result = Broadcast{Setup: s, Conns: n}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s to %d: %w", s, n, err)
		}
	}()
	subject := b.crowds[s]
	if subject == nil {
		if subject, err = gather(ctx, crowd.StartArgs{Setup: s}); err != nil {
			return result, err
		}
		b.crowds[s] = subject
	}
	events := feed.Trades()
	for _, g := range []*gathering{subject, b.floor} {
		if _, err := g.grow(n, 0); err != nil {
			return result, err
		}
		if _, err := g.spent(events[0]); err != nil { // the first one grows buffers
			return result, err
		}
	}
	before, err := b.tally(subject)
	if err != nil {
		return result, err
	}
	for _, event := range events[:rounds] {
		for _, turn := range []struct {
			of  *gathering
			cpu *[]time.Duration
		}{{b.floor, &result.Floor}, {subject, &result.CPU}, {b.floor, &result.Again}} {
			cpu, err := turn.of.spent(event)
			if err != nil {
				return result, err
			}
			*turn.cpu = append(*turn.cpu, cpu)
		}
		result.sent(event)
	}
	for _, event := range events[:live] {
		sent, got, err := subject.broadcast(event, 1)
		if err != nil {
			return result, err
		}
		result.Reached = append(result.Reached, got.Last.Sub(sent.Began))
		result.sent(event)
	}
	after, err := b.tally(subject)
	result.Writes, result.Bytes = after.writes-before.writes, after.bytes-before.bytes
	// The floor allocates nothing: what it does allocate is for the calls.
	calls := float64(after.floorAllocs-before.floorAllocs) / float64(2*rounds)
	result.Allocs = float64(after.allocs-before.allocs) - calls*float64(result.Events)
	return result, err
}

// sent counts an event.
func (b *Broadcast) sent(event []byte) {
	b.Events++
	b.Payload += int64(len(event))
}

// A tally is what was spent so far.
type tally struct{ writes, bytes, allocs, floorAllocs int64 }

func (b *Broadcaster) tally(subject *gathering) (t tally, err error) {
	var seen fleet.Counts
	if err := subject.server.Call("Writes", 0, &t.writes); err != nil {
		return t, err
	}
	if err := subject.clients.Call("Counts", 0, &seen); err != nil {
		return t, err
	}
	t.bytes = seen.Bytes
	if t.allocs, err = subject.server.Allocs(); err != nil {
		return t, err
	}
	t.floorAllocs, err = b.floor.server.Allocs()
	return t, err
}

// median is in nanoseconds. What the kernel does for one process while another
// is on the processor makes some rounds cheaper than they are, so that a minimum
// would not do.
func median(times []time.Duration) float64 { return nanoseconds(times).Quantile(0.5) }

// ratio is by how much one took more than others beside it, in the same round:
// the median of all rounds, so that what disturbs a round does not count.
func ratio(of []time.Duration, beside ...[]time.Duration) float64 {
	var all stats.Sample
	for i := range of {
		var others time.Duration
		for _, b := range beside {
			others += b[i]
		}
		all.Xs = append(all.Xs, float64(of[i])*float64(len(beside))/float64(others))
	}
	return all.Quantile(0.5)
}

// Overhead is what each client received beyond the payload, per event, in bytes.
func (b Broadcast) Overhead() float64 {
	return float64(b.Bytes-b.Payload*int64(b.Conns)) / float64(b.Conns*b.Events)
}

// WritesPerEvent is how often each client's socket was written to for an event.
func (b Broadcast) WritesPerEvent() float64 { return float64(b.Writes) / float64(b.Conns*b.Events) }

// Metrics are a broadcast's figures.
func (b Broadcast) Metrics() []Metric {
	sent := float64(b.Conns * b.Events)
	return []Metric{
		{"writes/event", b.WritesPerEvent()},
		{"allocs/event", max(0, b.Allocs/sent)}, // less than none is the calls' noise
		{"cpu-ns/write", median(b.CPU) / float64(b.Conns)},
		{"all-ns", median(b.Reached)},
		{"x-floor", ratio(b.CPU, b.Floor, b.Again)},
		{"floor-x-floor", ratio(b.Again, b.Floor)},
	}
}
