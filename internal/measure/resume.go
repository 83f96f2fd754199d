package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/resume"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A Resumption is what it takes to come back from one reset of a quiet
// connection.
type Resumption struct {
	Took  time.Duration // from the reset to the event that was published meanwhile
	Bytes netpath.Count // that event's and all others, from the reset on
}

// Resume resets a subscriber's connection, publishes an event, and waits for
// it. Of SSE the client obeys retry, of others its back-off.
func Resume(ctx context.Context, s setup.Setup, path netpath.Path, b resume.Backoff, retry time.Duration) (res Resumption, err error) {
	cut := make(chan struct{})
	r, err := assemble(ctx, s, site{path: path, hub: hub.NewHub(10, ""), options: transport.Options{Retry: func() time.Duration { return retry }},
		fate: func(n int) (f netpath.Fate) {
			if n == 1 {
				f.After, f.Ended = 10*time.Second, func(netpath.End) { close(cut) }
			}
			return f
		}})
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	log := r.hub.Room("")
	log.Publish([]byte("1"))
	sub := resume.Subscribe(r.ctx, r.contestant, r.client(""), 0, b)
	defer sub.Close()
	if err := arrives(sub, 1, []byte("1")); err != nil {
		return res, err
	}
	arrived := make(chan arrival, 1)
	go func() {
		err := arrives(sub, 2, []byte("2"))
		arrived <- arrival{time.Now(), err}
	}()
	<-cut
	begin, before := log.Publish([]byte("2")).At, r.network.Count()
	a := <-arrived
	if a.err != nil {
		return res, a.err
	}
	res.Took = a.at.Sub(begin)
	if err := r.quiet(); err != nil {
		return res, err
	}
	res.Bytes = r.network.Count().Sub(before)
	log.Publish([]byte("3")) // had an event come twice, it would come before this one
	return res, arrives(sub, 3, []byte("3"))
}

// Metrics are the figures of a resumption.
func (r Resumption) Metrics() []Metric {
	return []Metric{
		{"resume-ns", float64(r.Took)},
		{"resume-up-B", float64(r.Bytes.Up.Bytes)},
		{"resume-down-B", float64(r.Bytes.Down.Bytes)},
	}
}

// Return restarts a server with subscribers, which is down for a second. It
// returns when each of them was back, counted from the moment they were cut
// off. Every one has missed an event and receives it.
func Return(ctx context.Context, s setup.Setup, subscribers int, backoff func(client int) resume.Backoff, retry func() time.Duration) (back []time.Duration, err error) {
	var mu sync.Mutex
	var dialed []time.Time
	r, err := assemble(ctx, s, site{path: netpath.Symmetric(10 * time.Millisecond), hub: hub.NewHub(10, ""), options: transport.Options{Retry: retry},
		fate: func(int) (f netpath.Fate) {
			mu.Lock()
			defer mu.Unlock()
			dialed = append(dialed, time.Now())
			return f
		}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	log := r.hub.Room("")
	log.Publish([]byte("1"))
	var subs []*resume.Subscription
	defer func() {
		for _, sub := range subs {
			sub.Close()
		}
	}()
	for i := range subscribers {
		sub := resume.Subscribe(r.ctx, r.contestant, r.client(""), 0, backoff(i))
		subs = append(subs, sub)
		if err := arrives(sub, 1, []byte("1")); err != nil {
			return nil, err
		}
	}
	var all errgroup.Group
	for _, sub := range subs {
		all.Go(func() error { return arrives(sub, 2, []byte("2")) })
	}
	if err := r.quiet(); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := r.halt(); err != nil {
		return nil, err
	}
	log.Publish([]byte("2"))
	if err := netpath.Sleep(ctx, time.Until(begin.Add(time.Second))); err != nil {
		return nil, err
	}
	if err := r.start(); err != nil {
		return nil, err
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	again := dialed[subscribers:]
	if len(again) != subscribers {
		return nil, fmt.Errorf("%s: %d subscribers came back over %d connections", s, subscribers, len(again))
	}
	for _, at := range again {
		back = append(back, at.Sub(begin))
	}
	return back, nil
}
