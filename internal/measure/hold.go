package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pushcost/internal/child"
	"pushcost/internal/crowd"
	"pushcost/internal/fleet"
	"pushcost/internal/setup"
)

// A Hold is an experiment: what does a connection cost that a server holds?
type Hold struct {
	Setup setup.Setup

	// The cost is the slope between two populations, of which the smaller one
	// has been used: pools are filled, the process has grown to its size.
	Few, Many int

	Streams int // to one connection over HTTP/2; 0: one
	State   int // bytes that the application keeps for each

	// Events are broadcast to all, each so many times: they make a used
	// connection of an idle one.
	Events [][]byte
	Times  int // 0: once
}

// Held is what a server of many connections holds, and spends.
type Held struct {
	Hold
	Base child.Memory // with few connections
	Idle child.Memory // with many, of which most were never used
	Used child.Memory // after broadcasts to all, heartbeats, messages and pings

	Took    time.Duration // to open those between
	OpenCPU time.Duration // the server's, for that
	BeatCPU time.Duration // the server's, for a heartbeat to all and their answers
}

// Run runs the experiment. It fails unless every client gets every event.
func (h Hold) Run(ctx context.Context) (held Held, err error) {
	held = Held{Hold: h}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", h.Setup, err)
		}
	}()
	g, err := gather(ctx, crowd.StartArgs{Setup: h.Setup, State: h.State})
	if err != nil {
		return held, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	if _, err := g.grow(h.Few, h.Streams); err != nil {
		return held, err
	}
	if _, err := g.use(h.Events, max(1, h.Times)); err != nil {
		return held, err
	}
	if held.Base, err = g.server.Memory(); err != nil {
		return held, err
	}
	held.OpenCPU, err = g.cpu(func() (err error) {
		held.Took, err = g.grow(h.Many, h.Streams)
		return err
	})
	if err != nil {
		return held, err
	}
	if held.Idle, err = g.server.Memory(); err != nil {
		return held, err
	}
	if held.BeatCPU, err = g.use(h.Events, max(1, h.Times)); err != nil {
		return held, err
	}
	held.Used, err = g.server.Memory()
	return held, err
}

// use has the server and its clients do all they can do: heartbeats,
// broadcasts, messages and pings from the clients. It returns the server's CPU
// time for a heartbeat to all.
func (g *gathering) use(events [][]byte, times int) (beat time.Duration, err error) {
	later := times > 1 && g.setup.Transport != "poll" // who polls has to ask for each
	for _, event := range events {
		if _, _, err := g.publish(crowd.BroadcastArgs{Data: event, Times: times}, later); err != nil {
			return 0, err
		}
	}
	once := func() error {
		_, _, err := g.broadcast(events[0], 1)
		return err
	}
	// A heartbeat has arrived when the event after it has. A ping's answer comes
	// after all that its client had sent before.
	alone, err := g.cpu(once)
	if err != nil {
		return 0, err
	}
	if err := g.there(); err != nil {
		return 0, err
	}
	both, err := g.cpu(func() error {
		if err := g.server.Call("Beat", 0, new(int)); err != nil {
			return err
		}
		return once()
	})
	if err != nil {
		return 0, err
	}
	if err := g.clients.Call("Send", fleet.SendArgs{Data: []byte("hello")}, new(int)); err != nil {
		return 0, err
	}
	if err := g.clients.Call("Ping", fleet.PingArgs{Timeout: enough}, new(int)); err != nil {
		return 0, err
	}
	return max(0, both-alone), g.there()
}

// Conns is the number of connections between the two populations.
func (h Held) Conns() int { return h.Many - h.Few }

// per is what a connection adds to a quantity of the server's.
func (h Held) per(now child.Memory, of func(child.Memory) int64) float64 {
	return float64(of(now)-of(h.Base)) / float64(h.Conns())
}

// Metrics are what a connection costs in a state, idle or used.
func (h Held) Metrics(state child.Memory) []Metric {
	count := func(n func(child.Memory) int) float64 {
		return h.per(state, func(m child.Memory) int64 { return int64(n(m)) })
	}
	metrics := []Metric{
		{"RSS-B/conn", h.per(state, func(m child.Memory) int64 { return m.RSS })},
		{"heap-B/conn", h.per(state, func(m child.Memory) int64 { return m.Heap })},
		{"stack-B/conn", h.per(state, func(m child.Memory) int64 { return m.Stack })},
		{"goroutines/conn", count(func(m child.Memory) int { return m.Goroutines })},
		{"fds/conn", count(func(m child.Memory) int { return m.FDs })},
	}
	if state.Kernel > 0 {
		metrics = append(metrics, Metric{"kernel-B/conn", h.per(state, func(m child.Memory) int64 { return m.Kernel })})
	}
	return metrics
}

// Heap is what an idle connection costs in live objects, in bytes.
func (h Held) Heap() float64 {
	return h.per(h.Idle, func(m child.Memory) int64 { return m.Heap })
}

// UsedHeap is what a used one costs in them.
func (h Held) UsedHeap() float64 {
	return h.per(h.Used, func(m child.Memory) int64 { return m.Heap })
}

// Stack is what it costs in stacks of goroutines, in bytes.
func (h Held) Stack() float64 {
	return h.per(h.Idle, func(m child.Memory) int64 { return m.Stack })
}

// UsedLive is what a used connection costs in heap and stacks.
func (h Held) UsedLive() float64 {
	return h.per(h.Used, func(m child.Memory) int64 { return m.Heap + m.Stack })
}

// Live is both: what repeats from run to run.
func (h Held) Live() float64 { return h.Heap() + h.Stack() }

// Resident is what a connection costs in pages, in bytes.
func (h Held) Resident(state child.Memory) float64 {
	return h.per(state, func(m child.Memory) int64 { return m.RSS })
}

// Opening are the figures of opening the connections, and of a heartbeat.
func (h Held) Opening() []Metric {
	each := func(d time.Duration) float64 { return float64(d) / float64(h.Conns()) }
	return []Metric{
		{"conns/s", float64(h.Conns()) / h.Took.Seconds()},
		{"cpu-ns/conn", each(h.OpenCPU)},
		{"cpu-ns/beat", float64(h.BeatCPU) / float64(h.Many)},
	}
}
