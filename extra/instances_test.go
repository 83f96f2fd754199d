package extra

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/transport"
)

// E20: fan-out across instances is one problem, whatever the transport. Ninety
// clients of three instances see 2,000 events of three publishers, one of whom
// calls, one POSTs and one sends on a WebSocket, through a restart of the
// broker: all of them, once, in order per publisher, and everybody in one order.
func TestInstancesDeliver(t *testing.T) {
	const clients, events = 90, 2000
	begin := time.Now()
	c := newCluster(t, 3, bridged)
	c.serve(t, allWays)
	for _, in := range c.instances {
		in.watch(clients / len(c.instances))
	}
	posts, talks := c.instances[1].open(t, "poll", 0), c.instances[2].open(t, "ws", 0)
	published := map[string]int{"calls": 900, "posts": 900, "talks": 200}
	publishers := []*publisher{
		c.publisher(0, "calls"),
		{name: "posts", try: func(data []byte) error { return post(posts, data) }},
		{name: "talks", try: func(data []byte) error { return talk(talks, data) }},
	}
	var all errgroup.Group
	down := make(chan struct{})
	for _, p := range publishers {
		all.Go(func() error {
			if err := p.publish(c.ctx, 1, published[p.name]-1); err != nil {
				return err
			}
			<-down // so that a fast one has something left
			return p.publish(c.ctx, published[p.name], published[p.name])
		})
	}
	require.NoError(t, reach(c.ctx, c.instances[0].log, events/2))
	c.down()
	close(down)
	var refused int64
	for _, p := range publishers {
		before := p.refused.Load()
		require.Eventually(t, func() bool { return p.refused.Load() > before }, patience, time.Millisecond, "%s is told that there is no broker", p.name)
	}
	c.up()
	require.NoError(t, all.Wait())
	c.end(t)
	for _, p := range publishers {
		refused += p.refused.Load()
	}
	want := c.instances[0].seen(t)[0]
	assert.Len(t, want, events+1, "each event, and the end")
	assert.Zero(t, count(t, want, published), "once, and in order per publisher")
	for _, in := range c.instances {
		for _, got := range in.seen(t) {
			assert.True(t, same(want, got), "in one order")
		}
	}
	t.Logf("%d clients saw %d events, once and in one order, through the loss of the broker, after %d refusals; took %v", clients, events, refused, time.Since(begin).Round(time.Millisecond))
}

// E20: an instance that is cut off stands still, and the others do not notice.
// With a stored stream its clients then get what they missed, by replay from
// the end of its log. Plain publish and subscribe loses for them what was
// published meanwhile, to the event.
func TestInstancesPartition(t *testing.T) {
	const third = 200
	for _, way := range []struct {
		name string
		join joining
		lost int // by each client of the instance that was cut off
	}{{"stream", bridged, 0}, {"unstored", unstored, third}} {
		t.Run(way.name, func(t *testing.T) {
			c := newCluster(t, 3, way.join)
			c.serve(t, allWays)
			home, other, away := c.instances[0], c.instances[1], c.instances[2]
			for _, in := range c.instances {
				in.watch(len(in.servers))
			}
			p := c.publisher(0, "home")
			publish := func(part int, at ...*instance) {
				require.NoError(t, p.publish(c.ctx, (part-1)*third+1, part*third))
				for _, in := range at {
					require.NoError(t, reach(c.ctx, in.log, uint64(part*third)))
				}
			}
			publish(1, home, other, away)
			away.leg.Cut()
			publish(2, home, other)
			stood, _ := away.log.Last()
			assert.EqualValues(t, third, stood, "nothing gets through")
			away.leg.Heal()
			require.Eventually(t, away.hears, patience, time.Millisecond)
			publish(3, home, other)
			c.end(t)
			for _, in := range c.instances {
				want := tally{}
				if in == away {
					want.lost = way.lost
				}
				for _, got := range in.seen(t) {
					assert.Equal(t, want, count(t, got, map[string]int{"home": 3 * third}))
				}
			}
			t.Logf("%d events while an instance was cut off: each of its %d clients lost %d of them, the others' none", third, len(away.saw), way.lost)
		})
	}
}

// E20: a publisher whose answer is lost cannot know whether its event is
// stored. To publish it again under its id is safe. Without one that doubles
// it, to the event.
func TestInstancesPublishAgain(t *testing.T) {
	const events = 20
	for _, way := range []struct {
		name    string
		id      func(data []byte) string
		doubled int
	}{{"id", id, 0}, {"none", func([]byte) string { return "" }, events}} {
		t.Run(way.name, func(t *testing.T) {
			c := newCluster(t, 2, bridged)
			home, other := c.instances[0], c.instances[1]
			p := &publisher{name: "home", try: func(data []byte) error { return home.publish(c.ctx, way.id(data), data) }}
			require.NoError(t, p.publish(c.ctx, 1, 1), "it is connected")
			home.leg.Deafen()
			var lost errgroup.Group
			for n := range events {
				lost.Go(func() error { return p.try(newEvent("home", n+2)) })
			}
			require.NoError(t, reach(c.ctx, other.log, events+1), "they are stored")
			home.leg.Cut()
			require.Error(t, lost.Wait(), "but nobody says so")
			home.leg.Heal()
			require.NoError(t, p.publish(c.ctx, 2, events+1))
			c.end(t)
			for _, in := range c.instances {
				require.NoError(t, reach(c.ctx, in.log, uint64(events+way.doubled+2)))
				got := in.events(t)
				assert.Len(t, got, events+way.doubled+2)
				assert.Equal(t, end, got[len(got)-1].Data, "nothing comes after the end")
			}
			t.Logf("%d events whose answers were lost, published again: %d doubled", events, way.doubled)
		})
	}
}

// E20: what an instance refuses, because it has no broker, stays out. It is
// not kept to be sent when its publisher has long turned away.
func TestInstancesRefuse(t *testing.T) {
	const third = 50
	c := newCluster(t, 3, bridged)
	c.serve(t, allWays)
	published := map[string]int{}
	var publishers []*publisher
	for i, in := range c.instances {
		in.watch(len(in.servers))
		stream := in.open(t, "poll", 0)
		p := &publisher{name: strconv.Itoa(i), try: func(data []byte) error { return post(stream, data) }}
		require.NoError(t, p.publish(c.ctx, 1, third))
		publishers, published[p.name] = append(publishers, p), 3*third
	}
	c.down()
	refused := 0
	for _, p := range publishers {
		for n := third + 1; n <= 2*third; n++ {
			var refusal *transport.Refusal
			require.ErrorAs(t, p.try(newEvent(p.name, n)), &refusal)
			assert.Equal(t, http.StatusServiceUnavailable, refusal.Status)
			refused++
		}
	}
	c.up()
	for _, p := range publishers {
		require.NoError(t, p.publish(c.ctx, 2*third+1, 3*third))
	}
	c.end(t)
	for _, in := range c.instances {
		for _, got := range in.seen(t) {
			assert.Equal(t, tally{lost: refused}, count(t, got, published))
		}
	}
	t.Logf("%d events refused while the broker was down: every client misses these %d, and no other", refused, refused)
}

// E20: a client may move from one instance to another. Its cursor is good at
// all of them, since an event's id is its place in the stream: it loses
// nothing and sees nothing twice.
func TestInstancesMove(t *testing.T) {
	const events, stay = 600, 50
	c := newCluster(t, 3, bridged)
	c.serve(t, allWays)
	published := map[string]int{}
	var publishers, clients errgroup.Group
	for i := range c.instances {
		p := c.publisher(i, strconv.Itoa(i))
		published[p.name] = events / 3
		publishers.Go(func() error { return p.publish(c.ctx, 1, events/3) })
	}
	saw := make([][]hub.Event, 3*len(c.instances[0].servers))
	moves := make([]int, len(saw))
	for i := range saw {
		var at []server
		var client []*transport.Client
		for _, in := range c.instances {
			s := in.servers[i/3]
			at, client = append(at, s), append(client, s.Client(""))
		}
		clients.Go(func() error {
			for where, after := i%3, uint64(0); ; where = (where + 1) % 3 {
				stream, err := at[where].Open(client[where], after)
				if err != nil {
					return err
				}
				seen, err := until(stream, stay)
				if err := errors.Join(err, stream.Close()); err != nil {
					return err
				}
				saw[i] = append(saw[i], seen...)
				last := seen[len(seen)-1]
				if bytes.Equal(last.Data, end) {
					return nil
				}
				after = last.ID
				moves[i]++
			}
		})
	}
	require.NoError(t, publishers.Wait())
	c.end(t)
	require.NoError(t, clients.Wait())
	total := 0
	for i, got := range saw {
		assert.Zero(t, count(t, got, published))
		assert.True(t, same(saw[0], got), "in one order")
		assert.Equal(t, events/stay, moves[i])
		total += moves[i]
	}
	t.Logf("%d moves of %d clients among three instances: of %d events none was lost, none came twice", total, len(saw), events)
}

// E20: an instance may be behind the one that a client comes from. To a log
// the cursor is then one of another log, and it would tell the client that it
// is gone (410). The bridge knows better: the client waits, or asks again.
func TestInstancesBehind(t *testing.T) {
	const events = 10
	for _, way := range []struct {
		name string
		join joining
		says string
	}{
		{"bridge", waiting(10 * time.Millisecond), "503"},
		{"log", func(log *hub.Log, stream string, connect func(...nats.Option) (*nats.Conn, error)) (link, error) {
			l, err := bridged(log, stream, connect)
			l.admit = nil
			return l, err
		}, "410"},
	} {
		t.Run(way.name, func(t *testing.T) {
			c := newCluster(t, 2, way.join)
			c.serve(t, allWays)
			away, p := c.instances[1], c.publisher(0, "home")
			require.NoError(t, p.publish(c.ctx, 1, events))
			require.NoError(t, reach(c.ctx, away.log, events))
			away.leg.Cut()
			require.NoError(t, p.publish(c.ctx, events+1, 2*events))
			first := func(s server, client *transport.Client) (e hub.Event, err error) {
				stream, err := s.Open(client, 2*events)
				if err != nil {
					return e, err
				}
				defer stream.Close()
				return stream.Next()
			}
			for _, s := range away.servers {
				_, err := first(s, s.Client(""))
				assert.ErrorContains(t, err, way.says, s.String())
			}
			away.leg.Heal()
			require.NoError(t, p.publish(c.ctx, 2*events+1, 2*events+1))
			require.NoError(t, reach(c.ctx, away.log, 2*events+1))
			for _, s := range away.servers {
				e, err := first(s, s.Client(""))
				require.NoError(t, err, s.String())
				assert.Equal(t, newEvent("home", 2*events+1), e.Data, "it goes on where it was")
			}
		})
	}
}

// E20: an instance that starts late, or again, has the stream from its
// beginning before long.
func TestInstancesJoin(t *testing.T) {
	const events = 100
	c := newCluster(t, 1, bridged)
	require.NoError(t, c.publisher(0, "home").publish(c.ctx, 1, events))
	late := c.add(t, bridged)
	require.NoError(t, reach(c.ctx, late.log, events))
	assert.True(t, same(c.instances[0].events(t), late.events(t)))
}

// BenchmarkInstances is what the way through the broker adds (E20): to a
// client of the instance that is published at, and to one of another that the
// broker joins to it. The bytes are those of 1,000 events between instances
// and broker: to publish them, the answers that say so, and for each instance
// a copy and what it takes to ask for it.
func BenchmarkInstances(b *testing.B) {
	const events = 1000
	for _, s := range cells(b, allWays) {
		s.Net = "loopback"
		for _, hop := range []string{"none", "nats"} {
			b.Run(s.String()+"/hop="+hop, func(b *testing.B) {
				c := newCluster(b, 1, alone)
				if hop == "nats" {
					c = newCluster(b, 2, bridged)
				}
				c.serve(b, s.String())
				home, away := c.instances[0], c.instances[len(c.instances)-1]
				stream, p := away.open(b, s.Transport, 0), c.publisher(0, "home")
				arrived := make(chan time.Time)
				go func() {
					defer close(arrived)
					for n := 1; ; n++ {
						if e, err := stream.Next(); err != nil || !bytes.Equal(e.Data, newEvent("home", n)) {
							return
						}
						arrived <- time.Now()
					}
				}()
				n := 0
				push := func() time.Duration {
					n++
					begin := time.Now()
					require.NoError(b, p.publish(c.ctx, n, n))
					at, ok := <-arrived
					require.True(b, ok, "event %d arrives, once and in order", n)
					return at.Sub(begin)
				}
				legs := func() (near, far netpath.Count) {
					require.NoError(b, reach(c.ctx, home.log, uint64(n)), "it has its own copy")
					return home.leg.Count(), away.leg.Count()
				}
				push() // all are connected
				var took []time.Duration
				var near, far netpath.Count
				for b.Loop() {
					took = nil
					n0, f0 := legs()
					for range events {
						took = append(took, push())
					}
					near, far = legs()
					near, far = near.Sub(n0), far.Sub(f0)
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[events/2]), "wall-p50-ns")
				b.ReportMetric(0, "ns/op")
				if hop == "nats" { // the near instance gets a copy too
					b.ReportMetric(float64(near.Up.Bytes-far.Up.Bytes), "publish-B")
					b.ReportMetric(float64(near.Down.Bytes-far.Down.Bytes), "answer-B")
					b.ReportMetric(float64(far.Down.Bytes), "copy-B")
					b.ReportMetric(float64(far.Up.Bytes), "ask-B")
				}
			})
		}
	}
}
