package transport

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/codec"
	"pushcost/internal/hub"
)

// foreign is a client of a server that answers its only connection with this.
func foreign(t *testing.T, answer func(r *http.Request) string) *Client {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		io.WriteString(conn, answer(r))
	}()
	return &Client{URL: "http://" + ln.Addr().String(), Header: http.Header{}, HTTP: &http.Transport{
		DialContext: new(net.Dialer).DialContext, DisableCompression: true, DisableKeepAlives: true,
	}}
}

func readTwo(t *testing.T, c Transport, client *Client) error {
	s, err := c.Open(t.Context(), client, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	e, err := s.Next()
	if err != nil {
		return err
	}
	assert.Equal(t, hub.Event{ID: 1, Data: []byte(`"a"`)}, e, "what came before the fault arrives")
	_, err = s.Next()
	return err
}

func TestABadAnswerIsNamed(t *testing.T) {
	const stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		transport    Transport
		answer, want string
	}{
		{sse, stream + "b\r\ndata: \"a\"\n\n\r\nzz\r\n", "sse: after event 1: "},
		{sse, stream + "b\r\ndata: \"a\"\n\n\r\nzz\r\n", "invalid byte in chunk length"},
		{sse, stream + "b\r\ndata: \"a\"\n\nXX", "malformed chunked encoding"},
		{sse, stream + "b\r\ndata: \"a\"\n\n\r\n9\r\ndata", "unexpected EOF"},
		{sse, stream + "b\r\ndata: \"a\"\n\n\r\n0\r\n\r\n", "sse: after event 1: EOF"},
		{sse, stream + "b\r\ndata: \"a\"\n\n\r\n12\r\nid: x\ndata: \"b\"\n\n\r\n", `id "x" is not a number`},
		{sse, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n", `sse: the answer is "text/html", not text/event-stream`},
		{sse, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nlater", "sse: GET /events: 503 Service Unavailable: later"},
		{sse, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: br\r\n\r\n", `asked for coding "", got "br"`},
		{sse, "SSH-2.0\r\n", "malformed HTTP"},
		{poll, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n[\"a\",}]", "poll: cursor 0: the answer is not a JSON array: "},
		{poll, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n[\"a\"", "poll: cursor 0: unexpected EOF"},
		{poll, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "poll: cursor 0: GET /poll?cursor=0: 502 Bad Gateway"},
	} {
		client := foreign(t, func(*http.Request) string { return c.answer })
		assert.ErrorContains(t, readTwo(t, c.transport, client), c.want, "%q", c.answer)
	}
}

// A server's frame with a mask is a fault too (RFC 6455, section 5.1), which
// coder's client lets pass.
func TestABadFrameIsNamed(t *testing.T) {
	const first = "\x81\x03\"a\""
	for _, c := range []struct {
		transport    Transport
		frames, want string
	}{
		{gorillaWebSocket, first + "\x83\x01x", "bad opcode 3"},
		{gorillaWebSocket, first + "\xc1\x01x", "RSV1 set"},
		{gorillaWebSocket, first + "\x81\x81....x", "bad MASK"},
		{gorillaWebSocket, first + "\x81\x05x", "unexpected EOF"},
		{gorillaWebSocket, first + "\x88\x02\x03\xf3", "close 1011"},
		{coderWebSocket, first + "\x83\x01x", "unknown opcode opcode(3)"},
		{coderWebSocket, first + "\xc1\x01x", "unexpected rsv bits"},
		{coderWebSocket, first + "\x81\x05x", "EOF"},
		{coderWebSocket, first + "\x88\x02\x03\xf3", "StatusInternalError"},
		{gwsWebSocket, first + "\x83\x01x", "unexpected opcode 3"},
		{gwsWebSocket, first + "\xc1\x01x", "protocol error"},
		{gwsWebSocket, first + "\x81\x81....x", "protocol error"},
		{gwsWebSocket, first + "\x81\x05x", "EOF"},
		{gwsWebSocket, first + "\x88\x02\x03\xf3", "1011"},
	} {
		client := foreign(t, func(r *http.Request) string {
			return fmt.Sprintf("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n%s",
				AcceptKey(r.Header.Get("Sec-Websocket-Key")), c.frames)
		})
		err := readTwo(t, c.transport, client)
		assert.ErrorContains(t, err, "ws: after event 1: ", "%s %q", c.transport.Lib, c.frames)
		assert.ErrorContains(t, err, c.want, "%s %q", c.transport.Lib, c.frames)
	}
}

func TestARefusedUpgradeSaysWhatTheServerSaid(t *testing.T) {
	for _, c := range []Transport{gorillaWebSocket, coderWebSocket, gwsWebSocket} {
		client := foreign(t, func(*http.Request) string { return "HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nno ticket" })
		_, err := c.Open(t.Context(), client, 0)
		assert.ErrorContains(t, err, "403", c.Lib)
		client = foreign(t, func(r *http.Request) string {
			return fmt.Sprintf("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
				AcceptKey(r.Header.Get("Sec-Websocket-Key")))
		})
		client.Codec = codec.DeflateNoTakeover
		_, err = c.Open(t.Context(), client, 0)
		assert.Error(t, err, "%s: compression was asked for and not granted", c.Lib)
	}
}

func TestServeReturnsAfterItsLastHandler(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	entered, finished := make(chan struct{}), false
	served := make(chan error)
	go func() {
		served <- ServeHTTP(ctx, ln, Options{HTTP: HTTP1}, func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
			finished = true // a race with the read below, unless serveHTTP waits
		})
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-entered
	cancel()
	assert.NoError(t, <-served)
	assert.True(t, finished)
}

// A gate is the answer to a request, which is not written before the gate is
// opened.
type gate struct {
	header   http.Header
	deadline time.Time
	open     chan struct{}
}

func (g *gate) Header() http.Header { return g.header }
func (g *gate) WriteHeader(int)     {}
func (g *gate) FlushError() error   { return nil }
func (g *gate) SetWriteDeadline(t time.Time) error {
	g.deadline = t
	return nil
}
func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return len(p), nil
}

func TestAStreamIsNotWrittenToAfterItsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{header: http.Header{}, open: make(chan struct{})}
		body, client := io.Pipe()
		defer client.Close()
		r := &http.Request{Method: http.MethodConnect, Body: body, Header: http.Header{":protocol": {"websocket"}, "Sec-Websocket-Version": {"13"}}}
		s, err := acceptStream(g, r, codec.Identity)
		require.NoError(t, err)
		require.NoError(t, s.ping())
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			s.close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			assert.Fail(t, "the handler would return while a ping is being written")
		default:
		}
		close(g.open)
		<-closed
		assert.Equal(t, time.Unix(0, 0), g.deadline, "the write was told to end")
	})
}

func TestACursorIsTheIdOfAnEvent(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- poll.Serve(ctx, ln, hub.NewHub(1, ""), Options{HTTP: HTTP1}) }()
	client := &Client{URL: "http://" + ln.Addr().String(), Header: http.Header{}, HTTP: &http.Transport{DisableKeepAlives: true}}
	_, err = client.get(ctx, "/poll?cursor=seven", http.Header{})
	assert.ErrorContains(t, err, `400 Bad Request: cursor "seven" is not the id of an event`)
	cancel()
	assert.NoError(t, <-served)
}

type counting struct {
	sent, beats int
	enough      func()
}

func (c *counting) event(hub.Event) error { c.sent++; return nil }

func (c *counting) beat() error {
	if c.beats++; c.beats == 3 {
		c.enough()
	}
	return nil
}

func TestFollowBeatsOnlyWhenNothingElseIsSent(t *testing.T) {
	log := hub.NewLog(10)
	log.Publish([]byte("1"))
	ctx, cancel := context.WithCancel(t.Context())
	c := &counting{enough: cancel}
	assert.ErrorIs(t, follow(ctx, log, 0, time.Millisecond, c, nil), context.Canceled)
	assert.Equal(t, 1, c.sent)
	assert.GreaterOrEqual(t, c.beats, 3)
}

func TestThereIsNoRoomButThoseOfTheHub(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- sse.Serve(ctx, ln, hub.NewHub(1, "hall"), Options{HTTP: HTTP1}) }()
	client := &Client{URL: "http://" + ln.Addr().String(), Room: "cellar", Header: http.Header{}, HTTP: &http.Transport{DisableKeepAlives: true}}
	_, err = sse.Open(ctx, client, 0)
	assert.ErrorContains(t, err, `404 Not Found: there is no room "cellar"`)
	client.Room = "hall"
	s, err := sse.Open(ctx, client, 0)
	require.NoError(t, err)
	s.Close()
	cancel()
	assert.NoError(t, <-served)
}
