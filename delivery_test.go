package pushcost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/child"
	"pushcost/internal/eventstream"
	"pushcost/internal/feed"
	"pushcost/internal/hub"
	"pushcost/internal/measure"
	"pushcost/internal/netpath"
	"pushcost/internal/resume"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
	"pushcost/internal/virtual"
)

// What breaks in production, and what mends it: connections end, clients stop
// reading. All of it is in virtual time, over a network that can be cut.

// everyTransport is all of transport.All; SSE has ids, since it resumes by them.
const everyTransport = "transport=ws/lib=gorilla|coder|gws/http=1.1/headers=bare transport=ws/http=2/headers=bare " +
	"transport=sse/http=1.1|2/headers=bare/ids=on transport=poll/http=1.1|2/headers=bare"

// A VirtualRun is an experiment in virtual time, as a child process is told it
// (by net/rpc, hence the capital).
type VirtualRun[P any] struct {
	Setup setup.Setup
	Plan  P
}

// played plays a plan over a setup, in virtual time.
func played[P, Out any](tb testing.TB, role string, f func(VirtualRun[P]) (Out, error), s setup.Setup, plan P) Out {
	tb.Helper()
	out, err := play(tb, role, f, s, VirtualRun[P]{s, plan})
	require.NoError(tb, err)
	return out
}

// cuts are those of each transport's storm, at least a twentieth of them in
// every state.
func cuts() int {
	if os.Getenv("PUSHCOST_FULL") == "1" {
		return 10_000
	}
	return 1_000
}

func weather(r VirtualRun[int]) (storm measure.Storm, err error) {
	err = experiment(r.Setup, func(ctx context.Context) (err error) {
		storm, err = measure.Weather(ctx, r.Setup, 1, r.Plan)
		return err
	})
	return storm, err
}

// E15: connections are cut, by a reset or without a word, in every state they
// have, servers restart, and clients are reloaded. Each transport resumes from
// a cursor: SSE by Last-Event-ID, the others with code of their own. Nothing is
// lost and nothing applied twice. A cut alone brings no event twice: a client
// that lives on knows its cursor. One that is reloaded knows the cursor it
// saved, and has to suppress what it had applied since.
func TestDeliverySurvivesCuts(t *testing.T) {
	run(t, everyTransport, func(t *testing.T, s setup.Setup) {
		storm := played(t, "weather", weather, s, cuts())
		t.Logf("%+v", storm)
		assert.Zero(t, storm.Lost, "events that were never applied")
		assert.Zero(t, storm.Dup, "events that were applied once more")
		assert.Zero(t, storm.Repeated, "events that a cut brought once more")
		assert.Greater(t, storm.Suppressed, storm.Reloads, "events that a reload brought once more")
		for _, state := range measure.States(s) {
			assert.GreaterOrEqual(t, storm.Cuts[state], cuts()/20, "cuts of a connection: %s", state)
		}
		assert.Len(t, storm.Cuts, len(measure.States(s)))
	})
}

// A client's wait after a reset, as SSE is told it and as others choose.
const told, chosen = 700 * time.Millisecond, time.Second

func resumption(r VirtualRun[netpath.Path]) (res measure.Resumption, err error) {
	err = experiment(r.Setup, func(ctx context.Context) (err error) {
		res, err = measure.Resume(ctx, r.Setup, r.Plan, resume.Backoff{Base: chosen, Cap: chosen}, told)
		return err
	})
	return res, err
}

// E15: after a reset, the next event is there when the client has waited and
// connected: after the reconnection time that the server told an EventSource,
// after the client's own back-off elsewhere. But net/http repeats a poll at
// once when a connection breaks that has served another, beneath any back-off.
func TestDeliveryResumes(t *testing.T) {
	run(t, everyTransport, func(t *testing.T, s setup.Setup) {
		want := chosen
		switch {
		case s.Transport == "sse":
			want = told
		case s.Transport == "poll" && s.HTTP == transport.HTTP1:
			want = 0
		}
		want += time.Duration(connect(t, s) * float64(far.Path.RTT()))
		assert.Equal(t, want, played(t, "resume", resumption, s, far.Path).Took)
	})
}

// E15: a thousand clients lose their server at one instant. Where each waits
// what the others wait, they come back at one instant: an EventSource waits
// what the server told everybody. With jitter, the client's or in what the
// server tells, no tenth of a second sees more than three times its share.
func TestDeliveryWithoutAStampede(t *testing.T) {
	const spread = 10 * time.Second
	clients := 1000
	if child.RaceDetector {
		clients = 500 // it dies of 8,129 goroutines
	}
	alike := func(int) resume.Backoff { return resume.Backoff{Base: spread, Cap: spread} }
	jitter := func(client int) resume.Backoff {
		return resume.Backoff{Base: spread, Cap: spread, Rand: rand.New(rand.NewPCG(1, uint64(client)))}
	}
	toldAlike := func() time.Duration { return spread }
	var streams atomic.Uint64
	toldApart := func() time.Duration {
		return time.Second + time.Duration(rand.New(rand.NewPCG(1, streams.Add(1))).Int64N(int64(spread)))
	}
	run(t, "transport=ws|sse|poll/http=1.1/headers=bare", func(t *testing.T, s setup.Setup) {
		most := func(backoff func(int) resume.Backoff, retry func() time.Duration) (most int) {
			require.NoError(t, experiment(s, func(ctx context.Context) error {
				back, err := measure.Return(ctx, s, clients, backoff, retry)
				most = crowd(back, 100*time.Millisecond)
				return err
			}))
			return most
		}
		assert.Equal(t, clients, most(alike, toldAlike), "at one instant")
		assert.LessOrEqual(t, most(jitter, toldApart), 3*clients/100, "of a hundredth on average")
	})
}

// crowd is how many of these moments at most fall into a bucket.
func crowd(at []time.Duration, bucket time.Duration) (most int) {
	n := map[time.Duration]int{}
	for _, d := range at {
		n[d/bucket]++
		most = max(most, n[d/bucket])
	}
	return most
}

// stalled is a plan of 500 events of a kilobyte, one every five milliseconds,
// over sockets that hold 64 KiB.
func stalled(deadline time.Duration, keeps int) measure.StallPlan {
	return measure.StallPlan{
		Stalled:  true,
		Deadline: deadline,
		Keeps:    keeps,
		Events:   feed.Text(500, 1<<10),
		Every:    every(5 * time.Millisecond),
		Path:     netpath.Path{Up: netpath.Link{Delay: 10 * time.Millisecond}, Down: netpath.Link{Delay: 10 * time.Millisecond, Window: socketBuffer}},
	}
}

const socketBuffer = 64 << 10

// A Slowed is a stall and whether the client was told in the end that events
// were gone: an error does not come back from a child process.
type Slowed struct {
	measure.Stall
	Gone bool
}

func slow(r VirtualRun[measure.StallPlan]) (s Slowed, err error) {
	err = experiment(r.Setup, func(ctx context.Context) (err error) {
		s.Stall, err = measure.Slow(ctx, r.Setup, r.Plan)
		return err
	})
	if s.Gone = errors.Is(err, hub.ErrGone); s.Gone {
		err = nil
	}
	return s, err
}

// S8: a client that stops reading harms nobody else: the others' latencies are
// the same to the nanosecond. It costs the server one socket buffer and its
// place in the log, which is the same for all. Without a deadline for writes a
// stream's handler and connection wait as long as the client likes: they are
// there an hour later. With one they are gone after it. A poll holds neither
// a handler nor a write, but an idle connection.
func TestDeliveryToAStalledClient(t *testing.T) {
	const deadline = 10 * time.Second
	run(t, everyTransport, func(t *testing.T, s setup.Setup) {
		alone := stalled(0, 1000)
		alone.Stalled = false
		undisturbed := played(t, "slow", slow, s, alone)
		require.Equal(t, 3, undisturbed.Serving)

		forever := played(t, "slow", slow, s, stalled(0, 1000))
		assert.Equal(t, undisturbed.Latency, forever.Latency, "of those who read")
		assert.Equal(t, 4, forever.Serving, "connections after an hour, without a deadline")

		mended := played(t, "slow", slow, s, stalled(deadline, 1000))
		assert.Equal(t, undisturbed.Latency, mended.Latency, "of those who read")
		assert.LessOrEqual(t, mended.Held, socketBuffer, "bytes that wait for the one who does not")
		assert.EqualValues(t, 500, mended.Resumed, "it reads the rest when it is back: the log has it")
		if s.Transport == "poll" {
			assert.Equal(t, 4, mended.Serving, "nobody writes, nobody waits")
			return
		}
		assert.Equal(t, 3, mended.Serving, "connections after an hour, with a deadline")
		assert.InDelta(t, deadline.Seconds(), mended.Cut.Seconds(), 0.5, "seconds until it is cut off: the deadline, once the socket is full")
	})
}

// S8: a client that was cut off, or was merely slow, and comes back when the
// log has moved on is told so. It is never left with a gap.
func TestDeliveryTellsWhatIsGone(t *testing.T) {
	run(t, everyTransport, func(t *testing.T, s setup.Setup) {
		for _, deadline := range []time.Duration{0, 10 * time.Second} {
			s := played(t, "slow", slow, s, stalled(deadline, 100))
			assert.True(t, s.Gone, "it is told, with a deadline of %v", deadline)
			assert.Less(t, s.Resumed, uint64(400), "after what its socket held")
		}
	})
}

// E16: SSE is one-way: what goes up is a request of its own. It is UTF-8: a
// byte that is not comes out as U+FFFD, so binary needs base64 (E26). And a page
// cannot give its EventSource a header, so a token has to be in a cookie or the
// URL, and so has the cursor of a page that was reloaded. A reconnection
// repeats that URL; the Last-Event-ID beside it is newer, and counts.
func TestDeliveryLimitsOfSSE(t *testing.T) {
	const token = "secret"
	admit := func(r *http.Request) *transport.Refusal {
		cookie, _ := r.Cookie("token") // nil: none
		if r.Header.Get("Authorization") == "Bearer "+token || r.FormValue("token") == token || cookie != nil && cookie.Value == token {
			return nil
		}
		return &transport.Refusal{Status: http.StatusUnauthorized, Text: "no token"}
	}
	options := transport.Options{Admit: admit, Commands: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	h := hub.NewHub(10, "")
	for n := range 10 {
		h.Room("").Publish(fmt.Appendf(nil, "event %d, \xFF", n+1))
	}
	s := cell(t, "transport=sse/http=1.1/headers=bare/ids=on")
	require.NoError(t, virtual.Run(func(ctx context.Context) error {
		return measure.Serve(ctx, s, netpath.Path{}, h, options, func(server measure.Server) error {
			assert.Equal(t, "401 ", firstEvent(t, ctx, server, "/events", nil))
			assert.Equal(t, "200 event 1, \uFFFD", firstEvent(t, ctx, server, "/events", http.Header{"Authorization": {"Bearer " + token}}), "a fetch may set it")
			assert.Equal(t, "200 event 1, \uFFFD", firstEvent(t, ctx, server, "/events", http.Header{"Cookie": {"token=" + token}}))
			assert.Equal(t, "200 event 1, \uFFFD", firstEvent(t, ctx, server, "/events?token="+token, nil))
			const reloaded = "/events?cursor=5&token=" + token
			assert.Equal(t, "200 event 6, \uFFFD", firstEvent(t, ctx, server, reloaded, nil))
			assert.Equal(t, "200 event 8, \uFFFD", firstEvent(t, ctx, server, reloaded, http.Header{"Last-Event-Id": {"7"}}))

			client := server.Client("")
			client.Header = http.Header{"Cookie": {"token=" + token}}
			stream, err := server.Open(client, 0)
			if err != nil {
				return err
			}
			defer stream.Close()
			ack, err := stream.Send([]byte("up"))
			if err != nil {
				return err
			}
			assert.EqualValues(t, 2, client.Requests(), "the stream and the message up")
			return ack()
		})
	}))
}

// firstEvent is the status of a stream and the first event in it.
func firstEvent(t *testing.T, ctx context.Context, server measure.Server, url string, header http.Header) string {
	t.Helper()
	client := server.Client("")
	req, err := http.NewRequestWithContext(ctx, "GET", client.URL+url, nil)
	require.NoError(t, err)
	maps.Copy(req.Header, header)
	resp, err := client.HTTP.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	event, _ := eventstream.NewReader(resp.Body).Next() // none after a refusal
	return fmt.Sprintf("%d %s", resp.StatusCode, event.Data)
}

// BenchmarkDeliveryResume is what it takes to come back from a reset: the wait
// (0.7 s as SSE is told, 1 s elsewhere), round trips of 100 ms and bytes, an
// event of one byte included; and what a storm of cuts lost or applied twice
// (E15).
func BenchmarkDeliveryResume(b *testing.B) {
	report(b, everyTransport, func(b *testing.B, s setup.Setup) []measure.Metric {
		return append(
			played(b, "resume", resumption, s, far.Path).Metrics(),
			played(b, "weather", weather, s, cuts()).Metrics()...)
	})
}
