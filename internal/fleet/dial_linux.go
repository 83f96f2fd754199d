package fleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"pushcost/internal/codec"
	"pushcost/internal/feed"
	"pushcost/internal/transport"
)

// dialers open connections at the same time. Each waits for the server most of
// the time; more would not be faster, since the server accepts one by one.
const dialers = 16

// perAddress is how many connections have the same local address before the
// next of 127.0.0.0/8 takes its turn: once half of the ports are taken, the kernel
// searches long for another.
const perAddress = 10_000

// A dialect is how a client opens its stream and understands what comes.
type dialect struct {
	request func(c *conn) []byte  // that opens the connection's streams
	decoder func(c *conn) decoder // calls conn.opened for each
	parked  bool                  // the answer comes only with an event
}

// Dial opens clients. It returns when the server has answered every one with
// the head of its stream; a poll is open once it is asked.
func (f *Fleet) Dial(a DialArgs, r *Dialed) error {
	began := time.Now()
	o, err := newOpener(f, a)
	if err != nil {
		return fmt.Errorf("fleet: %s: %w", a.Setup, err)
	}
	f.mu.Lock()
	o.first = f.dialed
	f.dialed += a.N
	if err = cmp.Or(f.err, Descriptors(o.conns()+len(f.open()))); err == nil {
		err = f.start()
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(context.Background())
	for range dialers {
		g.Go(func() error {
			buf := make([]byte, 16<<10)
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= o.conns() {
					return nil
				}
				if err := o.open(i, buf); err != nil {
					return fmt.Errorf("fleet: %s: client %d: %w", a.Setup, o.first+i*o.streams, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Took = time.Since(began)
	r.Open = f.counts.Open
	return f.err
}

// An opener opens the connections of one Dial.
type opener struct {
	DialArgs
	fleet   *Fleet
	first   int // its first client's number
	streams int // clients per connection
	from    netip.Addr
	to      netip.AddrPort
	tls     *tls.Config
	dialect dialect
}

func newOpener(f *Fleet, a DialArgs) (o *opener, err error) {
	o = &opener{DialArgs: a, fleet: f, streams: max(a.Streams, 1)}
	if o.to, err = netip.ParseAddrPort(a.Addr); err != nil || !o.to.Addr().Is4() {
		return nil, fmt.Errorf("%q is not an IPv4 address and a port", a.Addr)
	}
	if a.From == "" && o.to.Addr().IsLoopback() {
		a.From = o.to.Addr().String()
	}
	if a.From != "" {
		if o.from, err = netip.ParseAddr(a.From); err != nil || !o.from.Is4() {
			return nil, fmt.Errorf("%q is not an IPv4 address to dial from", a.From)
		}
	}
	if a.Streams > 0 && a.Setup.HTTP != transport.HTTP2 {
		return nil, errors.New("only HTTP/2 has streams")
	}
	if a.Setup.TLS != "" {
		o.tls = &tls.Config{
			InsecureSkipVerify: true, // the certificate is not what is measured
			ServerName:         "localhost",
			MinVersion:         tls.VersionTLS13,
			NextProtos:         []string{alpn(a.Setup.HTTP)},
		}
	}
	o.dialect, err = o.newDialect()
	return o, err
}

func alpn(h transport.HTTP) string {
	if h == transport.HTTP2 {
		return "h2"
	}
	return "http/1.1"
}

func (o *opener) newDialect() (dialect, error) {
	h, err := feed.Headers(cmp.Or(o.Setup.Headers, "chrome"))
	if err != nil {
		return dialect{}, err
	}
	if o.Setup.Transport != "sse" && (o.Encoded || len(o.Greeting.Data)+len(o.Greeting.Wire) > 0) {
		return dialect{}, errors.New("only clients of an event stream are encoded, or greeted")
	}
	switch s := o.Setup; s.Transport + "/" + string(s.HTTP) {
	case "ws/1.1":
		return webSocket(h, s.Codec)
	case "sse/1.1":
		return sseOverHTTP1(h, s.Codec), nil
	case "sse/2":
		return sseOverHTTP2(h, s.Codec, s.TLS != ""), nil
	}
	if o.Setup.Codec != codec.Identity {
		return dialect{}, errors.New("a fleet has no such clients with a codec")
	}
	switch s := o.Setup; {
	case s.Transport == "floor":
		return floor(), nil
	case s.Transport == "poll" && s.HTTP == transport.HTTP1:
		return poll(h, o.Cursor), nil
	case s.Transport == "socketio" && s.HTTP == transport.HTTP1 && s.Lib == "polling":
		return socketIOPolling(h), nil
	case s.Transport == "socketio" && s.HTTP == transport.HTTP1:
		return socketIO(h), nil
	}
	return dialect{}, errors.New("a fleet has no such clients")
}

// conns is the number of connections.
func (o *opener) conns() int { return (o.N + o.streams - 1) / o.streams }

// open opens the i-th connection.
func (o *opener) open(i int, buf []byte) (err error) {
	c := &conn{fleet: o.fleet}
	from := o.from
	if from.IsLoopback() {
		for range (o.first + i) / perAddress {
			from = from.Next()
		}
	}
	if c.socket, err = connect(from, o.to, o.Window); err != nil {
		return fmt.Errorf("dial %s: %w", o.to, err)
	}
	defer func() {
		if err != nil {
			c.close(true)
		}
	}()
	for k := range min(o.streams, o.N-i*o.streams) {
		member := &client{conn: c, id: o.first + i*o.streams + k, encoded: o.Encoded}
		member.greet(o.Greeting)
		c.clients = append(c.clients, member)
	}
	c.opening = len(c.clients)
	if o.tls != nil {
		c.tls = tls.Client(wire{c}, o.tls)
		if err := c.tls.Handshake(); err != nil {
			return patient("shaking hands for TLS", err)
		}
		if got := c.tls.ConnectionState().NegotiatedProtocol; got != "" && got != o.tls.NextProtos[0] {
			return fmt.Errorf("the server speaks %q, not %q", got, o.tls.NextProtos[0])
		}
	}
	c.decoder = o.dialect.decoder(c)
	if _, err := c.Write(o.dialect.request(c)); err != nil {
		return patient("asking", err)
	}
	if o.dialect.parked {
		c.opening = 0
	}
	for deadline := time.Now().Add(patience); c.opening > 0; {
		n, err := c.Read(buf)
		if err == nil && time.Now().After(deadline) {
			err = unix.EAGAIN
		}
		if err != nil {
			return patient("waiting for the answer", err)
		}
		if err := c.opens(buf[:n]); err != nil {
			return err
		}
	}
	if err := c.socket.unblock(); err != nil {
		return err
	}
	return o.fleet.join(c, buf)
}

// opens takes what comes while a connection is opened.
func (c *conn) opens(b []byte) error {
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	return c.decoder.feed(b)
}

// opened is called when a client has seen the head of its answer, and what greets it.
func (c *conn) opened() { c.opening-- }

// patient says what was not done in time.
func patient(doing string, err error) error {
	if errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("%s: not done within %s", doing, patience)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// A wire is what TLS reads and writes: the socket. Deadlines are the socket's own.
type wire struct{ *conn }

func (w wire) Read(b []byte) (int, error) {
	if w.drained {
		return 0, unix.EAGAIN
	}
	n, err := w.socket.Read(b)
	w.received += int64(n)
	w.drained = w.opening == 0 && n < len(b)
	return n, err
}

func (w wire) Write(b []byte) (int, error)    { return w.socket.Write(b) }
func (wire) Close() error                     { return nil } // the conn does
func (wire) LocalAddr() net.Addr              { return nil }
func (wire) RemoteAddr() net.Addr             { return nil }
func (wire) SetDeadline(time.Time) error      { return nil }
func (wire) SetReadDeadline(time.Time) error  { return nil }
func (wire) SetWriteDeadline(time.Time) error { return nil }

// get is a request of HTTP/1.1 with a profile's headers and some of its own.
func get(path string, profile http.Header, own ...string) []byte {
	h := profile.Clone()
	for i := 0; i < len(own); i += 2 {
		h.Set(own[i], own[i+1])
	}
	if h.Get("User-Agent") == "" {
		h.Del("User-Agent")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: localhost\r\n", path)
	h.Write(&b) // to memory
	b.WriteString("\r\n")
	return b.Bytes()
}

// accepts adds a coding to those that a profile's headers accept.
func accepts(profile http.Header, coding codec.Name) string {
	if all := profile.Get("Accept-Encoding"); strings.Contains(all, string(coding)) {
		return all
	}
	return string(coding)
}
