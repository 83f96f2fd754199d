package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"pushcost/internal/board"
	"pushcost/internal/command"
	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// The document's run: 400 commands.
const (
	bursts   = 40
	perBurst = 10
)

// A BurstPlan is how bursts of commands are sent, each command without waiting
// for the one before.
type BurstPlan struct {
	Path netpath.Path

	// Every is the time between two commands of a burst. In virtual time it
	// keeps them from arriving at one instant, where their order is nobody's.
	Every time.Duration

	// Jitter bounds how much later, from Seed, a handler takes up each command
	// that has come.
	Jitter time.Duration
	Seed   uint64

	Buffer bool // commands are put into the order of their numbers: a [command.Order]
}

// Bursts are what became of a plan's commands. Every one's patch came once.
type Bursts struct {
	Setup     setup.Setup
	Sent      int // in bursts
	Delivered int // patches of those
	Wire      int // pairs of a burst that the server read in the other order than they were sent, of 45
	Applied   int // pairs that it applied so

	// AckToPatch is how long after its answer the patch of each command came;
	// negative: before. A WebSocket has no answers.
	AckToPatch []time.Duration
}

// Burst sends bursts of commands from one client, written in program order,
// and waits for the patches after each. The order on the wire is that in which
// the server's sockets are read, and of a WebSocket, whose frames are masked,
// that of its messages. So it is not for TLS.
func Burst(ctx context.Context, s setup.Setup, p BurstPlan) (b Bursts, err error) {
	b = Bursts{Setup: s}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", s, err)
		}
	}()
	const room = "r1"
	script := board.Script(1+bursts*perBurst, board.Rows)
	h := hub.NewHub(len(script)+1, room)
	contestant, err := s.Contestant()
	if err != nil {
		return b, err
	}
	handler := onBoards(h, board.Utility, board.Row, contestant.JSON, room)
	var policy command.Policy
	if p.Buffer {
		policy.Order = command.NewOrder(perBurst, time.Minute)
	}
	var wire order
	post, message, tarry := command.Post(handler, policy), command.Message(handler, policy), p.tarry()
	options := transport.Options{
		Commands: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tarry()
			post.ServeHTTP(w, r)
		}),
		Message: func(r *http.Request, data []byte) *transport.Refusal {
			wire.see(data)
			tarry()
			return message(r, data)
		},
	}
	r, err := assemble(ctx, s, site{path: p.Path, hub: h, options: options, tap: wire.tapped})
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	client := r.client(room)
	stream, err := r.open(client, 0)
	if err != nil {
		return b, err
	}
	defer stream.Close()
	arrived := make(chan patched, len(script)+1) // all that may come
	go func() {
		for range cap(arrived) {
			event, err := stream.Next()
			arrived <- patched{event, time.Now(), err}
			if err != nil {
				return
			}
		}
	}()
	if err := r.subscribed(room); err != nil {
		return b, err
	}

	seq := uint64(0)
	// send sends commands and waits for what comes of them: answers and patches.
	send := func(burst []board.Command) (answers, patches []time.Time, applied []string, err error) {
		answers, patches = make([]time.Time, len(burst)), make([]time.Time, len(burst))
		var acks errgroup.Group
		for i, c := range burst {
			if err := netpath.Sleep(ctx, p.Every); err != nil {
				return nil, nil, nil, err
			}
			seq++
			ack, err := stream.Send(command.Command{ID: c.Row, Nonce: c.Nonce, Seq: seq}.Encode())
			if err != nil {
				return nil, nil, nil, err
			}
			acks.Go(func() error {
				err := ack()
				answers[i] = time.Now()
				return err
			})
		}
		if err := acks.Wait(); err != nil {
			return nil, nil, nil, err
		}
		for range burst {
			p := <-arrived
			if p.err != nil {
				return nil, nil, nil, p.err
			}
			i := slices.IndexFunc(burst, func(c board.Command) bool { return bytes.Contains(p.event.Data, []byte(c.Nonce)) })
			if i < 0 || !patches[i].IsZero() {
				return nil, nil, nil, fmt.Errorf("a patch came twice, or is of no command that was sent: %.200q", p.event.Data)
			}
			patches[i] = p.at
			applied = append(applied, burst[i].Nonce)
		}
		return answers, patches, applied, nil
	}

	requests := client.Requests()
	if _, _, _, err := send(script[:1]); err != nil { // finds the way
		return b, err
	}
	posts := client.Requests() > requests
	if posts {
		if err := fill(ctx, client); err != nil {
			return b, err
		}
	}
	for burst := range slices.Chunk(script[1:], perBurst) {
		wire.take()
		answers, patches, applied, err := send(burst)
		if err != nil {
			return b, err
		}
		seen := wire.take()
		if len(seen) != len(burst) {
			return b, fmt.Errorf("%d commands were sent, and on the wire are %d: %v", len(burst), len(seen), seen)
		}
		b.Sent += len(burst)
		b.Delivered += len(applied)
		b.Wire += inversions(burst, seen)
		b.Applied += inversions(burst, applied)
		for i := range burst {
			if posts {
				b.AckToPatch = append(b.AckToPatch, patches[i].Sub(answers[i]))
			}
		}
	}
	// Had a patch come twice, it would come before this.
	end := h.Room(room).Publish([]byte(`"end"`))
	last := <-arrived
	if last.err == nil && !bytes.Equal(last.event.Data, end.Data) {
		last.err = fmt.Errorf("a patch came twice: %.200q", last.event.Data)
	}
	return b, last.err
}

type patched struct {
	event hub.Event
	at    time.Time
	err   error
}

// tarry returns what a handler does before each command.
func (p BurstPlan) tarry() func() {
	if p.Jitter == 0 {
		return func() {}
	}
	var mu sync.Mutex
	draw := rand.New(rand.NewPCG(p.Seed, 0))
	return func() {
		mu.Lock()
		d := time.Duration(draw.Int64N(int64(p.Jitter)))
		mu.Unlock()
		time.Sleep(d)
	}
}

// fill opens the connections that a client may have beside its stream, where
// their number is limited: those of HTTP/1.1.
func fill(ctx context.Context, c *transport.Client) error {
	var all errgroup.Group
	for range c.HTTP.MaxConnsPerHost - 1 {
		all.Go(func() error {
			req, err := http.NewRequestWithContext(ctx, "HEAD", c.URL+"/"+c.Room+"/commands", nil)
			if err != nil {
				return err
			}
			resp, err := c.HTTP.RoundTrip(req)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		})
	}
	return all.Wait()
}

// inversions is the number of pairs of a burst that are seen in the other order.
func inversions(burst []board.Command, seen []string) (pairs int) {
	for i, a := range burst {
		for _, b := range burst[i+1:] {
			if slices.Index(seen, b.Nonce) < slices.Index(seen, a.Nonce) {
				pairs++
			}
		}
	}
	return pairs
}

// Figures are the bursts' figures. On real sockets they depend on the
// machine's scheduling.
func (b Bursts) Figures() []Metric {
	prefix := ""
	if b.Setup.Net == "loopback" {
		prefix = "wall-"
	}
	figures := []Metric{
		{"sent", float64(b.Sent)},
		{"delivered", float64(b.Delivered)},
		{prefix + "wire-inversions", float64(b.Wire)},
		{prefix + "applied-inversions", float64(b.Applied)},
	}
	if len(b.AckToPatch) > 0 {
		figures = append(figures, Metric{prefix + "ack-patch-p50-ns", math.Round(nanoseconds(b.AckToPatch).Quantile(0.5))})
	}
	return figures
}
