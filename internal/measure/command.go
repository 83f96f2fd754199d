package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"pushcost/internal/board"
	"pushcost/internal/child"
	"pushcost/internal/command"
	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A CommandPlan is who sends commands, one after the other has had its effect.
type CommandPlan struct {
	Clients int // each with its own room and connections
	Rounds  int // commands of each, besides the first
	Style   board.Style
	Patch   board.Patch
	JSON    bool // patches travel as {"html":"…"}; those of a transport for JSON always do
	Path    netpath.Path
}

// Commands are what it took for commands to come back as patches. Every
// command's patch came once, with its nonce.
type Commands struct {
	Setup  setup.Setup
	First  []time.Duration // from sending a client's first command to its patch
	Steady []time.Duration // the same of all later ones
	Conns  int             // connections dialed for commands, the first included
	Bytes  netpath.Count   // what the later commands and their patches moved
	CPU    time.Duration   // of this process meanwhile
}

// Command sends commands and waits for each one's patch.
func Command(ctx context.Context, s setup.Setup, p CommandPlan) (c Commands, err error) {
	c.Setup = s
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", s, err)
		}
	}()
	var rooms []string
	for i := range p.Clients {
		rooms = append(rooms, fmt.Sprintf("r%d", i+1))
	}
	h := hub.NewHub(p.Rounds+1, rooms...)
	contestant, err := s.Contestant()
	if err != nil {
		return c, err
	}
	handler := onBoards(h, p.Style, p.Patch, p.JSON || contestant.JSON, rooms...)
	r, err := assemble(ctx, s, site{path: p.Path, hub: h, options: transport.Options{
		Commands: command.Post(handler, command.Policy{}),
		Message:  command.Message(handler, command.Policy{}),
	}})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	clients := make([]*commander, p.Clients)
	for i, room := range rooms {
		if clients[i], err = r.commander(room); err != nil {
			return c, err
		}
		defer clients[i].Close()
	}
	script := board.Script(p.Rounds+1, board.Rows)
	took := make([][]time.Duration, p.Clients) // by client and round
	// round sends the commands from and up to to, of all clients at once.
	round := func(from, to int) error {
		var all errgroup.Group
		for i, client := range clients {
			all.Go(func() error {
				for _, next := range script[from:to] {
					d, err := client.do(next)
					if err != nil {
						return err
					}
					took[i] = append(took[i], d)
				}
				return nil
			})
		}
		return all.Wait()
	}
	connected := r.network.Count()
	if err := round(0, 1); err != nil {
		return c, err
	}
	if err := r.quiet(); err != nil {
		return c, err
	}
	before, cpu := r.network.Count(), child.CPU()
	if err := round(1, len(script)); err != nil {
		return c, err
	}
	c.CPU = child.CPU() - cpu
	if err := r.quiet(); err != nil {
		return c, err
	}
	after := r.network.Count()
	c.Conns = after.Sub(connected).Conns
	c.Bytes = after.Sub(before)
	for _, t := range took {
		c.First = append(c.First, t[0])
		c.Steady = append(c.Steady, t[1:]...)
	}
	return c, nil
}

// A commander is a client that sends commands and sees their patches.
type commander struct {
	transport.Stream
	ctx     context.Context // the rig's
	patches chan patch
}

type patch struct {
	event hub.Event
	err   error
}

// commander subscribes a client to a room; the path is quiet when it returns.
func (r *rig) commander(room string) (*commander, error) {
	stream, err := r.open(r.client(room), 0)
	if err != nil {
		return nil, err
	}
	c := &commander{stream, r.ctx, make(chan patch)}
	go func() {
		for {
			event, err := stream.Next()
			select {
			case c.patches <- patch{event, err}:
			case <-r.ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return c, r.subscribed(room)
}

// do sends a command and returns how long it took to come back as a patch.
func (c *commander) do(next board.Command) (took time.Duration, err error) {
	begin := time.Now()
	ack, err := c.Send(command.Command{ID: next.Row, Nonce: next.Nonce}.Encode())
	if err != nil {
		return 0, err
	}
	answered := make(chan error, 1)
	go func() { answered <- ack() }()
	patches := c.patches
	for answered != nil || patches != nil { // either may come first
		select {
		case err := <-answered:
			if answered = nil; err != nil {
				return 0, err
			}
		case p := <-patches:
			took, patches = time.Since(begin), nil
			switch {
			case p.err != nil:
				return 0, p.err
			case !bytes.Contains(p.event.Data, []byte(next.Nonce)):
				return 0, fmt.Errorf("command %s came back as another's patch: %.60q", next.Nonce, p.event.Data)
			}
		case <-c.ctx.Done():
			return 0, c.ctx.Err()
		}
	}
	return took, nil
}

// onBoards is the command handler of rooms with boards, whose patches are
// published as HTML or inside JSON.
func onBoards(h *hub.Hub, style board.Style, patch board.Patch, json bool, rooms ...string) command.Handler {
	boards := board.NewRooms(style, patch, rooms...)
	handler := command.OnBoard(boards, h)
	if publish := boards.Publish; json {
		boards.Publish = func(room string, patch []byte) { publish(room, inJSON(patch)) }
	}
	return handler
}

// inJSON wraps HTML as a JavaScript server does, escaping quotes only.
func inJSON(html []byte) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(struct { // a string always encodes
		HTML string `json:"html"`
	}{string(html)})
	return bytes.TrimSpace(b.Bytes())
}

// Figures are those of the commands on a virtual network.
func (c Commands) Figures() []Metric {
	return append(quantiles(c.Steady), Metric{"first-p50-ns", nanoseconds(c.First).Quantile(0.5)}, Metric{"command-conns", float64(c.Conns)})
}

// ByteFigures are the bytes of all commands but the first.
func (c Commands) ByteFigures() []Metric { return commandBytes(c.Setup, c.Bytes) }

// commandBytes are what commands moved. Over HTTP/2 the answer to a command and
// its patch are two handlers' frames, which share a TLS record if they meet.
func commandBytes(s setup.Setup, c netpath.Count) []Metric {
	up, down := "cmd-up-B", "cmd-down-B"
	if s.HTTP == transport.HTTP2 {
		up, down = "h2-"+up, "h2-"+down
	}
	return []Metric{{up, float64(c.Up.Bytes)}, {down, float64(c.Down.Bytes)}}
}

// Wall are the figures of the commands on real sockets: the software's share.
// Of many clients at once a latency is mostly a queue for the machine's cores.
func (c Commands) Wall() []Metric {
	metrics := wall(c.Steady, c.CPU, "cpu-ns/command")
	if len(c.First) > 1 {
		metrics[0].Unit, metrics[1].Unit = "crowd-p50-ns", "crowd-p99-ns"
	}
	return metrics
}
