package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pushcost/internal/child"
	"pushcost/internal/crowd"
	"pushcost/internal/fleet"
	"pushcost/internal/setup"
)

// Roles are what the child processes of these experiments play: a server of
// many connections, alone in its process, so that what this holds and spends is
// the server's; and clients.
var Roles = map[string]any{
	"server":   new(crowd.Service),
	"clients":  new(fleet.Fleet),
	"readers":  new(Readers),
	"together": &together{new(crowd.Service), new(Readers)},
}

// enough is how long anything may take that happens on real sockets. Nothing
// comes near, but that once in a thousand runs one rested for a minute.
const enough = 2 * time.Minute

// A gathering is a server and the many clients that are connected to it.
type gathering struct {
	setup           setup.Setup
	server, clients *child.Child
	addr            string
	conns           int
	events          int     // broadcast so far
	mirror          *mirror // nil: all clients decode
}

// gather starts a server, without clients yet.
func gather(ctx context.Context, args crowd.StartArgs) (*gathering, error) {
	g := &gathering{setup: args.Setup}
	var err error
	if g.server, err = child.Start(ctx, "server", ""); err != nil {
		return nil, err
	}
	if g.clients, err = child.Start(ctx, "clients", ""); err != nil {
		return nil, errors.Join(err, g.server.Stop())
	}
	if err := g.server.Call("Start", args, &g.addr); err != nil {
		return nil, errors.Join(err, g.stop())
	}
	return g, nil
}

func (g *gathering) stop() error { return stop(g.clients, g.server) }

// stop stops all at once: who lives longer would notice each connection's end.
func stop(children ...*child.Child) error {
	return each(children, func(_ int, c *child.Child) error { return c.Stop() })
}

// each does something with all children at once, and says of each what failed.
func each(children []*child.Child, f func(int, *child.Child) error) error {
	errs := make([]error, len(children))
	var all sync.WaitGroup
	for i, c := range children {
		all.Go(func() { errs[i] = f(i, c) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// grow connects clients until there are n, so many of them to one connection
// over HTTP/2, and returns once the server has them all.
func (g *gathering) grow(n, streams int) (took time.Duration, err error) {
	all := fleet.DialArgs{Setup: g.setup, Addr: g.addr, N: n - g.conns, Streams: streams, Cursor: uint64(g.events)}
	parts := []fleet.DialArgs{all}
	if g.mirror != nil {
		parts = g.mirror.joining(all)
	}
	for _, args := range parts {
		var dialed fleet.Dialed
		if err := g.clients.Call("Dial", args, &dialed); err != nil {
			return 0, err
		}
		took += dialed.Took
	}
	g.conns = n
	return took, g.there()
}

// there waits until the server has all clients.
func (g *gathering) there() error {
	return g.server.Call("AwaitLen", crowd.AwaitArgs{N: g.conns, Timeout: enough}, new(int))
}

// broadcast sends an event to all so many times, and returns once every client
// has it as often.
func (g *gathering) broadcast(data []byte, times int) (crowd.Broadcasted, fleet.Awaited, error) {
	return g.publish(crowd.BroadcastArgs{Data: data, Times: times}, false)
}

// publish is broadcast, at a pace. Later means that clients read only when the
// server has written.
func (g *gathering) publish(args crowd.BroadcastArgs, later bool) (b crowd.Broadcasted, a fleet.Awaited, err error) {
	if g.setup.Transport == "poll" { // who is not there is not sent to
		if err := g.there(); err != nil {
			return b, a, err
		}
	}
	expected := []fleet.ExpectArgs{{Data: args.Data, Times: args.Times}}
	if g.mirror != nil {
		expected = g.mirror.expected(args.Data, args.Times)
	}
	for _, next := range expected {
		next.Later = later
		if err := g.clients.Call("Expect", next, new(int)); err != nil {
			return b, a, err
		}
	}
	g.events += args.Times
	if err := g.server.Call("Broadcast", args, &b); err != nil {
		return b, a, err
	}
	if err := g.clients.Call("Await", fleet.AwaitArgs{Timeout: enough}, &a); err != nil {
		return b, a, err
	}
	if b.Dropped != 0 || a.Missing != 0 {
		return b, a, fmt.Errorf("an event for %d clients: %d have it not, %d were dropped", g.conns, a.Missing, b.Dropped)
	}
	return b, a, nil
}

// spent is the server's CPU time for an event. Clients read when the call to
// send it has returned: whom a write wakes is not the server's doing.
func (g *gathering) spent(event []byte) (time.Duration, error) {
	return g.cpu(func() error {
		_, _, err := g.publish(crowd.BroadcastArgs{Data: event, Times: 1}, true)
		return err
	})
}

// cpu is the server's CPU time while f runs.
func (g *gathering) cpu(f func() error) (time.Duration, error) {
	before, err := g.server.CPU()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := g.server.CPU()
	return after - before, err
}

// compressions is how often the server has called an encoder.
func (g *gathering) compressions() (n int64, err error) {
	err = g.server.Call("Compressions", 0, &n)
	return n, err
}
