package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"pushcost/internal/crowd"
	"pushcost/internal/fleet"
	"pushcost/internal/setup"
)

// Laggards is an experiment: some clients read no more. Do the others notice?
type Laggards struct {
	Setup          setup.Setup
	Stalled, Awake int // clients
}

// Run broadcasts, event after event, until the stalled have left the registry.
// It fails unless every client that is awake gets every one of them. Between is
// how many all of these had while the stalled were still in the registry: nobody
// had waited for them to go.
func (l Laggards) Run(ctx context.Context) (between int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", l.Setup, err)
		}
	}()
	g, err := gather(ctx, crowd.StartArgs{Setup: l.Setup})
	if err != nil {
		return between, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	// Their sockets take little, so that they are soon behind.
	slow := fleet.DialArgs{Setup: l.Setup, Addr: g.addr, N: l.Stalled, Window: 4 << 10}
	if err := g.clients.Call("Dial", slow, new(fleet.Dialed)); err != nil {
		return between, err
	}
	g.conns = l.Stalled
	if _, err := g.grow(l.Stalled+l.Awake, 0); err != nil {
		return between, err
	}
	if err := g.clients.Call("Stall", l.Stalled, new(int)); err != nil {
		return between, err
	}
	const most = 400 // events, of which the queues of a server and its kernel hold some tens
	event := bytes.Repeat([]byte("x"), 64<<10)
	for range most {
		var a fleet.Awaited
		if err := g.clients.Call("Expect", fleet.ExpectArgs{Data: event, Times: 1}, new(int)); err != nil {
			return between, err
		}
		if err := g.server.Call("Broadcast", crowd.BroadcastArgs{Data: event, Times: 1}, new(crowd.Broadcasted)); err != nil {
			return between, err
		}
		if err := g.clients.Call("Await", fleet.AwaitArgs{Timeout: enough}, &a); err != nil {
			return between, err
		}
		if a.Missing != 0 {
			return between, fmt.Errorf("%d of %d clients that are awake lack an event", a.Missing, l.Awake)
		}
		var there int
		if err := g.server.Call("Len", 0, &there); err != nil {
			return between, err
		}
		switch there {
		case g.conns:
			between++
		case l.Awake:
			return between, nil
		}
	}
	return between, fmt.Errorf("after %d events the stalled are still in the registry", most)
}
