package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"pushcost/internal/child"
	"pushcost/internal/crowd"
	"pushcost/internal/feed"
	"pushcost/internal/fleet"
	"pushcost/internal/setup"
)

// A Capacity is an experiment: how many connections at once, of how many
// server processes behind one address (SO_REUSEPORT)?
type Capacity struct {
	Setup   setup.Setup
	Servers int
	Conns   int
}

// A Full is how they were held. Every client got an event.
type Full struct {
	Capacity
	Each   []int         // connections, by server
	RSS    int64         // of all servers, in bytes
	Opened time.Duration // all connections
	Sent   time.Duration // an event to all
}

// Run runs the experiment, with as many processes of clients as of servers: for
// both a descriptor is the limit.
func (c Capacity) Run(ctx context.Context) (full Full, err error) {
	full = Full{Capacity: c}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", c.Setup, err)
		}
	}()
	var servers, fleets []*child.Child
	defer func() { err = errors.Join(err, stop(append(fleets, servers...)...)) }()
	addr := ""
	for range c.Servers {
		for role, into := range map[string]*[]*child.Child{"server": &servers, "clients": &fleets} {
			started, err := child.Start(ctx, role, "")
			if err != nil {
				return full, err
			}
			*into = append(*into, started)
		}
		if err := servers[len(servers)-1].Call("Start", crowd.StartArgs{Setup: c.Setup, Addr: addr, ReusePort: true}, &addr); err != nil {
			return full, err
		}
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return full, err
	}
	begin := time.Now()
	if err := each(fleets, func(i int, f *child.Child) error {
		from := fmt.Sprintf("127.0.0.%d", i+1) // an address has no more than its ports
		return f.Call("Dial", fleet.DialArgs{Setup: c.Setup, Addr: "127.0.0.1:" + port, From: from, N: c.Conns / c.Servers}, new(fleet.Dialed))
	}); err != nil {
		return full, err
	}
	full.Opened = time.Since(begin)
	if full.Each, err = shared(servers, c.Conns); err != nil {
		return full, err
	}
	for _, s := range servers {
		m, err := s.Memory()
		if err != nil {
			return full, err
		}
		full.RSS += m.RSS
	}
	event := feed.Trades()[0]
	for _, f := range fleets {
		if err := f.Call("Expect", fleet.ExpectArgs{Data: event, Times: 1}, new(int)); err != nil {
			return full, err
		}
	}
	begin = time.Now()
	if err := each(servers, func(_ int, s *child.Child) error {
		return s.Call("Broadcast", crowd.BroadcastArgs{Data: event, Times: 1}, new(crowd.Broadcasted))
	}); err != nil {
		return full, err
	}
	for _, f := range fleets {
		var a fleet.Awaited
		if err := f.Call("Await", fleet.AwaitArgs{Timeout: enough}, &a); err != nil {
			return full, err
		}
		if a.Missing != 0 {
			return full, fmt.Errorf("%d clients lack the event", a.Missing)
		}
	}
	full.Sent = time.Since(begin)
	return full, nil
}

// shared waits until the servers have n connections together: a client is
// answered before it is in the registry. It returns how many each has.
func shared(servers []*child.Child, n int) (conns []int, err error) {
	conns = make([]int, len(servers))
	for deadline := time.Now().Add(enough); ; {
		all := 0
		for i, s := range servers {
			if err := s.Call("Len", 0, &conns[i]); err != nil {
				return nil, err
			}
			all += conns[i]
		}
		if all == n {
			return conns, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("of %d connections the servers have %d", n, all)
		}
	}
}
