package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"pushcost/internal/child"
	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
)

// A Plan is what is published, when, and over which network.
type Plan struct {
	Events [][]byte

	// Every is the time between two events. Zero is lockstep: each event is
	// published once the one before has arrived.
	Every time.Duration

	Path netpath.Path
}

// Paced is the documents' plan, in virtual time: an event every 3 ms. Seven
// nanoseconds more keep an event from coinciding with an arrival; half a
// millisecond of delay each way keeps what a round trip separates apart.
func Paced(events [][]byte) Plan {
	return Plan{
		Events: events,
		Every:  3*time.Millisecond + 7,
		Path:   netpath.Symmetric(500 * time.Microsecond),
	}
}

// Lockstep is a plan that does not depend on a clock, for real sockets.
func Lockstep(events [][]byte) Plan { return Plan{Events: events} }

// A Delivery is what it took to deliver a plan's events, every one of them
// once, in order and unchanged.
type Delivery struct {
	Setup    setup.Setup
	Events   int
	Payload  int64         // bytes of all events
	Open     netpath.Count // up to a subscribed, quiet path
	Steady   netpath.Count // from the first event's publication on
	Behind   netpath.Count // the same as Steady between the proxy and the server, where there is one
	Requests int64         // HTTP requests, the opening's included

	// Latency is how long each event was under way, from its publication to
	// its arrival.
	Latency []time.Duration

	CPU time.Duration // of this process, server and client, meanwhile
}

// Deliver publishes a plan's events to one client of a setup. It fails unless
// all of them arrive once, in order and equal.
func Deliver(ctx context.Context, s setup.Setup, p Plan) (d Delivery, err error) {
	d = Delivery{Setup: s, Events: len(p.Events)}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", s, errors.Join(err, ctx.Err())) // where time ran out, that is why a stream ended
		}
	}()
	r, err := assemble(ctx, s, site{path: p.Path, hub: hub.NewHub(len(p.Events)+1, "")})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	client, log := r.client(""), r.hub.Room("")
	stream, err := r.open(client, 0)
	if err != nil {
		return d, err
	}
	defer stream.Close()
	arrived := make(chan arrival, len(p.Events))
	go func() {
		for i, want := range p.Events {
			err := arrives(stream, uint64(i+1), want)
			arrived <- arrival{time.Now(), err}
			if err != nil {
				return
			}
		}
	}()
	if err := r.subscribed(""); err != nil {
		return d, err
	}
	d.Open = r.network.Count()
	behind := r.countBehind()
	cpu, begin := child.CPU(), time.Now()
	published := make([]time.Time, len(p.Events))
	collect := func() error {
		a := <-arrived
		d.Latency = append(d.Latency, a.at.Sub(published[len(d.Latency)]))
		return a.err
	}
	for i, event := range p.Events {
		if err := netpath.Sleep(ctx, time.Until(begin.Add(time.Duration(i)*p.Every))); err != nil {
			return d, err
		}
		d.Payload += int64(len(event))
		published[i] = log.Publish(event).At
		if p.Every == 0 {
			if err := collect(); err != nil {
				return d, err
			}
		}
	}
	for len(d.Latency) < len(p.Events) {
		if err := collect(); err != nil {
			return d, err
		}
	}
	d.CPU = child.CPU() - cpu
	if err := r.quiet(); err != nil {
		return d, err
	}
	d.Steady = r.network.Count().Sub(d.Open)
	d.Behind = r.countBehind().Sub(behind)
	d.Requests = client.Requests()
	// Had an event come twice, it would come before this one.
	last := log.Publish([]byte(`"end"`))
	return d, arrives(stream, last.ID, last.Data)
}

type arrival struct {
	at  time.Time
	err error
}

// arrives checks that the next event is this one.
func arrives(s interface{ Next() (hub.Event, error) }, id uint64, data []byte) error {
	got, err := s.Next()
	if err != nil {
		return err
	}
	if want := (hub.Event{ID: id, Data: data}); got.ID != want.ID || !bytes.Equal(got.Data, want.Data) {
		return fmt.Errorf("event %d arrived as event %d: %.60q instead of %.60q", want.ID, got.ID, got.Data, want.Data)
	}
	return nil
}
