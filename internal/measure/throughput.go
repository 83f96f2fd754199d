package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"pushcost/internal/crowd"
	"pushcost/internal/feed"
	"pushcost/internal/fleet"
	"pushcost/internal/setup"
)

// A Throughput is an experiment: how many events a second can be pushed to all
// before the 99th percentile of their delivery takes longer than Within?
type Throughput struct {
	Setup  setup.Setup
	Conns  int
	Within time.Duration

	// The search: so many runs, each of which publishes for so long.
	Runs int
	Take time.Duration
}

// Run returns the highest rate that was kept up with, in deliveries a second:
// events times clients, each of whom got each. Server and clients share a
// machine, and its cores.
func (t Throughput) Run(ctx context.Context) (deliveries float64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", t.Setup, err)
		}
	}()
	g, err := gather(ctx, crowd.StartArgs{Setup: t.Setup})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	if _, err := g.grow(t.Conns, 0); err != nil {
		return 0, err
	}
	const burst = 20
	event := feed.Trades()[0]
	b, a, err := g.broadcast(event, burst) // what comes out when there is always something to send
	if err != nil {
		return 0, err
	}
	rate := burst / a.Last.Sub(b.Began).Seconds()
	kept, lost := 0.0, math.Inf(1)
	for range t.Runs {
		every := time.Duration(float64(time.Second) / rate)
		b, a, err := g.publish(crowd.BroadcastArgs{Data: event, Times: int(t.Take/every) + 1, Every: every}, false)
		if err != nil {
			return 0, err
		}
		if lag(b.Began, every, a.Each) <= t.Within {
			kept = rate
		} else {
			lost = rate
		}
		const step = 1.5
		switch {
		case math.IsInf(lost, 1):
			rate = kept * step
		case kept == 0:
			rate = lost / step
		default:
			rate = math.Sqrt(kept * lost)
		}
	}
	if kept == 0 {
		return 0, fmt.Errorf("%d clients do not get %.0f events a second within %v", t.Conns, lost, t.Within)
	}
	return kept * float64(t.Conns), nil
}

// lag is how late 99 % of the clients had the event that took longest, counted
// from when it was due: one that is published late has waited already.
func lag(began time.Time, every time.Duration, events []fleet.Arrival) (worst time.Duration) {
	for i, e := range events {
		worst = max(worst, e.P99.Sub(began.Add(time.Duration(i)*every)))
	}
	return worst
}
