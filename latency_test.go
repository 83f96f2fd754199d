package pushcost

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/board"
	"pushcost/internal/feed"
	"pushcost/internal/measure"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// What a round trip buys. In virtual time CPU costs nothing, so that a latency
// is the network's share, exact to the nanosecond; the software's share is
// measured on real sockets, and only reported.

// An unlucky multiple of the period would let events coincide with answers;
// seven nanoseconds more keep them apart.
func every(d time.Duration) time.Duration { return d + 7 }

var (
	roundTrips = []time.Duration{1 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}
	periods    = []time.Duration{100 * time.Millisecond, 20 * time.Millisecond, 3 * time.Millisecond}
)

// pushed delivers n events, one per period, over a path with this round trip.
func pushed(tb testing.TB, s setup.Setup, n int, period, rtt time.Duration) measure.Delivery {
	tb.Helper()
	return deliver(tb, s, measure.Plan{Events: feed.Trades()[:n], Every: every(period), Path: netpath.Symmetric(rtt / 2)})
}

// E10: neither stream is faster. A WebSocket and SSE deliver every event after
// exactly one way, at every rate and round trip: their difference is 0 ns. (The
// document's 0.3 ms are its software's.) A poll does too while events come
// more seldom than a round trip takes.
func TestLatencyOfStreams(t *testing.T) {
	for _, rtt := range roundTrips {
		for _, period := range periods {
			run(t, "transport=ws|sse/http=1.1/headers=bare", func(t *testing.T, s setup.Setup) {
				assert.Equal(t, constant(200, rtt/2), pushed(t, s, 200, period, rtt).Latency, "an event per %v over %v", period, rtt)
			})
		}
		run(t, "transport=sse|poll/http=2/tls=1.3/headers=chrome", func(t *testing.T, s setup.Setup) {
			assert.Equal(t, constant(200, rtt/2), pushed(t, s, 200, 101*time.Millisecond, rtt).Latency, "an event per 101 ms over %v", rtt)
		})
	}
}

// E11: a long poll is deaf for one round trip after each answer. What is
// published meanwhile waits for the next poll and comes with it: the latency
// is a staircase that this law predicts to the nanosecond, at most a round
// trip and one way, and the lag of the last events is that of the first.
func TestLatencyOfPolls(t *testing.T) {
	for _, rtt := range roundTrips {
		for _, period := range append(periods, 7*time.Millisecond, 33*time.Millisecond, 60*time.Millisecond) {
			run(t, "transport=poll/http=1.1|2/headers=bare", func(t *testing.T, s setup.Setup) {
				d := pushed(t, s, 200, period, rtt)
				assert.Equal(t, staircase(200, every(period), rtt), d.Latency, "one event per %v over %v", period, rtt)
				assert.LessOrEqual(t, slices.Max(d.Latency), rtt+rtt/2)
			})
		}
	}
	batched := pushed(t, cell(t, "transport=poll/http=1.1/headers=bare"), 1000, 20*time.Millisecond, 50*time.Millisecond)
	assert.InDelta(t, 2.5, 1000/float64(batched.Requests), 0.01, "with an event per 20 ms, a poll over 50 ms brings two or three")
	assert.InDelta(t, mean(batched.Latency[:100]), mean(batched.Latency[900:]), float64(time.Millisecond), "it does not fall behind")
}

// staircase is the latency of each event of a long poll: an answer leaves with
// all that is there, and the next request is there a round trip later.
func staircase(n int, period, rtt time.Duration) (latency []time.Duration) {
	var parked time.Duration // when the next request is
	for i := 0; i < n; {
		answer := max(time.Duration(i)*period, parked)
		for ; i < n && time.Duration(i)*period <= answer; i++ {
			latency = append(latency, answer-time.Duration(i)*period+rtt/2)
		}
		parked = answer + rtt
	}
	return latency
}

// E12: without a delay the network orders nothing, and long polling looks free:
// every latency is 0, its deaf time included. What loopback adds is software,
// some tens of microseconds (BenchmarkLatencyLoopback), and only reported.
func TestLatencyWithoutDelay(t *testing.T) {
	run(t, "transport=ws|sse|poll/http=1.1/headers=bare", func(t *testing.T, s setup.Setup) {
		assert.Equal(t, constant(200, 0), pushed(t, s, 200, 3*time.Millisecond, 0).Latency)
	})
}

// E24: where events are rare and HTTP/2 is there already, long polling is as
// fast as the rest. Not at 1.6 times the payload, though: below an event a
// second every answer has a new date, which HPACK cannot refer back to.
func TestLatencyOfRarePolls(t *testing.T) {
	poll := cell(t, "transport=poll/http=2/headers=chrome")
	rare, often := pushed(t, poll, 1000, 2*time.Second, 50*time.Millisecond), trades(t, poll.String())
	assert.Equal(t, constant(1000, 25*time.Millisecond), rare.Latency)
	assert.InDelta(t, 1.81, ratio(rare.Wire(), rare.Payload), 0.02)
	assert.Greater(t, rare.Steady.Down.Bytes, often.Steady.Down.Bytes+20*1000, "a date is 20 B and more")
}

// C3: connecting takes the same round trips on every transport: one for TCP,
// one for TLS 1.3, one for the request. HTTP/2's SETTINGS ride along with the
// first request, so SSE over HTTP/2 pays none more; the document's one more
// fits a client that waits for SETTINGS. A WebSocket over HTTP/2 does wait:
// only they tell it that it may CONNECT.
func TestLatencyOfConnecting(t *testing.T) {
	run(t, "transport=ws|sse|poll/http=1.1|2/tls=|1.3/headers=bare", func(t *testing.T, s setup.Setup) {
		want := 2.0
		if s.TLS != "" {
			want++
		}
		if s.Transport == "ws" && s.HTTP == transport.HTTP2 {
			want++
		}
		assert.Equal(t, want, connect(t, s))
	})
}

// C1, C2, C4: a command comes back as a patch after one round trip on every
// architecture; not even the order between them is the transport's. Only the
// first command over HTTP/1.1 takes two more, for a connection and TLS, and
// of 3,000 commands of 100 clients those are the only ones that open any.
func TestLatencyOfCommands(t *testing.T) {
	const rtt = 100 * time.Millisecond
	run(t, "transport=ws/http=1.1/tls=1.3/headers=bare transport=sse/http=2/tls=1.3/headers=bare", func(t *testing.T, s setup.Setup) {
		allCommands(t, s, rtt, rtt, 0)
	})
	run(t, "transport=sse/http=1.1/tls=1.3/headers=bare", func(t *testing.T, s setup.Setup) {
		allCommands(t, s, rtt, 3*rtt, 100)
	})
}

func allCommands(t *testing.T, s setup.Setup, rtt, first time.Duration, conns int) {
	c := commanded(t, s, measure.CommandPlan{Clients: 100, Rounds: 29, Style: board.Utility, Patch: board.Row, Path: netpath.Symmetric(rtt / 2)})
	assert.Equal(t, constant(100, first), c.First, "the first command")
	assert.Equal(t, constant(2900, rtt), c.Steady, "all others")
	assert.Equal(t, conns, c.Conns, "connections dialed for 3,000 commands")
}

// C20, E30: "above 20 messages a second, WebSocket". Of the network's share that
// holds at another rate: HTTP/1.1's five connections carry five requests per
// round trip, HTTP/2's one carries the 250 streams that Go's server allows at a
// time, so 100 and 5,000 a second at 50 ms. Below, a POST takes one way up, as a
// message does; above, a queue grows at the client. What a POST costs at any
// rate is bytes, and CPU (BenchmarkLatencyUpstreamLoopback).
func TestLatencyUpstream(t *testing.T) {
	const rtt, n = 50 * time.Millisecond, 600
	up := func(name string, rate int) measure.Upstream { return upstream(t, cell(t, name), n, rate, rtt) }
	const ws, h1, h2 = "transport=ws/http=1.1/tls=1.3/headers=bare", "transport=sse/http=1.1/tls=1.3/headers=bare", "transport=sse/http=2/tls=1.3/headers=bare"
	for _, rate := range []int{20, 60, 4000} {
		message, post := up(ws, rate), up(h2, rate)
		assert.Equal(t, constant(n, rtt/2), message.Latency, "a message at %d a second", rate)
		assert.Equal(t, constant(n, rtt/2), post.Latency, "a POST over HTTP/2 at %d a second", rate)
		assert.Greater(t, post.Bytes.Up.Bytes+post.Bytes.Down.Bytes, 2*(message.Bytes.Up.Bytes+message.Bytes.Down.Bytes), "POST moves more than twice the bytes")
	}
	for name, edge := range map[string]struct{ below, above int }{h1: {95, 105}, h2: {4900, 5200}} {
		below, above := up(name, edge.below).Latency, up(name, edge.above).Latency
		assert.Equal(t, rtt/2, below[n-1], "%s keeps up with %d a second", name, edge.below)
		assert.Greater(t, above[n-1], rtt/2, "%s does not with %d", name, edge.above)
	}
	assert.Equal(t, constant(n, rtt/2), up(ws, 20_000).Latency, "a WebSocket has no such limit")
}

// upstream sends n messages at a rate per second.
func upstream(tb testing.TB, s setup.Setup, n, rate int, rtt time.Duration) (u measure.Upstream) {
	tb.Helper()
	require.NoError(tb, experiment(s, func(ctx context.Context) (err error) {
		u, err = measure.Send(ctx, s, measure.UpstreamPlan{Messages: n, Every: every(time.Second / time.Duration(rate)), Path: netpath.Symmetric(rtt / 2)})
		return err
	}))
	return u
}

// roundTripsToConnect is connecting in virtual time.
func roundTripsToConnect(s setup.Setup) (n float64, err error) {
	err = experiment(s, func(ctx context.Context) (err error) {
		n, err = measure.Connect(ctx, s, netpath.Symmetric(50*time.Millisecond))
		return err
	})
	return n, err
}

func connect(tb testing.TB, s setup.Setup) float64 {
	tb.Helper()
	n, err := play(tb, "connect", roundTripsToConnect, s, s)
	require.NoError(tb, err)
	return n
}

func commanded(tb testing.TB, s setup.Setup, p measure.CommandPlan) (c measure.Commands) {
	tb.Helper()
	require.NoError(tb, experiment(s, func(ctx context.Context) (err error) {
		c, err = measure.Command(ctx, s, p)
		return err
	}))
	return c
}

func constant(n int, d time.Duration) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }

func mean(all []time.Duration) float64 {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return float64(sum) / float64(len(all))
}

// BenchmarkLatency is the latency of events in virtual time (E10, E11): the
// network's share, and the requests it took.
func BenchmarkLatency(b *testing.B) {
	for _, rtt := range roundTrips {
		for _, period := range periods {
			b.Run(fmt.Sprintf("rtt=%v/every=%v", rtt, period), func(b *testing.B) {
				report(b, "transport=ws|sse|poll/http=1.1/headers=bare", func(b *testing.B, s setup.Setup) []measure.Metric {
					return pushed(b, s, 1000, period, rtt).Latencies()
				})
			})
		}
	}
}

// BenchmarkLatencyJitter delays each write by up to 20 ms more, from a seed
// (E10, E11).
func BenchmarkLatencyJitter(b *testing.B) {
	for _, period := range periods {
		b.Run(fmt.Sprintf("rtt=50ms/jitter=20ms/every=%v", period), func(b *testing.B) {
			report(b, "transport=ws|sse|poll/http=1.1/headers=bare", func(b *testing.B, s setup.Setup) []measure.Metric {
				link := netpath.Link{Delay: 25 * time.Millisecond, Jitter: 20 * time.Millisecond, Seed: 1}
				return deliver(b, s, measure.Plan{Events: feed.Trades(), Every: every(period), Path: netpath.Path{Up: link, Down: link}}).Latencies()
			})
		})
	}
}

// BenchmarkLatencyConnect counts the round trips of connecting (C3).
func BenchmarkLatencyConnect(b *testing.B) {
	report(b, "transport=ws|sse|poll/http=1.1|2/tls=|1.3/headers=bare", func(b *testing.B, s setup.Setup) []measure.Metric {
		return []measure.Metric{{Unit: "connect-rtts", Value: connect(b, s)}}
	})
}

// BenchmarkLatencyCommand is a command's way to its patch: 100 clients, 30
// commands each (C1, C2, C4).
func BenchmarkLatencyCommand(b *testing.B) {
	for _, rtt := range []time.Duration{25 * time.Millisecond, 100 * time.Millisecond} {
		b.Run(fmt.Sprintf("rtt=%v", rtt), func(b *testing.B) {
			report(b, "transport=ws/http=1.1/tls=1.3/headers=bare transport=sse|poll/http=1.1|2/tls=1.3/headers=bare", func(b *testing.B, s setup.Setup) []measure.Metric {
				return commanded(b, s, measure.CommandPlan{Clients: 100, Rounds: 29, Style: board.Utility, Patch: board.Row, Path: netpath.Symmetric(rtt / 2)}).Figures()
			})
		})
	}
}

// BenchmarkLatencyUpstream sends messages up at a steady rate (C20, E30).
func BenchmarkLatencyUpstream(b *testing.B) {
	for _, rate := range []int{20, 60, 200} {
		b.Run(fmt.Sprintf("rtt=50ms/rate=%d", rate), func(b *testing.B) {
			report(b, "transport=ws/http=1.1/tls=1.3/headers=bare transport=sse/http=1.1|2/tls=1.3/headers=bare", func(b *testing.B, s setup.Setup) []measure.Metric {
				return upstream(b, s, 600, rate, 50*time.Millisecond).Figures()
			})
		})
	}
}

// BenchmarkLatencyLoopback is the software's share of an event's latency, on
// real sockets without delay (E12), one event at a time.
func BenchmarkLatencyLoopback(b *testing.B) {
	report(b, "transport=ws|sse|poll/http=1.1|2/tls=|1.3/headers=bare/net=loopback", func(b *testing.B, s setup.Setup) []measure.Metric {
		return deliver(b, s, measure.Lockstep(slices.Repeat(feed.Trades(), 5))).Wall()
	})
}

// BenchmarkLatencyCommandLoopback is the software's share of a command's
// latency, and its CPU time (C1, C20): of one client alone, and of a hundred that
// send at once, for whom a command's time is mostly the others'.
func BenchmarkLatencyCommandLoopback(b *testing.B) {
	for _, p := range []measure.CommandPlan{{Clients: 1, Rounds: 3000}, {Clients: 100, Rounds: 29}} {
		p.Style, p.Patch = board.Utility, board.Row
		b.Run(fmt.Sprintf("clients=%d", p.Clients), func(b *testing.B) {
			report(b, "transport=ws/http=1.1/tls=1.3/headers=bare/net=loopback transport=sse|poll/http=1.1|2/tls=1.3/headers=bare/net=loopback", func(b *testing.B, s setup.Setup) []measure.Metric {
				return commanded(b, s, p).Wall()
			})
		})
	}
}

// BenchmarkLatencyUpstreamLoopback sends two seconds of messages up real
// sockets (C20, E30).
func BenchmarkLatencyUpstreamLoopback(b *testing.B) {
	for _, rate := range []int{20, 60} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			report(b, "transport=ws/http=1.1/tls=1.3/headers=bare/net=loopback transport=sse/http=1.1|2/tls=1.3/headers=bare/net=loopback", func(b *testing.B, s setup.Setup) []measure.Metric {
				return upstream(b, s, 2*rate, rate, 0).Wall()
			})
		})
	}
}

// broadcasters are those whose broadcasts are measured, and to how many of
// 1,000, 5,000 and 9,000 clients: to all where it is the usual way or the fastest.
var broadcasters = []struct {
	name        string
	populations int
}{
	{gorilla, 2},
	{gorillaPrepared, 1},
	{gwsBroadcaster, 1},
	{coder, 1},
	{wsEpoll, 3},
	{sseHTTP, 3},
	{sseEncoded, 1},
	{sseEpoll, 3},
	{sseHTTP2, 1},
}

const (
	gorillaPrepared = "transport=ws/lib=gorilla-prepared/http=1.1"
	gwsBroadcaster  = "transport=ws/lib=gws-broadcaster/http=1.1"
	sseEncoded      = "transport=sse/lib=encoded/http=1.1"
)

// V3: what an event to all costs is a write per client, whichever the transport:
// every server here makes exactly one, and SSE's has twelve bytes more, so that
// what the network and its kernel do is alike. The document's SSE took 2.5 times
// as long as its WebSocket, at 10,000 clients, by what its program did between
// the writes. (BenchmarkBroadcast has their CPU time, beside that of bare writes.)
func TestLatencyOfBroadcasts(t *testing.T) {
	many(t, 100)
	broadcaster, err := measure.NewBroadcaster(context.Background())
	require.NoError(t, err)
	defer func() { require.NoError(t, broadcaster.Stop()) }()
	for _, c := range broadcasters {
		s := cell(t, c.name)
		result, err := broadcaster.Run(context.Background(), s, 100, 1)
		require.NoError(t, err, "every event comes to every client")
		assert.Equal(t, 1.0, result.WritesPerEvent(), c.name)
		assert.Equal(t, map[string]float64{"ws/1.1": 2, "sse/1.1": 14, "sse/2": 17}[s.Transport+"/"+string(s.HTTP)], result.Overhead(), "B beyond the payload, %s", c.name)
	}
}

// V3: the fastest way is also safe. Clients that stop reading hold up nobody. The
// floor, which has no queues, cuts them off when their sockets are full; from then
// on the others get sixteen more events of 64 KiB, while a megabyte waits for each
// that is stalled. Then these leave the registry.
func TestLatencyOfBroadcastsPastTheStalled(t *testing.T) {
	many(t, 13)
	while := func(name string) int {
		events, err := measure.Laggards{Setup: cell(t, name), Stalled: 3, Awake: 10}.Run(t.Context())
		require.NoError(t, err, "everybody else gets every event: %s", name)
		return events
	}
	sockets := while("transport=floor/lib=fd/http=1.1")
	for _, name := range []string{gorilla, wsEpoll, sseHTTP, sseEpoll} {
		assert.InDelta(t, sockets+16, while(name), 1, name)
	}
}

// BenchmarkBroadcast pushes an event to all, on real sockets (V3): socket writes
// and allocations per client, the server's CPU time, in nanoseconds and as a
// multiple of that of bare writes, and when the last client has it.
func BenchmarkBroadcast(b *testing.B) {
	broadcaster, err := measure.NewBroadcaster(context.Background())
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, broadcaster.Stop()) })
	for i, p := range []struct{ conns, rounds int }{{1000, 11}, {5000, 9}, {9000, 7}} {
		for _, c := range broadcasters {
			if i >= c.populations {
				continue
			}
			b.Run(fmt.Sprintf("%s/conns=%d", c.name, p.conns), func(b *testing.B) {
				reportOf(b, func() []measure.Metric {
					result, err := broadcaster.Run(context.Background(), cell(b, c.name), p.conns, p.rounds)
					require.NoError(b, err)
					return result.Metrics()
				})
			})
		}
	}
}

// BenchmarkThroughput raises the rate of events to 1,000 clients until the 99th
// percentile of their delivery exceeds 100 ms (E31). The instants of publishing
// are fixed beforehand, so that a server that falls behind is not asked less.
func BenchmarkThroughput(b *testing.B) {
	const conns = 1000
	for _, name := range []string{gorillaPrepared, wsEpoll, sseEpoll} {
		b.Run(fmt.Sprintf("%s/conns=%d", name, conns), func(b *testing.B) {
			reportOf(b, func() []measure.Metric {
				t := measure.Throughput{Setup: cell(b, name), Conns: conns, Within: 100 * time.Millisecond, Runs: 4, Take: 400 * time.Millisecond}
				deliveries, err := t.Run(context.Background())
				require.NoError(b, err)
				return []measure.Metric{{Unit: "deliveries/s", Value: deliveries}}
			})
		})
	}
}
