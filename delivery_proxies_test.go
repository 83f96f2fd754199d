package pushcost

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/eventstream"
	"pushcost/internal/feed"
	"pushcost/internal/hub"
	"pushcost/internal/measure"
	"pushcost/internal/netpath"
	"pushcost/internal/proxy"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
	"pushcost/internal/virtual"
)

// What stands between client and server in production, what of it breaks
// which transport, and the line that mends it. Broken first, then mended.

// limit is how long proxies bear silence, beat what breaks it.
const limit, beat = time.Minute, 15 * time.Second

// E18: an idle timeout of 60 s cuts a silent WebSocket, SSE and a parked poll
// alike, over HTTP/2 too, to the nanosecond. A heartbeat every 15 s keeps each
// alive for an hour.
func TestDeliveryIdle(t *testing.T) {
	run(t, "transport=ws|sse|poll/http=1.1/headers=bare/proxy=idle transport=sse|poll/http=2/headers=bare/proxy=alb", func(t *testing.T, s setup.Setup) {
		proxied(t, s, options{}, func(server measure.Server, _ *hub.Log) error {
			begin := time.Now()
			stream, err := server.Open(server.Client(""), 0)
			require.NoError(t, err)
			_, err = stream.Next()
			assert.Error(t, err, "a client is told: its connection ends")
			assert.Equal(t, limit, time.Since(begin))
			return nil
		})
		beats := hourOfHeartbeats(t, s)
		if s.Transport != "poll" {
			assert.Equal(t, map[string][2]int64{
				"ws1.1":  {4 * 2, 4 * 6}, // an empty ping, a masked pong
				"sse1.1": {4 * 7, 0},     // a comment in a chunk
				"sse2":   {4 * 11, 0},    // in a DATA frame
			}[s.Transport+string(s.HTTP)], [2]int64{beats.Down.Bytes / 60, beats.Up.Bytes / 60}, "B a minute, down and up")
		}
	})
}

// E18: what counts is the last byte, in either direction: an event 50 s after
// the opening, and 60 s more. A poll that was answered before lives for two
// limits: net/http, like browsers, asks again by itself if a connection that
// it used before ends without an answer.
func TestDeliveryIdleAfterAnEvent(t *testing.T) {
	for name, conns := range map[string]int{"ws": 1, "sse": 1, "poll": 2} {
		s := cell(t, "transport="+name+"/http=1.1/headers=bare/proxy=idle")
		proxied(t, s, options{}, func(server measure.Server, log *hub.Log) error {
			time.AfterFunc(50*time.Second, func() { log.Publish([]byte(`"event"`)) })
			begin := time.Now()
			stream, err := server.Open(server.Client(""), 0)
			require.NoError(t, err)
			_, err = stream.Next()
			require.NoError(t, err)
			_, err = stream.Next()
			assert.Error(t, err)
			assert.Equal(t, 50*time.Second+time.Duration(conns)*limit, time.Since(begin), name)
			assert.Equal(t, conns, server.Count().Conns, name)
			return nil
		})
	}
}

// E18: a PING of HTTP/2 every 15 s keeps a connection alive where bytes count,
// and not behind an Application Load Balancer, which says so.
func TestDeliveryIdlePing(t *testing.T) {
	run(t, "transport=sse|poll/http=2/headers=bare/proxy=idle|alb", func(t *testing.T, s setup.Setup) {
		proxied(t, s, options{}, func(server measure.Server, log *hub.Log) error {
			client := server.Client("")
			client.HTTP.HTTP2 = &http.HTTP2Config{SendPingTimeout: beat}
			time.AfterFunc(time.Hour, func() { log.Publish([]byte(`"event"`)) })
			begin := time.Now()
			stream, err := server.Open(client, 0)
			require.NoError(t, err)
			_, err = stream.Next()
			if s.Proxy == "idle" {
				assert.NoError(t, err)
				assert.Equal(t, time.Hour, time.Since(begin))
				return nil
			}
			assert.Error(t, err)
			assert.Equal(t, limit, time.Since(begin), "its PINGs were answered, and did not count")
			return nil
		})
	})
}

// E18c: a server's own WriteTimeout cuts a stream that is busy, too. Over
// HTTP/2 to the nanosecond; over HTTP/1.1 not before the next write fails: its
// client finds out when the next event is due, and that one is lost. With a
// deadline for each write instead, a stream may be silent for longer than
// that, and a client that does not read is still cut.
func TestDeliveryWriteTimeout(t *testing.T) {
	const timeout, every = 30 * time.Second, 7 * time.Second
	perWrite := func(w http.ResponseWriter, data []byte) error {
		c := http.NewResponseController(w)
		set := c.SetWriteDeadline(time.Now().Add(timeout))
		sent := flushed(w, data)
		return errors.Join(set, sent, c.SetWriteDeadline(time.Time{}))
	}
	for version, cut := range map[transport.HTTP]time.Duration{transport.HTTP1: 35 * time.Second, transport.HTTP2: timeout} {
		seen, end, err := watch(t, version, &http.Server{WriteTimeout: timeout, Handler: streaming(ticking(500, every), flushed)})
		assert.Equal(t, ticks(4, every), seen, "events until then, HTTP/%s", version)
		assert.Error(t, err, "the end is not a clean one")
		assert.Equal(t, cut, end, "HTTP/%s", version)

		seen, _, err = watch(t, version, &http.Server{WriteTimeout: timeout, Handler: streaming(ticking(50, 2*timeout), perWrite)})
		assert.Equal(t, ticks(50, 2*timeout), seen, "all of them, HTTP/%s", version)
		assert.Equal(t, io.EOF, err)
	}
	ended := make(chan time.Duration, 1)
	serve(t, transport.HTTP1, netpath.Path{Down: netpath.Link{Window: 1 << 10}}, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		streaming(ticking(500, every), func(w http.ResponseWriter, _ []byte) error { return perWrite(w, make([]byte, 64<<10)) })(w, r)
		ended <- time.Since(begin)
	})}, func(*http.Response, time.Time) { time.Sleep(time.Hour) })
	assert.Equal(t, timeout, <-ended, "its window is full at once")
}

// V5: a server that does not flush shows nothing until the end.
// V5b: nor does one behind a compressing middleware that hides flushes, for
// which ResponseController has an error, or that passes them on past its
// encoder, for which nobody has.
func TestDeliveryFlush(t *testing.T) {
	const n, every = 10, 7 * time.Second
	for name, c := range map[string]struct {
		send  func(http.ResponseWriter, []byte) error
		wrap  func(http.Handler) http.Handler
		flush error
		seen  []time.Duration
	}{
		"forgotten":      {send: written, seen: constant(n, n*every)},
		"flushed":        {send: flushed, seen: ticks(n, every)},
		"hidden":         {send: flushed, wrap: compressing(hiding), flush: http.ErrNotSupported, seen: constant(n, n*every)},
		"past the coder": {send: flushed, wrap: compressing(unwrapping), seen: constant(n, n*every)},
		"compressed":     {send: flushed, wrap: compressing(flushing), seen: ticks(n, every)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, version := range []transport.HTTP{transport.HTTP1, transport.HTTP2} {
				var failed error
				handler := http.Handler(streaming(ticking(n, every), func(w http.ResponseWriter, data []byte) error {
					failed = c.send(w, data)
					return nil // many handlers do not look
				}))
				if c.wrap != nil {
					handler = c.wrap(handler)
				}
				seen, _, err := watch(t, version, &http.Server{Handler: handler})
				assert.Equal(t, c.seen, seen, "when events arrived, HTTP/%s", version)
				assert.Equal(t, io.EOF, err, "none is lost")
				assert.ErrorIs(t, failed, c.flush, "what a flush says")
			}
		})
	}
}

// V5: curl shows it. With -N it prints an event before the next one is sent,
// without it none before the end, of a server that flushes; of one that does
// not, -N changes nothing.
func TestDeliveryCurl(t *testing.T) {
	needs(t, "curl")
	for _, flush := range []bool{true, false} {
		for _, unbuffered := range []bool{true, false} {
			t.Run(fmt.Sprintf("flush=%t/N=%t", flush, unbuffered), func(t *testing.T) { curl(t, flush, unbuffered) })
		}
	}
}

func curl(t *testing.T, flush, unbuffered bool) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	events := make(chan []byte)
	send := written
	if flush {
		send = flushed
	}
	url := listening(t, streaming(dictated(events), send))
	printed, err := os.Create(filepath.Join(t.TempDir(), "stdout")) // a file tells at once what was written to it
	require.NoError(t, err)
	defer printed.Close()
	cmd := exec.CommandContext(ctx, "curl", "-sS", "--trace-ascii", "%", url)
	if unbuffered {
		cmd.Args = append(cmd.Args, "-N")
	}
	cmd.Stdout = printed
	trace, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	received := bufio.NewScanner(trace) // what has come in, before it is printed
	size := func() int64 {
		info, err := printed.Stat()
		require.NoError(t, err)
		return info.Size()
	}
	await := func(text string) {
		for received.Scan() {
			if strings.Contains(received.Text(), text) {
				return
			}
		}
		assert.Fail(t, "curl did not receive "+text)
	}
	const n = 10
	var before, total int64
	for i := range n {
		event := fmt.Appendf(nil, "event %d", i)
		select {
		case events <- event:
		case <-ctx.Done():
			require.NoError(t, ctx.Err(), "curl has left")
		}
		if flush {
			await(string(event)) // and so it is done with the one before
			if unbuffered {
				assert.GreaterOrEqual(t, size(), before, "-N prints each event")
			} else {
				assert.Zero(t, size(), "without it, curl keeps them to itself")
			}
		}
		before, total = total, total+int64(len(eventstream.AppendEvent(nil, "", event)))
	}
	close(events)
	if !flush {
		await("Content-Length: " + strconv.FormatInt(total, 10)) // the head was written when all was known
	}
	_, err = io.Copy(io.Discard, trace)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	assert.Equal(t, total, size(), "in the end all is there")
}

// E19: a buffering proxy holds SSE. Of a hundred events, one a second, the
// first comes after half a minute, when 4 KB are full, with all others so far
// (late); those after the last full buffer come when the answer ends (see the
// next test) or, if the server is silent for 60 s, are dropped with the stream
// (never). Heartbeats only keep that from being noticed.
func TestDeliveryBuffering(t *testing.T) {
	held := cell(t, "transport=sse/http=1.1/headers=bare/proxy=buffering")
	silent, end := hundred(t, held, options{})
	assert.Len(t, silent, 97, "the last three never come")
	assert.Equal(t, []time.Duration{33 * time.Second, 66 * time.Second, 98 * time.Second}, slices.Compact(slices.Clone(silent)), "the others come in lumps")
	assert.Equal(t, 100*time.Second+limit, end, "the stream is cut")

	beating, end := hundred(t, held, options{Heartbeat: beat})
	assert.Equal(t, silent, beating, "heartbeats bring nothing")
	assert.Zero(t, end, "but keep the stream, for an hour")

	off := cell(t, "transport=sse/http=1.1/headers=bare/proxy=buffering-off")
	mended, _ := hundred(t, off, options{Heartbeat: beat})
	assert.Equal(t, ticks(100, time.Second), mended, "proxy_buffering off: each at once")
	mended, _ = hundred(t, held, options{Heartbeat: beat, Unbuffered: true})
	assert.Equal(t, ticks(100, time.Second), mended, "X-Accel-Buffering: no: each at once")
}

// E19, E19b: the real nginx and the model of it hold the same events until the
// end, and pass on the others in lumps of the same size. Either directive mends
// it, the answer's X-Accel-Buffering, or HTTP/1.1 to the server (nginx's default
// since 1.29.7): it passes on a chunk that is complete, and only the head
// still waits for the first.
func TestDeliveryNginx(t *testing.T) {
	lumps, each := []int{32, 33, 33, 2}, slices.Repeat([]int{1}, 100)
	for mend, c := range map[string]struct {
		proxies []string
		answer  http.Header
		head    bool
		want    []int
	}{
		"none":                  {proxies: []string{"buffering", "nginx"}, want: lumps},
		"X-Accel-Buffering: no": {proxies: []string{"buffering", "nginx"}, answer: http.Header{"X-Accel-Buffering": {"no"}}, head: true, want: each},
		"proxy_buffering off":   {proxies: []string{"buffering-off", "nginx-off"}, head: true, want: each},
		"HTTP/1.1":              {proxies: []string{"nginx-upgrade"}, want: each},
	} {
		for _, name := range c.proxies {
			t.Run(mend+"/"+name, func(t *testing.T) {
				got, err := held(t, name, measure.LumpPlan{Answer: c.answer, Head: c.head, Events: feed.Trades()[:100]})
				require.NoError(t, err)
				require.Len(t, got, len(c.want))
				for i := range got {
					assert.InDelta(t, c.want[i], got[i], 1, "events in lump %d", i+1)
				}
			})
		}
	}
}

// E19, E28: what nginx does when its server says nothing for too long (60 s,
// or 1 s where it is told so): it drops the events that it holds, and cuts the
// stream; a poll that is still parked is answered with 504.
func TestDeliveryNginxTimeout(t *testing.T) {
	run(t, "transport=sse|poll/http=1.1/headers=bare/proxy=buffering transport=sse|poll/http=1.1/headers=bare/proxy=nginx-impatient/net=loopback", func(t *testing.T, s setup.Setup) {
		if s.Proxy != "buffering" {
			needs(t, "nginx")
			t.Parallel() // they wait for a second each
		}
		require.NoError(t, experiment(s, func(ctx context.Context) error {
			h := hub.NewHub(3, "")
			return measure.Serve(ctx, s, netpath.Path{}, h, options{}, func(server measure.Server) error {
				if s.Transport == "sse" {
					for _, event := range feed.Trades()[:3] {
						h.Room("").Publish(event)
					}
				}
				begin := time.Now()
				stream, err := server.Open(server.Client(""), 0)
				if err == nil {
					_, err = stream.Next()
				}
				if s.Transport == "sse" {
					assert.ErrorContains(t, err, "EOF", "its events are lost")
				} else {
					assert.ErrorContains(t, err, "504")
				}
				if s.Net == "" {
					assert.Equal(t, limit, time.Since(begin))
				}
				return nil
			})
		}))
	})
}

// E28, S11: SSE and long polling pass a proxy that strips Upgrade, for the same
// bytes in the same time; long polling passes one that buffers as well, since
// its answers are complete. A WebSocket passes neither: its server sees a GET
// and says so, 400 or 426 by library.
func TestDeliveryStrippedUpgrade(t *testing.T) {
	run(t, "transport=sse|poll/http=1.1|2/headers=bare/proxy=stripping transport=poll/http=1.1/headers=bare/proxy=buffering", func(t *testing.T, s setup.Setup) {
		passes(t, s)
	})
	for lib, answer := range map[string]string{"gorilla": "400 Bad Request", "coder": "426", "gws": "400 Bad Request"} {
		run(t, "transport=ws/lib="+lib+"/http=1.1/headers=bare/proxy=stripping|buffering", func(t *testing.T, s setup.Setup) {
			proxied(t, s, options{}, func(server measure.Server, _ *hub.Log) error {
				_, err := server.Open(server.Client(""), 0)
				assert.ErrorContains(t, err, answer)
				return nil
			})
		})
	}
}

// E28, S11: the same by the real nginx, and what lets WebSockets pass: HTTP/1.1
// to the server, and Upgrade and Connection forwarded.
func TestDeliveryNginxUpgrade(t *testing.T) {
	needs(t, "nginx")
	run(t, "transport=poll/http=1.1/headers=bare/proxy=nginx/net=loopback transport=ws|poll/http=1.1/headers=bare/proxy=nginx-upgrade/net=loopback", func(t *testing.T, s setup.Setup) {
		deliver(t, s, measure.Lockstep(feed.Trades()[:100]))
	})
	s := cell(t, "transport=ws/http=1.1/headers=bare/proxy=nginx/net=loopback")
	err := experiment(s, func(ctx context.Context) error {
		_, err := measure.Deliver(ctx, s, measure.Lockstep(feed.Trades()[:1]))
		return err
	})
	assert.ErrorContains(t, err, "400 Bad Request", "as it comes, nginx forwards no Upgrade")
}

// E28, S11: everything passes the tunnel of a forward proxy, for one CONNECT
// and its answer when the connection is opened.
func TestDeliveryTunnel(t *testing.T) {
	run(t, "transport=ws/lib=gorilla|coder/http=1.1/tls=1.3/headers=bare/proxy=tunnel transport=sse|poll/http=1.1|2/tls=1.3/headers=bare/proxy=tunnel", func(t *testing.T, s setup.Setup) {
		tunneled, direct := passes(t, s)
		if s.HTTP == transport.HTTP1 { // over HTTP/2 the opening's frames may share a record or not
			const ask = "CONNECT localhost:8080 HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: Go-http-client/1.1\r\n\r\n"
			assert.EqualValues(t, len(ask), tunneled.Open.Up.Bytes-direct.Open.Up.Bytes)
			assert.EqualValues(t, len("HTTP/1.1 200 Connection established\r\n\r\n"), tunneled.Open.Down.Bytes-direct.Open.Down.Bytes)
		}
	})
}

// E19, E28: everything passes Go's ReverseProxy, with nothing set: it flushes
// text/event-stream by itself, and forwards Upgrade. Behind it a poll costs
// 86 B more, the fields that say who asks; events cost what they did.
func TestDeliveryReverseProxy(t *testing.T) {
	run(t, "transport=ws|sse|poll/http=1.1/headers=bare/proxy=reverse", func(t *testing.T, s setup.Setup) {
		d, direct := passes(t, s)
		assert.Equal(t, direct.Steady.Down.Bytes, d.Behind.Down.Bytes)
		forwarded := len("X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Host: localhost:8080\r\nX-Forwarded-Proto: http\r\n")
		assert.Equal(t, direct.Steady.Up.Bytes+int64(forwarded)*(d.Requests-1), d.Behind.Up.Bytes)
	})
}

// E8: a browser opens six HTTP/1.1 connections to an origin, over all of its
// tabs. Six streams take them all: a seventh and a command wait, an hour if
// need be, until one closes. Over HTTP/2 a hundred streams and the command
// share one. (Here net/http keeps to that limit.)
func TestDeliverySixConnections(t *testing.T) {
	o := options{Commands: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })}
	for version, streams := range map[transport.HTTP]int{transport.HTTP1: 6, transport.HTTP2: 100} {
		s := cell(t, "transport=sse/headers=bare/http="+string(version))
		proxied(t, s, o, func(server measure.Server, log *hub.Log) error {
			client := server.Client("")
			var open []transport.Stream
			for range streams {
				stream, err := server.Open(client, 0)
				require.NoError(t, err)
				open = append(open, stream)
			}
			opened, answered := make(chan error, 1), make(chan error, 1)
			go func() { _, err := server.Open(client, 0); opened <- err }()
			time.Sleep(time.Second)
			go func() {
				ack, err := open[0].Send([]byte("{}"))
				if err == nil {
					err = ack()
				}
				answered <- err
			}()
			time.Sleep(time.Hour)
			if version == transport.HTTP1 {
				for i, waiting := range []chan error{opened, answered} {
					require.Empty(t, waiting, "it waits for a connection")
					open[i].Close()
					time.Sleep(time.Second)
					require.Len(t, waiting, 1, "and has one")
				}
				open = open[2:]
			} else {
				assert.Equal(t, 1, server.Count().Conns)
			}
			assert.NoError(t, errors.Join(<-opened, <-answered))
			log.Publish([]byte("event"))
			for _, stream := range open {
				_, err := stream.Next()
				assert.NoError(t, err)
			}
			return nil
		})
	}
}

// BenchmarkDeliveryReverseProxy is the byte table behind Go's ReverseProxy: what
// its clients see, and what it moves behind itself, where it speaks HTTP/1.1
// (E19, E28).
func BenchmarkDeliveryReverseProxy(b *testing.B) {
	report(b, "transport=ws/http=1.1/headers=bare|chrome/proxy=reverse transport=sse|poll/http=1.1|2/headers=bare|chrome/proxy=reverse", reportTrades)
}

type options = transport.Options

// passes checks that a setup's proxy costs neither bytes nor time once the
// path is open, and returns what was delivered with and without it.
func passes(t *testing.T, s setup.Setup) (d, direct measure.Delivery) {
	t.Helper()
	without := s
	without.Proxy = ""
	d, direct = deliver(t, s, measure.Paced(feed.Trades()[:100])), deliver(t, without, measure.Paced(feed.Trades()[:100]))
	assert.Equal(t, direct.Steady.Up.Bytes, d.Steady.Up.Bytes)
	assert.Equal(t, direct.Steady.Down.Bytes, d.Steady.Down.Bytes)
	assert.Equal(t, direct.Latency, d.Latency)
	return d, direct
}

// held runs a plan against a proxy.
func held(t *testing.T, name string, p measure.LumpPlan) (lumps []int, err error) {
	t.Helper()
	named, ok := proxy.Named(name)
	require.True(t, ok, "there is no proxy %q", name)
	p.Proxy = named
	net := ""
	if p.Proxy.Program != "" {
		needs(t, p.Proxy.Program)
		net = "loopback"
	}
	err = experiment(setup.Setup{Net: net}, func(ctx context.Context) (err error) {
		lumps, err = measure.Lumps(ctx, p)
		return err
	})
	return lumps, err
}

// proxied serves a setup in virtual time, over a network without a delay,
// while f runs.
func proxied(t *testing.T, s setup.Setup, o options, f func(measure.Server, *hub.Log) error) {
	t.Helper()
	require.NoError(t, virtual.Run(func(ctx context.Context) error {
		h := hub.NewHub(1000, "")
		return measure.Serve(ctx, s, netpath.Path{}, h, o, func(server measure.Server) error { return f(server, h.Room("")) })
	}))
}

// hundred publishes an event a second, waits an hour more, and returns when
// which were there, and when the stream ended.
func hundred(t *testing.T, s setup.Setup, o options) (seen []time.Duration, end time.Duration) {
	t.Helper()
	proxied(t, s, o, func(server measure.Server, log *hub.Log) error {
		begin := time.Now()
		arrived, ended := make(chan time.Duration, 100), make(chan time.Duration, 1)
		go func() {
			stream, err := server.Open(server.Client(""), 0)
			for err == nil {
				if _, err = stream.Next(); err == nil {
					arrived <- time.Since(begin)
				}
			}
			ended <- time.Since(begin)
		}()
		for _, event := range feed.Trades()[:100] {
			time.Sleep(time.Second)
			log.Publish(event)
		}
		time.Sleep(time.Hour)
		for len(arrived) > 0 {
			seen = append(seen, <-arrived)
		}
		select {
		case end = <-ended:
		default:
		}
		return nil
	})
	return seen, end
}

// streaming answers with the events that next waits for, as send sends them,
// until either fails. Its head is sent before.
func streaming(next func(context.Context) ([]byte, error), send func(http.ResponseWriter, []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		err := send(w, nil)
		for err == nil {
			var event []byte
			if event, err = next(r.Context()); err == nil {
				err = send(w, eventstream.AppendEvent(nil, "", event))
			}
		}
	}
}

// ticking waits for n events, one every so often.
func ticking(n int, every time.Duration) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		if n--; n < 0 {
			return nil, io.EOF
		}
		return []byte("tick"), netpath.Sleep(ctx, every)
	}
}

// dictated waits for what it is told.
func dictated(events <-chan []byte) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		select {
		case event, ok := <-events:
			if !ok {
				return nil, io.EOF
			}
			return event, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func written(w http.ResponseWriter, data []byte) error {
	_, err := w.Write(data)
	return err
}

func flushed(w http.ResponseWriter, data []byte) error {
	return errors.Join(written(w, data), http.NewResponseController(w).Flush())
}

// watch asks a server for a stream and returns when its events came, and when
// and how it ended.
func watch(t *testing.T, version transport.HTTP, srv *http.Server) (seen []time.Duration, end time.Duration, ending error) {
	t.Helper()
	serve(t, version, netpath.Path{}, srv, func(resp *http.Response, begin time.Time) {
		events := eventstream.NewReader(resp.Body)
		for ending == nil {
			if _, ending = events.Next(); ending == nil {
				seen = append(seen, time.Since(begin))
			}
		}
		end = time.Since(begin)
	})
	return seen, end, ending
}

// serve serves in virtual time, and shows the answer to a request.
func serve(t *testing.T, version transport.HTTP, path netpath.Path, srv *http.Server, show func(_ *http.Response, asked time.Time)) {
	t.Helper()
	require.NoError(t, virtual.Run(func(ctx context.Context) error {
		network := netpath.Memory(path)
		ln, err := network.Listen("127.0.0.1:80")
		if err != nil {
			return err
		}
		srv.Protocols, srv.ErrorLog = transport.Protocols(version), log.New(io.Discard, "", 0)
		go srv.Serve(ln)
		defer srv.Close()
		client := &http.Transport{Protocols: transport.Protocols(version), DialContext: network.Dial} // which asks for gzip, and decodes it
		defer client.CloseIdleConnections()
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+ln.Addr().String(), nil)
		if err != nil {
			return err
		}
		asked := time.Now()
		resp, err := client.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		show(resp, asked)
		return nil
	}))
}

// ticks are n instants, one every so often.
func ticks(n int, every time.Duration) (at []time.Duration) {
	for i := range n {
		at = append(at, time.Duration(i+1)*every)
	}
	return at
}

// compressing is a middleware that compresses, with a writer of this kind.
func compressing(kind func(http.ResponseWriter, *gzip.Writer) http.ResponseWriter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			coder := gzip.NewWriter(w)
			defer coder.Close()
			next.ServeHTTP(kind(w, coder), r)
		})
	}
}

// gzipWriter has no Flush, and no Unwrap by which one could be found.
type gzipWriter struct {
	http.ResponseWriter
	coder *gzip.Writer
}

func (w gzipWriter) Write(data []byte) (int, error) { return w.coder.Write(data) }

func hiding(w http.ResponseWriter, c *gzip.Writer) http.ResponseWriter { return gzipWriter{w, c} }

// unwrappingWriter lets a flush find the writer below, past what the encoder
// still has.
type unwrappingWriter struct{ gzipWriter }

func (w unwrappingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func unwrapping(w http.ResponseWriter, c *gzip.Writer) http.ResponseWriter {
	return unwrappingWriter{gzipWriter{w, c}}
}

// flushingWriter flushes the encoder first.
type flushingWriter struct{ unwrappingWriter }

func (w flushingWriter) FlushError() error {
	return errors.Join(w.coder.Flush(), http.NewResponseController(w.ResponseWriter).Flush())
}

func flushing(w http.ResponseWriter, c *gzip.Writer) http.ResponseWriter {
	return flushingWriter{unwrappingWriter{gzipWriter{w, c}}}
}

// listening serves a handler on a real socket until the test ends, and returns
// its URL.
func listening(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections) // before: Close waits for handlers
	return srv.URL
}

// needs skips a test of a program that is not installed, and logs its version.
func needs(t *testing.T, program string) {
	t.Helper()
	version, err := exec.Command(program, "-V").CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("%v: apt-get install %s", err, program)
	}
	require.NoError(t, err)
	first, _, _ := bytes.Cut(version, []byte("\n"))
	t.Logf("%s", first)
}
