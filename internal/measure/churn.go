package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pushcost/internal/child"
	"pushcost/internal/crowd"
	"pushcost/internal/feed"
	"pushcost/internal/fleet"
	"pushcost/internal/setup"
)

// A Churn is an experiment: clients come and leave without a word, again and
// again, while some stay. What is left of those who left?
type Churn struct {
	Setup       setup.Setup
	Stay, Leave int // clients; of the latter, per cycle
	Cycles      int
}

// A Churned is what a server holds before and after.
type Churned struct {
	Before, After Registry
}

// A Registry is whom a server would send to, and what that takes.
type Registry struct {
	Len    int
	Memory child.Memory
	CPU    []time.Duration // of broadcasts to those who stayed
}

// TimesCPU is a broadcast's CPU time as a multiple of another's: medians.
func (r Registry) TimesCPU(other Registry) float64 { return median(r.CPU) / median(other.CPU) }

// Run runs the experiment. Broadcasts reach all who stay.
func (c Churn) Run(ctx context.Context) (result Churned, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", c.Setup, err)
		}
	}()
	g, err := gather(ctx, crowd.StartArgs{Setup: c.Setup})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	if _, err := g.grow(c.Stay, 0); err != nil {
		return result, err
	}
	if err := g.leave(c, 1); err != nil { // pools fill, maps grow
		return result, err
	}
	if result.Before, err = g.registry(); err != nil {
		return result, err
	}
	if err := g.leave(c, c.Cycles); err != nil {
		return result, err
	}
	result.After, err = g.registry()
	return result, err
}

// leave has clients come and leave, and returns once the server has closed their
// connections.
func (g *gathering) leave(c Churn, cycles int) error {
	before, err := g.server.Memory()
	if err != nil {
		return err
	}
	for range cycles {
		var dialed fleet.Dialed
		if err := g.clients.Call("Dial", fleet.DialArgs{Setup: g.setup, Addr: g.addr, N: c.Leave}, &dialed); err != nil {
			return err
		}
		if err := g.clients.Call("Cut", fleet.CutArgs{N: c.Leave, Reset: true}, new(int)); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(enough); ; {
		m, err := g.server.Memory()
		if err != nil || m.FDs == before.FDs {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d descriptors are left of %d connections", m.FDs-before.FDs, cycles*c.Leave)
		}
	}
}

// registry broadcasts a few times so many events that the calls do not count.
func (g *gathering) registry() (r Registry, err error) {
	const times, events = 5, 500
	if err := g.server.Call("Len", 0, &r.Len); err != nil {
		return r, err
	}
	for range times {
		cpu, err := g.cpu(func() error {
			_, _, err := g.broadcast(feed.Trades()[0], events)
			return err
		})
		if err != nil {
			return r, err
		}
		r.CPU = append(r.CPU, cpu)
	}
	r.Memory, err = g.server.Memory()
	return r, err
}
