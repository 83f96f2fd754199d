package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"pushcost/internal/feed"
	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/resume"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A Storm is a subscription whose connections are cut, again and again.
type Storm struct {
	Events    uint64        // published
	Cuts      map[State]int // of connections, by what they were about
	Reloads   int           // of the client, which then had its journal and no more
	Lost, Dup int           // events that the client never applied, or once more

	// Suppressed are events that came once more, Repeated those of them that
	// came to a client that had not been reloaded meanwhile.
	Suppressed, Repeated int
}

// Metrics are the figures of a storm that have to be zero.
func (s Storm) Metrics() []Metric {
	return []Metric{{"lost", float64(s.Lost)}, {"dup", float64(s.Dup)}}
}

// What a storm is like. There are eight events a second; a connection is cut
// after a second or two, and now and then the server is restarted or the
// client reloaded.
const (
	stormPause     = 250 * time.Millisecond // from one publication, of one to three events, to the next: a mean, like the next two
	stormRestarts  = 5 * time.Second
	stormReloads   = 30 * time.Second
	stormDown      = 2 * time.Second // the longest that a restart takes
	stormHeartbeat = time.Second
	stormPatience  = 2500 * time.Millisecond // two heartbeats and a half
	stormSilence   = 5 * time.Second         // until the server gives a silent connection up
	stormLog       = 1000                    // events that the log keeps: none is ever gone
	stormSaves     = 10                      // events from one saving of the client's cursor to the next
)

// Weather makes a storm, from a seed, of at least this many cuts over a setup.
// Every event that comes is compared with what was published.
func Weather(ctx context.Context, s setup.Setup, seed uint64, cuts int) (storm Storm, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, seed %d: %w", s, seed, err)
		}
	}()
	chance := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	w := &weather{setup: s, chance: chance(0), left: cuts, live: map[int]bool{}, cuts: map[State]int{}}
	r, err := assemble(ctx, s, site{
		path:    netpath.Symmetric(10 * time.Millisecond),
		fate:    w.fate,
		hub:     hub.NewHub(stormLog, ""),
		options: transport.Options{Heartbeat: stormHeartbeat},
	})
	if err != nil {
		return storm, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	log, reader := r.hub.Room(""), newReader(r, chance(1))
	trouble, calm := context.WithCancel(r.ctx)
	defer calm()
	g, ctx := errgroup.WithContext(r.ctx)
	g.Go(func() error { return w.restart(trouble, r, chance(2)) })
	g.Go(func() error {
		chance := chance(3)
		for netpath.Sleep(trouble, exponential(chance, stormPause)) == nil {
			for range 1 + chance.IntN(3) {
				storm.Events++
				log.Publish(numbered(storm.Events))
			}
		}
		return nil
	})
	g.Go(func() error {
		defer calm()
		return reader.read(ctx, w.over)
	})
	if err := g.Wait(); err != nil {
		return storm, err
	}
	storm.Events++ // had another come twice, it would come before this one
	log.Publish(numbered(storm.Events))
	if err := reader.read(r.ctx, func() bool { return reader.next > storm.Events }); err != nil {
		return storm, err
	}
	reader.Storm.Events, reader.Storm.Cuts = storm.Events, maps.Clone(w.cuts)
	return reader.Storm, nil
}

// numbered is the event of this number: a trade, to have many lengths.
func numbered(n uint64) []byte {
	all := trades()
	return fmt.Appendf(nil, `{"n":%d,"trade":%s}`, n, all[n%uint64(len(all))])
}

var trades = sync.OnceValue(feed.Trades)

func exponential(chance *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(chance.ExpFloat64() * float64(mean))
}

// A weather decides what happens to connections, and to the server.
type weather struct {
	setup setup.Setup

	mu     sync.Mutex
	chance *rand.Rand
	left   int // cuts to be made
	live   map[int]bool
	cuts   map[State]int
}

func (w *weather) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left <= 0
}

// fate draws that of the n-th connection.
func (w *weather) fate(n int) (f netpath.Fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live[n] = true
	f.Ended = func(e netpath.End) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if e.Cut && w.live[n] {
			w.cuts[stateOf(w.setup, e.Sent, e.Received)]++
			w.left--
		}
		delete(w.live, n)
	}
	if w.left <= 0 {
		return f
	}
	f.After, f.Part = 6*time.Second, w.chance.Float64()
	switch draw := w.chance.IntN(100); {
	case draw < 15:
		f.Write = 1
	case draw < 25:
		f.Read = 1
	case draw < 45:
		f.Write = 2 + w.chance.IntN(4)
	case draw < 75:
		f.Read = 2 + w.chance.IntN(8)
	default:
		f.After = exponential(w.chance, 2*time.Second)
	}
	if w.chance.IntN(3) == 0 {
		f.Part = 0 // before it rather than within it
	}
	if w.chance.IntN(4) == 0 {
		f.Silent = stormSilence
	}
	return f
}

// restart restarts the server now and then until ctx ends.
func (w *weather) restart(ctx context.Context, r *rig, chance *rand.Rand) error {
	for netpath.Sleep(ctx, exponential(chance, stormRestarts)) == nil {
		w.mu.Lock()
		w.cuts[restarted] += len(w.live)
		w.left -= len(w.live)
		clear(w.live)
		w.mu.Unlock()
		if err := r.halt(); err != nil {
			return err
		}
		time.Sleep(time.Duration(chance.Int64N(int64(stormDown))))
		if err := r.start(); err != nil {
			return err
		}
	}
	return nil
}

// A reader is the application at the client.
type reader struct {
	rig     *rig
	client  *transport.Client
	chance  *rand.Rand
	journal resume.Journal // all that a reload leaves
	next    uint64         // the event that is to be applied
	Storm
}

func newReader(r *rig, chance *rand.Rand) *reader {
	c := r.client("")
	c.HTTP.DialContext = resume.Watch(c.HTTP.DialContext, stormPatience)
	return &reader{rig: r, client: c, chance: chance, journal: resume.Journal{Every: stormSaves}, next: 1}
}

// read reads events, with a reload now and then, until it is over.
func (c *reader) read(ctx context.Context, over func() bool) error {
	backoff := resume.Backoff{Base: 100 * time.Millisecond, Cap: 3 * time.Second, Rand: c.chance}
	for !over() {
		life, end := context.WithTimeout(ctx, exponential(c.chance, stormReloads))
		sub := resume.Subscribe(life, c.rig.contestant, c.client, c.journal.Cursor, backoff)
		last := c.journal.Cursor // in this life
		for !over() {
			e, err := sub.Next()
			if life.Err() != nil {
				c.Reloads++
				break
			}
			if err == nil {
				err = c.apply(e)
			}
			if err != nil {
				end()
				return err
			}
			if e.ID <= last {
				c.Repeated++
			}
			last = e.ID
		}
		sub.Close()
		end()
	}
	return ctx.Err()
}

// apply applies an event that the journal does not know. Its number has to be
// that of its id, so that ids tell what was lost and what came twice.
func (c *reader) apply(e hub.Event) error {
	if want := numbered(e.ID); !bytes.Equal(e.Data, want) {
		return fmt.Errorf("event %d is %.60q instead of %.60q", e.ID, e.Data, want)
	}
	if !c.journal.Take(e) {
		c.Suppressed++
		return nil
	}
	if e.ID < c.next {
		c.Dup++
		return nil
	}
	c.Lost += int(e.ID - c.next)
	c.next = e.ID + 1
	return nil
}
