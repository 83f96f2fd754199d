package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/codec"
	"pushcost/internal/feed"
	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
	"pushcost/internal/virtual"
)

// TestMain runs the tests in a process with the settings that contestants
// need of it.
func TestMain(m *testing.M) {
	settings := os.Getenv("GODEBUG")
	for _, t := range transport.All {
		if t.GODEBUG != "" && !strings.Contains(settings, t.GODEBUG) {
			settings = strings.TrimPrefix(settings+","+t.GODEBUG, ",")
		}
	}
	if settings == os.Getenv("GODEBUG") {
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), "GODEBUG="+settings)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Run()
	os.Exit(cmd.ProcessState.ExitCode())
}

// every calls f with all that the table of contestants offers.
func every(t *testing.T, f func(t *testing.T, s setup.Setup)) {
	for _, c := range transport.All {
		for _, version := range c.Over {
			for _, coding := range append(c.Codecs, codec.Identity) {
				for _, secure := range []string{"", "1.3"} {
					s := setup.Setup{Transport: c.Name, Lib: c.Lib, HTTP: version, TLS: secure, Headers: "chrome", Codec: coding}
					t.Run(s.String(), func(t *testing.T) { f(t, s) })
					if c.IDs {
						s.IDs = "on"
						t.Run(s.String(), func(t *testing.T) { f(t, s) })
					}
				}
			}
		}
	}
}

func TestEveryContestantDelivers(t *testing.T) {
	events := feed.Trades()[:100]
	every(t, func(t *testing.T, s setup.Setup) {
		require.NoError(t, virtual.Run(func(ctx context.Context) error {
			d, err := Deliver(ctx, s, Paced(events))
			assert.Positive(t, d.Open.Up.Bytes, "the opening is counted")
			assert.Positive(t, d.Steady.Down.Bytes, "and what follows")
			return err
		}))
	})
}

func TestEveryContestantResumes(t *testing.T) {
	events := feed.Trades()[:100]
	every(t, func(t *testing.T, s setup.Setup) {
		require.NoError(t, virtual.Run(func(ctx context.Context) (err error) {
			r, err := assemble(ctx, s, site{path: netpath.Symmetric(time.Millisecond), hub: hub.NewHub(len(events), "")})
			require.NoError(t, err)
			defer func() { err = errors.Join(err, r.stop()) }()
			for _, event := range events {
				r.hub.Room("").Publish(event)
			}
			stream, err := r.open(r.client(""), 40)
			if err != nil {
				return err
			}
			for id := uint64(41); id <= 100; id++ {
				if err := arrives(stream, id, events[id-1]); err != nil {
					return err
				}
			}
			return nil
		}))
	})
}

func TestEveryContestantAnswersACursorThatIsGone(t *testing.T) {
	every(t, func(t *testing.T, s setup.Setup) {
		err := virtual.Run(func(ctx context.Context) (err error) {
			r, err := assemble(ctx, s, site{path: netpath.Symmetric(time.Millisecond), hub: hub.NewHub(10, "")})
			require.NoError(t, err)
			defer func() { err = errors.Join(err, r.stop()) }()
			for range 100 {
				r.hub.Room("").Publish([]byte("1"))
			}
			stream, err := r.open(r.client(""), 40)
			if err == nil {
				_, err = stream.Next()
			}
			return err
		})
		assert.ErrorIs(t, err, hub.ErrGone, "never a silent gap")
		assert.ErrorContains(t, err, "410")
		assert.ErrorContains(t, err, "which ends at 100 and keeps 10")
	})
}

// The log moves past a subscriber whose network is slow. A WebSocket is told
// so in a Close frame; the others' streams end, and their next request is
// answered 410.
func TestEveryContestantTellsASlowClientThatTheLogMovedOn(t *testing.T) {
	path := netpath.Path{Down: netpath.Link{Rate: 10_000, Window: 64}}
	every(t, func(t *testing.T, s setup.Setup) {
		err := virtual.Run(func(ctx context.Context) (err error) {
			r, err := assemble(ctx, s, site{path: path, hub: hub.NewHub(10, "")})
			require.NoError(t, err)
			defer func() { err = errors.Join(err, r.stop()) }()
			client := r.client("")
			stream, err := r.open(client, 0)
			if err != nil {
				return err
			}
			defer stream.Close()
			go func() {
				r.subscribed("")
				for _, event := range feed.Text(100, 100) {
					r.hub.Room("").Publish(event)
				}
			}()
			var last uint64
			for {
				e, err := stream.Next()
				if err != nil && s.Transport == "sse" {
					_, err = r.open(client, last)
				}
				if err != nil {
					return err
				}
				assert.Equal(t, last+1, e.ID, "what comes has no gap")
				last = e.ID
			}
		})
		assert.ErrorIs(t, err, hub.ErrGone, "never a silent gap")
		assert.ErrorContains(t, err, "410")
	})
}

// A server that stops says so on every WebSocket over HTTP/1.1.
func TestAWebSocketIsToldThatTheServerGoesAway(t *testing.T) {
	every(t, func(t *testing.T, s setup.Setup) {
		if s.Transport != "ws" || s.HTTP == transport.HTTP2 {
			return
		}
		require.NoError(t, virtual.Run(func(ctx context.Context) error {
			r, err := assemble(ctx, s, site{path: netpath.Symmetric(time.Millisecond), hub: hub.NewHub(1, "")})
			require.NoError(t, err)
			stream, err := r.contestant.Open(ctx, r.client(""), 0)
			if err != nil {
				return errors.Join(err, r.stop())
			}
			defer stream.Close()
			ended := make(chan error)
			go func() {
				_, err := stream.Next()
				ended <- err
			}()
			if err := r.subscribed(""); err != nil {
				return err
			}
			begin := time.Now()
			stopped := make(chan error)
			go func() { stopped <- r.stop() }()
			err = <-ended
			assert.Regexp(t, "1001|GoingAway", err)
			assert.Equal(t, time.Millisecond, time.Since(begin), "one way later")
			err = <-stopped
			assert.LessOrEqual(t, time.Since(begin), 2*time.Millisecond, "the server waits at most for the answer")
			return err
		}))
	})
}

func TestEveryContestantLivesOnHeartbeats(t *testing.T) {
	every(t, func(t *testing.T, s setup.Setup) {
		require.NoError(t, virtual.Run(func(ctx context.Context) error {
			c, err := Idle(ctx, s)
			assert.GreaterOrEqual(t, c.Down.Writes, int64(239), "one every 15 seconds")
			return err
		}))
	})
}

// faulty is SSE with a client that tampers with what arrives.
func faulty(tamper func(next func() (hub.Event, error)) func() (hub.Event, error)) transport.Transport {
	for _, c := range transport.All {
		if c.Name == "sse" {
			open := c.Open
			c.Name = "faulty"
			c.Open = func(ctx context.Context, client *transport.Client, after uint64) (transport.Stream, error) {
				s, err := open(ctx, client, after)
				if err != nil {
					return nil, err
				}
				return tampered{s, tamper(s.Next)}, nil
			}
			return c
		}
	}
	panic("no SSE")
}

type tampered struct {
	transport.Stream
	next func() (hub.Event, error)
}

func (t tampered) Next() (hub.Event, error) { return t.next() }

func TestADeliveryThatIsNotExactFails(t *testing.T) {
	type next = func() (hub.Event, error)
	for name, c := range map[string]struct {
		tamper func(next) next
		want   string
	}{
		"lost": {func(n next) next {
			return func() (hub.Event, error) {
				e, err := n()
				if e.ID == 7 {
					return n()
				}
				return e, err
			}
		}, "event 7 arrived as event 8"},
		"twice, the last of them": {func(n next) next {
			var last hub.Event
			return func() (hub.Event, error) {
				if last.ID == 10 {
					last.ID = 0
					return hub.Event{ID: 10, Data: last.Data}, nil
				}
				e, err := n()
				last = e
				return e, err
			}
		}, "event 11 arrived as event 10"},
		"altered": {func(n next) next {
			return func() (hub.Event, error) {
				e, err := n()
				if e.ID == 7 {
					e.Data[3]++
				}
				return e, err
			}
		}, "event 7 arrived as event 7"},
		"cut": {func(n next) next {
			return func() (hub.Event, error) {
				e, err := n()
				if e.ID == 7 {
					return e, errors.New("connection lost")
				}
				return e, err
			}
		}, "connection lost"},
	} {
		t.Run(name, func(t *testing.T) {
			table := transport.All
			defer func() { transport.All = table }()
			transport.All = append(table[:len(table):len(table)], faulty(c.tamper))
			s := setup.Setup{Transport: "faulty", HTTP: transport.HTTP1, Headers: "bare"}
			err := virtual.Run(func(ctx context.Context) error {
				_, err := Deliver(ctx, s, Paced(feed.Trades()[:10]))
				return err
			})
			assert.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, s.String(), "an error names its setup")
		})
	}
}

func TestAServerThatFailsIsReported(t *testing.T) {
	table := transport.All
	defer func() { transport.All = table }()
	broken := faulty(func(n func() (hub.Event, error)) func() (hub.Event, error) { return n })
	broken.Serve = func(_ context.Context, ln net.Listener, _ *hub.Hub, _ transport.Options) error {
		return errors.Join(fmt.Errorf("cannot serve"), ln.Close())
	}
	transport.All = append(table[:len(table):len(table)], broken)
	err := virtual.Run(func(ctx context.Context) error {
		_, err := Deliver(ctx, setup.Setup{Transport: "faulty", HTTP: transport.HTTP1, Headers: "bare"}, Paced(feed.Trades()[:10]))
		return err
	})
	assert.ErrorContains(t, err, "cannot serve")
}
