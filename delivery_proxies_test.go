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
	"net"
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

const beat = 15 * time.Second

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
			assert.Equal(t, proxy.IdleLimit, time.Since(begin))
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
			assert.Equal(t, 50*time.Second+time.Duration(conns)*proxy.IdleLimit, time.Since(begin), name)
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
			assert.Equal(t, proxy.IdleLimit, time.Since(begin), "its PINGs were answered, and did not count")
			return nil
		})
	})
}

// E18c: a server's own WriteTimeout cuts a stream that is busy, too. Over
// HTTP/2 to the nanosecond; over HTTP/1.1 not before the next write fails: its
// client finds out when the next event is due, and that one is lost. A
// deadline for each write instead leaves it alone.
func TestDeliveryWriteTimeout(t *testing.T) {
	const timeout, every = 30 * time.Second, 7 * time.Second
	for version, cut := range map[transport.HTTP]time.Duration{transport.HTTP1: 35 * time.Second, transport.HTTP2: timeout} {
		broken := &http.Server{WriteTimeout: timeout, Handler: ticking(500, every, flushed)}
		seen, end, err := watch(t, version, broken)
		assert.Equal(t, ticks(4, every), seen, "events until then, HTTP/%s", version)
		assert.Error(t, err, "the end is not a clean one")
		assert.Equal(t, cut, end, "HTTP/%s", version)

		mended := &http.Server{WriteTimeout: timeout, Handler: ticking(500, every, func(w http.ResponseWriter, data []byte) error {
			c := http.NewResponseController(w)
			before := c.SetWriteDeadline(time.Now().Add(timeout))
			sent := flushed(w, data)
			return errors.Join(before, sent, c.SetWriteDeadline(time.Time{})) // or silence would be cut, over HTTP/2
		})}
		seen, _, err = watch(t, version, mended)
		assert.Equal(t, ticks(500, every), seen, "all of them, in an hour, HTTP/%s", version)
		assert.Equal(t, io.EOF, err)
	}
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
			var failed error
			handler := http.Handler(ticking(n, every, func(w http.ResponseWriter, data []byte) error {
				failed = c.send(w, data) // which many handlers do not look at
				return nil
			}))
			if c.wrap != nil {
				handler = c.wrap(handler)
			}
			for _, version := range []transport.HTTP{transport.HTTP1, transport.HTTP2} {
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
	url := listening(t, told(events, send))
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
		event := eventstream.AppendEvent(nil, "", fmt.Appendf(nil, "event %d", i))
		events <- event
		if flush {
			await(fmt.Sprintf("event %d", i)) // and so it is done with the one before
			if unbuffered {
				assert.GreaterOrEqual(t, size(), before, "-N prints each event")
			} else {
				assert.Zero(t, size(), "without it, curl keeps them to itself")
			}
		}
		before, total = total, total+int64(len(event))
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

// E19: a buffering proxy holds SSE. Of a hundred events of 131 B on average,
// one a second, two or three dozen come together, the first when the buffer of
// 4 KB is full (late); the rest when the proxy loses patience with a silent
// server, whose stream it cuts (at the end); with heartbeats not in an hour
// (never). Until the first lump the client does not even see a status.
func TestDeliveryBuffering(t *testing.T) {
	held := cell(t, "transport=sse/http=1.1/headers=bare/proxy=buffering")
	silent, end := hundred(t, held, options{})
	require.Len(t, silent, 100)
	assert.Greater(t, silent[0], 25*time.Second, "the first event comes late")
	assert.Equal(t, silent[0], silent[20], "with others")
	assert.Equal(t, 100*time.Second+proxy.ReadTimeout, silent[99], "the last ones when the proxy gives up")
	assert.Equal(t, silent[99], end, "and cuts")

	beating, _ := hundred(t, held, options{Heartbeat: beat})
	assert.Equal(t, silent[:len(beating)], beating, "heartbeats change nothing for those before")
	assert.Less(t, len(beating), 100, "and keep the last ones from ever coming")

	off := held
	off.Proxy = "buffering-off"
	for name, c := range map[string]struct {
		setup   setup.Setup
		options options
	}{
		"X-Accel-Buffering: no": {held, options{Heartbeat: beat, Unbuffered: true}},
		"proxy_buffering off":   {off, options{Heartbeat: beat}},
	} {
		mended, _ := hundred(t, c.setup, c.options)
		assert.Equal(t, ticks(100, time.Second), mended, "%s: each at once", name)
	}
}

// E19, E19b: the real nginx, and the model of it, which agree: both hold the
// same events until the end and give others in lumps of the same size. What
// mends it are either directive, the answer's X-Accel-Buffering, and HTTP/1.1 to
// the server (nginx's default since 1.29.7): a chunk that is complete is
// passed on, only the head waits for the first one.
func TestDeliveryNginx(t *testing.T) {
	needs(t, "nginx")
	version, err := exec.Command("nginx", "-v").CombinedOutput()
	require.NoError(t, err)
	t.Logf("%s", bytes.TrimSpace(version))
	each := slices.Repeat([]int{1}, 100)
	for name, c := range map[string]struct {
		nginx, model, accel string
		headLate            bool // here and in the model
		modelHeadLate       bool
	}{
		"default":               {nginx: "nginx", model: "buffering", headLate: true, modelHeadLate: true},
		"X-Accel-Buffering: no": {nginx: "nginx", model: "buffering", accel: "no"},
		"proxy_buffering off":   {nginx: "nginx-off", model: "buffering-off"},
		"HTTP/1.1":              {nginx: "nginx-upgrade", model: "reverse", headLate: true},
	} {
		t.Run(name, func(t *testing.T) {
			events := feed.Trades()[:100]
			var model lumps
			require.NoError(t, virtual.Run(func(ctx context.Context) (err error) {
				model, err = through(ctx, c.model, netpath.Memory(netpath.Path{}), c.accel, !c.modelHeadLate, events)
				return err
			}))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			real, err := through(ctx, c.nginx, netpath.Loopback(netpath.Path{}), c.accel, !c.headLate, events)
			require.NoError(t, err)
			t.Logf("events a lump: nginx %v, model %v", real, model)
			require.Len(t, real, len(model))
			for i, n := range model {
				assert.InDelta(t, n, real[i], 1, "lump %d", i+1)
			}
			if name == "default" {
				assert.Len(t, real, 4, "three buffers are passed on, what is in the fourth comes at the end")
			} else {
				assert.Equal(t, each, []int(real), "each event is passed on before the next is sent")
			}
		})
	}
}

// lumps are how an answer of events came: how many of them were complete with
// each of its chunks. That two share a chunk proves that the first was held,
// since a chunk begins with its length.
type lumps []int

// through sends events through a proxy, each once the proxy has had its
// opportunity to pass on the one before, and then ends the answer. The head of
// the answer has to come before the events, or with them.
func through(ctx context.Context, name string, network netpath.Network, accel string, headFirst bool, events [][]byte) (l lumps, err error) {
	p, _ := proxy.Named(name)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	front, err := network.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ln, err := network.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	publish, sent := make(chan []byte), make(chan error)
	stream := told(publish, func(w http.ResponseWriter, data []byte) error {
		err := flushed(w, data)
		sent <- err
		return err
	})
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			w.Header().Set("X-Accel-Buffering", accel)
			stream(w, r)
		}
	})}
	go srv.Serve(ln)
	defer srv.Close()
	to := proxy.Server{Addr: ln.Addr().String(), Dial: func(ctx context.Context) (net.Conn, error) { return network.Dial(ctx, "tcp", ln.Addr().String()) }}
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, front, to) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-served)
	}()

	// pass lets the proxy do what it has to: in virtual time it has for ever,
	// and nginx's one worker has when it has answered twice.
	pass := func() error { time.Sleep(time.Second); return nil }
	if p.Program != "" {
		client := &http.Client{Transport: &http.Transport{DialContext: network.Dial}}
		defer client.CloseIdleConnections()
		pass = func() error {
			for range 2 {
				resp, err := client.Get("http://" + front.Addr().String())
				if err != nil {
					return err
				}
				resp.Body.Close()
			}
			return nil
		}
	}
	conn, err := network.Dial(ctx, "tcp", front.Addr().String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return nil, err
	}
	if err := errors.Join(<-sent, pass()); err != nil {
		return nil, err
	}
	answer := bufio.NewReader(conn)
	if !headFirst {
		conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	}
	switch _, err := answer.Peek(1); {
	case headFirst && err != nil:
		return nil, err
	case !headFirst && err == nil:
		return nil, errors.New("the head came first")
	}
	conn.SetReadDeadline(time.Time{})
	for _, event := range events {
		publish <- eventstream.AppendEvent(nil, "", event)
		if err := errors.Join(<-sent, pass()); err != nil {
			return nil, err
		}
	}
	close(publish)
	raw, err := io.ReadAll(answer)
	if err != nil {
		return nil, err
	}
	_, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	var text []byte
	for before := 0; ; before = bytes.Count(text, []byte("\n\n")) {
		length, rest, _ := bytes.Cut(body, []byte("\r\n"))
		n, err := strconv.ParseUint(string(length), 16, 31)
		if err != nil || len(rest) < int(n)+2 {
			return nil, fmt.Errorf("not a chunk: %.60q", body)
		}
		if n == 0 {
			break
		}
		text, body = append(text, rest[:n]...), rest[n+2:]
		l = append(l, bytes.Count(text, []byte("\n\n"))-before)
	}
	return l, nil
}

type options = transport.Options

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

// ticking answers with n events, one every so often, as send sends them, until
// that fails. Its head is sent before.
func ticking(n int, every time.Duration, send func(http.ResponseWriter, []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		err := send(w, nil)
		for i := 0; err == nil && i < n; i++ {
			if err = netpath.Sleep(r.Context(), every); err == nil {
				err = send(w, eventstream.AppendEvent(nil, "", fmt.Append(nil, i)))
			}
		}
	}
}

// told answers with the events it is told, as send sends them.
func told(events <-chan []byte, send func(http.ResponseWriter, []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		err := send(w, nil)
		for err == nil {
			select {
			case event, ok := <-events:
				if !ok {
					return
				}
				err = send(w, event)
			case <-r.Context().Done():
				return
			}
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

// watch asks a server for a stream, in virtual time, and returns when its
// events came, and when and how it ended.
func watch(t *testing.T, version transport.HTTP, srv *http.Server) (seen []time.Duration, end time.Duration, ending error) {
	t.Helper()
	require.NoError(t, virtual.Run(func(ctx context.Context) error {
		network := netpath.Memory(netpath.Path{})
		ln, err := network.Listen("127.0.0.1:80")
		if err != nil {
			return err
		}
		srv := &http.Server{Handler: srv.Handler, WriteTimeout: srv.WriteTimeout, Protocols: transport.Protocols(version), ErrorLog: log.New(io.Discard, "", 0)}
		go srv.Serve(ln)
		defer srv.Close()
		client := &http.Transport{Protocols: transport.Protocols(version), DialContext: network.Dial} // which asks for gzip, and decodes it
		defer client.CloseIdleConnections()
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+ln.Addr().String(), nil)
		if err != nil {
			return err
		}
		begin := time.Now()
		resp, err := client.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		events := eventstream.NewReader(resp.Body)
		for {
			_, err := events.Next()
			if err != nil {
				end, ending = time.Since(begin), err
				return nil
			}
			seen = append(seen, time.Since(begin))
		}
	}))
	return seen, end, ending
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
	t.Cleanup(srv.CloseClientConnections)
	t.Cleanup(srv.Close)
	return srv.URL
}

// needs skips a test of a program that is not installed.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%v: apt-get install %s", err, program)
	}
}
