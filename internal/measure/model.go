package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pushcost/internal/child"
	"pushcost/internal/crowd"
	"pushcost/internal/fleet"
)

// Model is Run without sockets: the same server, and clients of which there is
// no more than what each sends first. Of those there can be as many as memory
// holds. They send nothing more, and no heartbeat is answered.
func (h Hold) Model(ctx context.Context) (held Held, err error) {
	held = Held{Hold: h}
	defer func() {
		if err != nil {
			err = fmt.Errorf("model of %s: %w", h.Setup, err)
		}
	}()
	opening, err := fleet.Opening(h.Setup)
	if err != nil {
		return held, err
	}
	server, err := child.Start(ctx, "server", "")
	if err != nil {
		return held, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := server.Call("Start", crowd.StartArgs{Setup: h.Setup, State: h.State, Stubs: true}, new(string)); err != nil {
		return held, err
	}
	grow := func(from, to int) (m child.Memory, err error) {
		if err := server.Call("Admit", crowd.AdmitArgs{Opening: opening, N: to - from}, new(int)); err != nil {
			return m, err
		}
		if err := server.Call("AwaitLen", crowd.AwaitArgs{N: to, Timeout: enough}, new(int)); err != nil {
			return m, err
		}
		return server.Memory()
	}
	if _, err := grow(0, h.Few); err != nil {
		return held, err
	}
	if err := h.push(server, h.Few); err != nil {
		return held, err
	}
	if held.Base, err = server.Memory(); err != nil {
		return held, err
	}
	if held.Idle, err = grow(h.Few, h.Many); err != nil {
		return held, err
	}
	if err := h.push(server, h.Many); err != nil {
		return held, err
	}
	held.Used, err = server.Memory()
	return held, err
}

// framing is what a transport adds to an event shorter than 126 bytes: a
// WebSocket's header; "data: ", two line feeds and a chunk's size and ends.
var framing = map[string]int{"ws": 2, "sse": 14}

// push broadcasts the events to n stubs, and returns once as many bytes were
// written to them as that takes.
func (h Hold) push(server *child.Child, n int) error {
	var want int64
	if err := server.Call("Taken", 0, &want); err != nil {
		return err
	}
	for _, event := range h.Events {
		want += int64(n * (len(event) + framing[h.Setup.Transport]))
		if err := server.Call("Broadcast", crowd.BroadcastArgs{Data: event, Times: 1}, new(crowd.Broadcasted)); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(enough); ; {
		var taken int64
		if err := server.Call("Taken", 0, &taken); err != nil || taken == want {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d events to %d: %d bytes were written, not %d", len(h.Events), n, taken, want)
		}
	}
}
