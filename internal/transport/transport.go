// Package transport holds the contestants, one file each: how a transport is
// served and how it is opened. A transport gets a listener, an HTTP client and
// a log of events; which network lies between is not its business.
package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"pushcost/internal/codec"
	"pushcost/internal/hub"
)

// HTTP is the version of HTTP that carries a transport, or opens it.
type HTTP string

const (
	HTTP1 HTTP = "1.1"
	HTTP2 HTTP = "2"
)

// All is the table of contestants. Where a name comes more than once, the
// first row that fits is the default: ws is gorilla's over HTTP/1.1.
var All = []Transport{
	gorillaWebSocket,
	coderWebSocket,
	gwsWebSocket,
	webSocketOverHTTP2,
	sse,
	poll,
}

// A Transport is one contestant.
type Transport struct {
	Name   string       // ws, sse, poll
	Lib    string       // its library where there is a choice
	Over   []HTTP       // the versions of HTTP it runs over
	Codecs []codec.Name // what it can compress with
	IDs    bool         // can send an event's id beside its data
	JSON   bool         // events have to be JSON values

	// GODEBUG is a setting its server needs. Go reads it when the process
	// starts, so such a transport runs in a process of its own.
	GODEBUG string

	// Serve answers on ln until ctx ends, and returns after its last handler.
	Serve func(ctx context.Context, ln net.Listener, h *hub.Hub, o Options) error

	// Open subscribes to the events after the one with the id after (0: from
	// the beginning). The stream ends with ctx.
	Open func(ctx context.Context, c *Client, after uint64) (Stream, error)
}

// Options say how to serve.
type Options struct {
	HTTP      HTTP
	Codec     codec.Name
	IDs       bool          // an id beside every event
	Heartbeat time.Duration // between signs of life while nothing is published; 0: none

	// WriteDeadline is how long one write may wait for a client that does not
	// read; then the client is disconnected. 0: for ever.
	WriteDeadline time.Duration

	// Retry is the reconnection time that a client of SSE is told, in whole
	// milliseconds. It is asked for each of them. Nil: none is told.
	Retry func() time.Duration

	// Unbuffered asks proxies on the way not to hold an event stream back
	// (X-Accel-Buffering: no).
	Unbuffered bool

	// Admit refuses a client its stream, before it is opened or upgraded. Nil:
	// everybody is admitted.
	Admit func(*http.Request) *Refusal

	// Commands answers the POSTs to a room's /commands, beside SSE or polls.
	Commands http.Handler

	// Message handles a message that comes up a WebSocket, which r opened. A
	// refusal goes back as a message. Messages of one connection come in order.
	Message func(r *http.Request, data []byte) *Refusal
}

// A Stream is a subscription at the client.
type Stream interface {
	// Next waits for the next event. A transport that carries no ids counts. A
	// *Refusal is no end of the stream. It fails with [hub.ErrGone] where the
	// server says that events would be missing; a stream of SSE just ends then,
	// and it is Open that fails so.
	Next() (hub.Event, error)

	// Send sends a command up and returns once it is written; ack waits for
	// the server's answer where the transport has any, a *Refusal among them.
	Send(data []byte) (ack func() error, err error)

	Close() error
}

// A Client is what a transport needs to reach its server.
type Client struct {
	URL    string          // scheme and host: https://localhost:8080
	Header http.Header     // sent with every request
	HTTP   *http.Transport // protocol, TLS and network are chosen
	Codec  codec.Name      // asked for, and insisted on
	Room   string          // whose events; empty: the room without a name

	requests atomic.Int64
}

// Requests is the number of HTTP requests so far, upgrades included.
func (c *Client) Requests() int64 { return c.requests.Load() }

// Count counts a request, an upgrade being one. Whoever sends it calls this.
func (c *Client) Count() { c.requests.Add(1) }

// path is where a request goes in the client's room.
func (c *Client) path(name string) string {
	if c.Room == "" {
		return name
	}
	return "/" + c.Room + name
}

// get sends a request and insists on a 200 in the coding asked for.
func (c *Client) get(ctx context.Context, path string, h http.Header) (*http.Response, error) {
	if coding := string(c.Codec); !strings.Contains(h.Get("Accept-Encoding"), coding) {
		h = with(h, "Accept-Encoding", coding)
	}
	req, err := http.NewRequestWithContext(ctx, "GET", c.URL+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header = h
	c.Count()
	resp, err := c.HTTP.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, fmt.Errorf("GET %s: %w", path, refused(resp))
	}
	if got := resp.Header.Get("Content-Encoding"); got != string(c.Codec) {
		resp.Body.Close()
		return nil, fmt.Errorf("GET %s: asked for coding %q, got %q", path, c.Codec, got)
	}
	return resp, nil
}

// A StatusError is what a server answered instead of what was asked for. It is
// [hub.ErrGone] if it says 410.
type StatusError struct {
	Status int
	Text   string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, http.StatusText(e.Status), e.Text)
}

func (e *StatusError) Is(target error) bool {
	return target == hub.ErrGone && e.Status == http.StatusGone
}

// refused reads why there is no stream.
func refused(resp *http.Response) *StatusError {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // an answer's text is a courtesy
	return &StatusError{resp.StatusCode, strings.TrimSpace(string(text))}
}

// with returns a copy of h with one field set.
func with(h http.Header, name, value string) http.Header {
	h = h.Clone()
	h.Set(name, value)
	return h
}

// dial opens a connection to the server, over TLS where the URL says so: for
// a library that cannot dial through an http.Transport.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	if c.HTTP.Proxy != nil {
		return nil, errors.New("this library is not dialed through a proxy here")
	}
	conn, err := c.HTTP.DialContext(ctx, "tcp", u.Host)
	if err != nil || u.Scheme == "http" {
		return conn, err
	}
	secure := tls.Client(conn, c.HTTP.TLSClientConfig)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}
