package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pushcost/internal/child"
	"pushcost/internal/command"
	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// An UpstreamPlan is one client that sends messages up at a steady rate,
// without waiting for one before the next.
type UpstreamPlan struct {
	Messages int
	Every    time.Duration
	Path     netpath.Path
}

// An Upstream is what the messages took. Each arrived once.
type Upstream struct {
	Setup   setup.Setup
	Latency []time.Duration // from when a message was due to its handler
	Conns   int             // connections dialed for messages
	Bytes   netpath.Count   // both ways, answers included; without the first message
	CPU     time.Duration   // of this process meanwhile
}

// Send sends a plan's messages up a setup, after a first one that opens what
// connection it needs.
func Send(ctx context.Context, s setup.Setup, p UpstreamPlan) (u Upstream, err error) {
	u.Setup = s
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", s, err)
		}
	}()
	type handled struct {
		id int
		at time.Time
	}
	arrived := make(chan handled, p.Messages+1)
	handler := func(_ string, id int, _ string) error {
		arrived <- handled{id, time.Now()}
		return nil
	}
	r, err := assemble(ctx, s, site{path: p.Path, hub: hub.NewHub(1, ""), options: transport.Options{
		Commands: command.Post(handler, command.Policy{}),
		Message:  command.Message(handler, command.Policy{}),
	}})
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	client, err := r.commander("")
	if err != nil {
		return u, err
	}
	defer client.Close()
	connected := r.network.Count()
	send := func(id int) (ack func() error, err error) {
		return client.Send(command.Command{ID: id, Nonce: fmt.Sprintf("%08x", id)}.Encode())
	}
	if ack, err := send(0); err != nil {
		return u, err
	} else if err := ack(); err != nil {
		return u, err
	}
	<-arrived
	if err := r.quiet(); err != nil {
		return u, err
	}
	cpu := child.CPU()
	before, begin := r.network.Count(), time.Now()
	due := func(id int) time.Time { return begin.Add(time.Duration(id-1) * p.Every) }
	var acks []func() error
	for id := 1; id <= p.Messages; id++ {
		if err := netpath.Sleep(ctx, time.Until(due(id))); err != nil {
			return u, err
		}
		ack, err := send(id)
		if err != nil {
			return u, err
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		if err := ack(); err != nil {
			return u, err
		}
	}
	if err := r.quiet(); err != nil {
		return u, err
	}
	u.CPU = child.CPU() - cpu
	after := r.network.Count()
	u.Conns, u.Bytes = after.Sub(connected).Conns, after.Sub(before)
	u.Latency = make([]time.Duration, p.Messages)
	for range p.Messages {
		h := <-arrived
		if h.id < 1 || h.id > p.Messages || u.Latency[h.id-1] != 0 {
			return u, fmt.Errorf("message %d arrived twice, or was never sent", h.id)
		}
		u.Latency[h.id-1] = h.at.Sub(due(h.id))
	}
	return u, nil
}

// Wall are the figures of the messages on real sockets: the software's share.
func (u Upstream) Wall() []Metric { return wall(u.Latency, u.CPU, "cpu-ns/command") }

// Figures are those of the messages on a virtual network.
func (u Upstream) Figures() []Metric {
	return append(append(quantiles(u.Latency), Metric{"command-conns", float64(u.Conns)}), commandBytes(u.Setup, u.Bytes)...)
}
