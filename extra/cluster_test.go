package extra

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pushcost/extra/internal/bridge"
	"pushcost/extra/internal/broker"
	"pushcost/internal/hub"
	"pushcost/internal/measure"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// patience is for an event that is lost, which would never come. It is long
// for the race detector on a machine that has other work.
const patience = 5 * time.Minute

// allWays are the transports behind each instance.
const allWays = "transport=ws/lib=gorilla|coder|gws/http=1.1/headers=bare " +
	"transport=sse/http=1.1|2/headers=bare/ids=on " +
	"transport=poll/http=1.1|2/headers=bare"

// A cluster is server instances and the broker between them: one in this
// process, or that of PUSHCOST_NATS.
type cluster struct {
	ctx       context.Context // ends with the test
	stream    string          // its name, and the subject of its messages
	url       func() string   // of the broker
	down, up  func()          // take the broker from all instances, and give it back
	instances []*instance
}

// An instance is a server with a log of its own, on all transports.
type instance struct {
	link
	hub     *hub.Hub
	log     *hub.Log
	leg     *broker.Leg
	servers []server
	clients errgroup.Group
	saw     [][]hub.Event // by client
}

type server struct {
	setup.Setup
	measure.Server
}

// A link joins an instance to the others.
type link struct {
	publish func(ctx context.Context, id string, data []byte) error
	run     func(context.Context) error
	hears   func() bool // whether what is published from now on gets here
	admit   func(*http.Request) *transport.Refusal
}

// A joining makes a log one of those that share a stream's events.
type joining func(log *hub.Log, stream string, connect func(...nats.Option) (*nats.Conn, error)) (link, error)

// bridged joins a log by a stored stream.
func bridged(log *hub.Log, stream string, connect func(...nats.Option) (*nats.Conn, error)) (link, error) {
	return waiting(patience)(log, stream, connect)
}

// waiting is bridged, and lets a client wait so long for events that it has
// seen elsewhere.
func waiting(lag time.Duration) joining {
	return func(log *hub.Log, stream string, connect func(...nats.Option) (*nats.Conn, error)) (link, error) {
		b := &bridge.Bridge{Connect: connect, Stream: stream, Log: log, Lag: lag}
		return link{b.Publish, b.Run, func() bool { return true }, b.Admit}, nil
	}
}

// unstored joins a log by plain publish and subscribe.
func unstored(log *hub.Log, subject string, connect func(...nats.Option) (*nats.Conn, error)) (link, error) {
	conn, err := connect(nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		return link{}, err
	}
	_, err = conn.Subscribe(subject, func(m *nats.Msg) { log.Publish(m.Data) })
	return link{
		publish: func(_ context.Context, _ string, data []byte) error { return conn.Publish(subject, data) },
		run: func(ctx context.Context) error {
			<-ctx.Done()
			conn.Close()
			return nil
		},
		hears: func() bool { return conn.FlushTimeout(patience) == nil }, // the subscription is ahead of the flush
	}, errors.Join(err, conn.Flush())
}

// alone joins a log to no other.
func alone(log *hub.Log, _ string, _ func(...nats.Option) (*nats.Conn, error)) (link, error) {
	return link{
		publish: func(_ context.Context, _ string, data []byte) error {
			log.Publish(data)
			return nil
		},
		run: func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		},
	}, nil
}

// newCluster returns a cluster of n instances, which are not yet served.
func newCluster(tb testing.TB, n int, join joining) *cluster {
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	c := &cluster{ctx: ctx, stream: fmt.Sprintf("pushcost-%d", time.Now().UnixNano())}
	if url := os.Getenv("PUSHCOST_NATS"); url == "" {
		c.embed(tb)
	} else if err := c.external(tb, url); err != nil {
		tb.Fatalf("PUSHCOST_NATS: %v", err)
	}
	for range n {
		c.add(tb, join)
	}
	return c
}

// add joins another instance.
func (c *cluster) add(tb testing.TB, join joining) *instance {
	tb.Helper()
	in := &instance{hub: hub.NewHub(4000, ""), leg: broker.NewLeg()}
	in.log = in.hub.Room("")
	var err error
	in.link, err = join(in.log, c.stream, func(o ...nats.Option) (*nats.Conn, error) {
		return nats.Connect(c.url(), append(o, nats.SetCustomDialer(in.leg))...)
	})
	require.NoError(tb, err)
	ended := make(chan error, 1)
	go func() { ended <- in.run(c.ctx) }()
	tb.Cleanup(func() { assert.NoError(tb, <-ended) })
	c.instances = append(c.instances, in)
	return in
}

// embed makes a broker of this process the cluster's.
func (c *cluster) embed(tb testing.TB) {
	b := broker.New(tb.TempDir())
	c.url, c.down = b.URL, b.Stop
	c.up = func() { require.NoError(tb, b.Start()) }
	c.up()
	tb.Cleanup(b.Stop)
}

// external makes a broker elsewhere the cluster's. It is not ours to restart:
// instead all instances are cut off at once.
func (c *cluster) external(tb testing.TB, url string) error {
	if err := broker.Check(url); err != nil {
		return err
	}
	conn, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("%s: %w: without the variable the tests start their own", url, err)
	}
	tb.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	if _, err := js.AccountInfo(c.ctx); err != nil {
		return fmt.Errorf("%s: %w: start it as nats-server -js", url, err)
	}
	tb.Cleanup(func() { js.DeleteStream(context.Background(), c.stream) }) // where there was one
	c.url = func() string { return url }
	c.down = func() {
		for _, in := range c.instances {
			in.leg.Cut()
		}
	}
	c.up = func() {
		for _, in := range c.instances {
			in.leg.Heal()
		}
	}
	return nil
}

// serve serves every instance in these ways until the test ends.
func (c *cluster) serve(tb testing.TB, patterns string) {
	tb.Helper()
	for _, in := range c.instances {
		for _, s := range cells(tb, patterns) {
			begun, ended := make(chan measure.Server), make(chan error, 1)
			go func() {
				ended <- measure.Serve(c.ctx, s, netpath.Path{}, in.hub, in.options(), func(at measure.Server) error {
					begun <- at
					<-c.ctx.Done()
					return nil
				})
			}()
			select {
			case at := <-begun:
				in.servers = append(in.servers, server{s, at})
			case err := <-ended:
				require.NoError(tb, err)
			}
			tb.Cleanup(func() { assert.NoError(tb, <-ended) })
		}
	}
}

// publisher is one that calls an instance.
func (c *cluster) publisher(at int, name string) *publisher {
	return &publisher{name: name, try: func(data []byte) error { return c.instances[at].offer(c.ctx, data) }}
}

// end publishes the last event.
func (c *cluster) end(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, c.publisher(0, "end").publish(c.ctx, 1, 1))
}

// options are how an instance is served: it takes events by POST and by
// message.
func (in *instance) options() transport.Options {
	take := func(r *http.Request, data []byte) *transport.Refusal {
		if err := in.offer(r.Context(), data); err != nil {
			return &transport.Refusal{Status: http.StatusServiceUnavailable, Text: err.Error()}
		}
		return nil
	}
	return transport.Options{
		Admit: in.admit,
		Commands: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<10))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			} else if refusal := take(r, data); refusal != nil {
				http.Error(w, refusal.Text, refusal.Status)
			}
		}),
		Message: take,
	}
}

// offer publishes an event under its own id.
func (in *instance) offer(ctx context.Context, data []byte) error {
	return in.publish(ctx, id(data), data)
}

// open subscribes a client by the first way of this name.
func (in *instance) open(tb testing.TB, name string, after uint64) transport.Stream {
	tb.Helper()
	at := in.servers[slices.IndexFunc(in.servers, func(s server) bool { return s.Transport == name })]
	stream, err := at.Open(at.Client(""), after)
	require.NoError(tb, err)
	return stream
}

// watch subscribes so many clients, in all ways.
func (in *instance) watch(clients int) {
	in.saw = make([][]hub.Event, clients)
	for i := range clients {
		at := in.servers[i%len(in.servers)]
		client := at.Client("")
		in.clients.Go(func() error {
			stream, err := at.Open(client, 0)
			if err == nil {
				defer stream.Close()
				in.saw[i], err = until(stream, math.MaxInt)
			}
			return err
		})
	}
}

// seen waits for the clients to see the end, and returns what each saw.
func (in *instance) seen(tb testing.TB) [][]hub.Event {
	tb.Helper()
	require.NoError(tb, in.clients.Wait())
	return in.saw
}

// events are those of the instance's log.
func (in *instance) events(tb testing.TB) []hub.Event {
	tb.Helper()
	events, _, err := in.log.Since(0)
	require.NoError(tb, err)
	return events
}

// until reads n events, or up to the end.
func until(stream transport.Stream, n int) (seen []hub.Event, err error) {
	for len(seen) < n {
		e, err := stream.Next()
		if err != nil {
			return seen, err
		}
		seen = append(seen, e)
		if bytes.Equal(e.Data, end) {
			break
		}
	}
	return seen, nil
}

// reach waits until a log has the event of this id.
func reach(ctx context.Context, log *hub.Log, id uint64) error {
	for {
		last, more := log.Last()
		if last >= id {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("event %d did not come, only %d: %w", id, last, ctx.Err())
		}
	}
}

// An event says who published it, and is numbered from 1.
type event struct {
	From string `json:"from"`
	N    int    `json:"n"`
	Text string `json:"text"`
}

// newEvent is about as long as one of the documents' trades.
func newEvent(from string, n int) []byte {
	data, _ := json.Marshal(event{from, n, strings.Repeat("x", 80)}) // strings and a number encode
	return data
}

// end is the last event of all.
var end = newEvent("end", 1)

// id is what an event is published under; it is empty for what is none.
func id(data []byte) string {
	var e event
	if json.Unmarshal(data, &e) != nil {
		return ""
	}
	return fmt.Sprintf("%s-%d", e.From, e.N)
}

// A publisher publishes numbered events, one after the other.
type publisher struct {
	name    string
	try     func(data []byte) error
	refused atomic.Int64
}

// publish publishes the events from and up to these numbers, each until it is
// taken: so they are stored in this order.
func (p *publisher) publish(ctx context.Context, from, to int) error {
	for n := from; n <= to; n++ {
		for {
			err := p.try(newEvent(p.name, n))
			if err == nil {
				break
			}
			p.refused.Add(1)
			if late := netpath.Sleep(ctx, time.Millisecond); late != nil {
				return fmt.Errorf("%s: event %d: %w: %w", p.name, n, late, err)
			}
		}
	}
	return nil
}

// post publishes beside a stream. The answer says that the event is stored.
func post(stream transport.Stream, data []byte) error {
	ack, err := stream.Send(data)
	if err != nil {
		return err
	}
	return ack()
}

// talk publishes on a WebSocket, which has no answers: that an event is stored
// shows by its coming back.
func talk(stream transport.Stream, data []byte) error {
	if _, err := stream.Send(data); err != nil {
		return err
	}
	for {
		e, err := stream.Next()
		if err != nil || bytes.Equal(e.Data, data) {
			return err
		}
	}
}

// A tally is what is wrong with what a client saw.
type tally struct {
	lost  int // events that are missing
	again int // events that came again, or too late
}

// count compares what a client saw with how many events each publisher has
// published.
func count(tb testing.TB, seen []hub.Event, published map[string]int) (t tally) {
	tb.Helper()
	last := map[string]int{}
	for _, got := range seen {
		var e event
		require.NoError(tb, json.Unmarshal(got.Data, &e))
		if e.N <= last[e.From] {
			t.again++
			continue
		}
		t.lost += e.N - last[e.From] - 1
		last[e.From] = e.N
	}
	for from, n := range published {
		t.lost += n - last[from]
	}
	return t
}

// same says whether two clients saw the same events under the same ids.
func same(a, b []hub.Event) bool {
	return slices.EqualFunc(a, b, func(a, b hub.Event) bool { return a.ID == b.ID && bytes.Equal(a.Data, b.Data) })
}

// cells are the setups of patterns, with blanks between them.
func cells(tb testing.TB, patterns string) (all []setup.Setup) {
	tb.Helper()
	for _, pattern := range strings.Fields(patterns) {
		cells, err := setup.Cross(pattern)
		require.NoError(tb, err)
		all = append(all, cells...)
	}
	return all
}
