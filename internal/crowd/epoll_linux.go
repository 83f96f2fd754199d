package crowd

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gobwas/ws"
	"golang.org/x/sys/unix"
)

var epolls = []Contestant{
	{Transport: "ws", Lib: "epoll", Over: http1, TLS: true, serve: serveEpollWebSocket},
	{Transport: "sse", Lib: "epoll", Over: http1, TLS: true, serve: serveEpollSSE},
	{Transport: "floor", Lib: "fd", Over: http1, serve: serveDescriptors},
}

func serveEpollWebSocket(d *door) (Server, error) {
	s := &server[[]byte]{door: d, encode: textFrame, beat: ws.CompiledPing}
	l, err := newLoop(s, (*client).frames)
	if err != nil {
		return nil, err
	}
	d.serveConns(func(c net.Conn) {
		c.SetReadDeadline(time.Now().Add(Patience))
		if _, err := ws.Upgrade(c); err != nil {
			c.Close()
			return
		}
		l.adopt(c)
	})
	return s, nil
}

func serveEpollSSE(d *door) (Server, error) {
	s := &server[[]byte]{door: d, encode: func(data []byte) []byte { return chunk(event(data)) }, beat: chunk(comment)}
	l, err := newLoop(s, func(*client, []byte) error { return nil }) // an EventSource sends nothing
	if err != nil {
		return nil, err
	}
	d.serveHTTP(func(w http.ResponseWriter, _ *http.Request) {
		if c, err := hijacked(w); err == nil {
			l.adopt(c)
		}
	})
	return s, nil
}

// A loop is one goroutine for all connections: each is no more than a
// descriptor in an epoll set and a client in memory.
type loop struct {
	server *server[[]byte]
	hear   func(*client, []byte) error // what to do with what a client sends

	// The set is itself watched by the runtime's poller, so that waiting for
	// it costs no thread.
	set  *os.File
	fd   int
	done chan struct{}

	mu      sync.Mutex
	clients []*client          // by descriptor
	partial map[*client][]byte // frames that have not come whole: few clients have one

	buf [64 << 10]byte
}

func newLoop(s *server[[]byte], hear func(*client, []byte) error) (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // which is how NewFile knows what to do
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &loop{server: s, hear: hear, set: os.NewFile(uintptr(fd), "epoll"), fd: fd, done: make(chan struct{}), partial: make(map[*client][]byte)}
	raw, err := l.set.SyscallConn()
	if err != nil {
		l.set.Close()
		return nil, err
	}
	s.wrap = func(c *conn) net.Conn { return &pivot{c} }
	s.after = l.close
	go func() {
		defer close(l.done)
		raw.Read(l.turn) // fails when the set is closed
	}()
	return l, nil
}

// close ends the loop when no client is added any more.
func (l *loop) close() {
	l.mu.Lock()
	clients := slices.Clone(l.clients)
	l.mu.Unlock()
	for _, c := range clients {
		if c != nil {
			c.end(net.ErrClosed)
		}
	}
	l.set.Close()
	<-l.done
}

// turn handles what is ready, until nothing is.
func (l *loop) turn(uintptr) (done bool) {
	var events [128]unix.EpollEvent
	for {
		n, err := unix.EpollWait(l.fd, events[:], 0)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return err != nil
		}
		for _, e := range events[:n] {
			// A late event of a descriptor that is already another's does no
			// harm: there is nothing to read yet, or there is.
			if c := l.client(int(e.Fd)); c != nil {
				if e.Events&unix.EPOLLOUT != 0 {
					c.drain()
				}
				if e.Events&^unix.EPOLLOUT != 0 {
					c.input()
				}
			}
		}
	}
}

func (l *loop) client(fd int) *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fd >= len(l.clients) {
		return nil
	}
	return l.clients[fd]
}

func (l *loop) put(c *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := int(c.fd) + 1 - len(l.clients); n > 0 {
		l.clients = append(l.clients, make([]*client, n)...)
	}
	l.clients[c.fd] = c
}

func (l *loop) forget(c *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients[c.fd] = nil
	delete(l.partial, c)
}

// keep keeps a client's partial frame and returns the one before.
func (l *loop) keep(c *client, frame []byte) (before []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.partial[c]
	if frame != nil && l.clients[c.fd] == c {
		l.partial[c] = frame
	} else {
		delete(l.partial, c)
	}
	return before
}

// A pivot is what a connection's reader and writer hold while, below, the
// connection becomes a client of the loop.
type pivot struct{ net.Conn }

// A client is a connection in the loop. Its Read does not block: where there is
// nothing it fails with a temporary error, which crypto/tls does not keep.
type client struct {
	outbox
	loop       *loop
	fd         int32
	fragmented bool        // a message's end is still to come
	tls        *tls.Conn   // nil without
	stalled    *time.Timer // while there is something behind
	remove     func()
	state      *byte
}

// adopt makes a client of a connection.
func (l *loop) adopt(c net.Conn) {
	secure, _ := c.(*tls.Conn)
	if secure != nil {
		c = secure.NetConn()
	}
	p := c.(*pivot)
	old := p.Conn.(*conn)
	defer old.Close() // which leaves open the copy of its descriptor
	fd, err := old.duplicate()
	if err != nil {
		return
	}
	n := &client{loop: l, fd: int32(fd), tls: secure, state: old.state}
	p.Conn = n
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remove = l.server.Add(n)
	l.put(n)
	if err := n.watch(unix.EPOLL_CTL_ADD, unix.EPOLLIN); err != nil {
		n.err = err
		n.cut()
	}
}

// duplicate copies the descriptor, unless there is still something to write.
func (c *conn) duplicate() (fd int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.raw == nil {
		return 0, errors.New("crowd: a stub has no descriptor")
	}
	if len(c.behind) > 0 {
		return 0, errBehind
	}
	gone := c.raw.Control(func(original uintptr) {
		fd, err = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	})
	return fd, errors.Join(gone, err)
}

func (c *client) watch(op int, events uint32) error {
	return unix.EpollCtl(c.loop.fd, op, int(c.fd), &unix.EpollEvent{Events: events, Fd: c.fd})
}

// Send writes a message, as one record where there is TLS.
func (c *client) Send(message []byte) (err error) {
	if c.tls != nil {
		_, err = c.tls.Write(message)
	} else {
		_, err = c.Write(message)
	}
	return err
}

func (c *client) Write(p []byte) (int, error) { return c.write(c, p, c.loop.server.terms.behind) }

func (c *client) try(p []byte) (int, error) {
	c.loop.server.writes.Add(1)
	for {
		n, err := unix.Write(int(c.fd), p)
		switch err {
		case nil:
			return n, nil
		case unix.EAGAIN:
			return 0, nil
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}

func (c *client) later() {
	c.watch(unix.EPOLL_CTL_MOD, unix.EPOLLIN|unix.EPOLLOUT) // of what is watched: cannot fail
	c.stalled = time.AfterFunc(c.loop.server.terms.patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.behind) > 0 && c.err == nil {
			c.err = errBehind
			c.cut()
		}
	})
}

// drain writes what is behind as far as there is room again.
func (c *client) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.behind) == 0 || c.err != nil {
		return
	}
	n, err := c.try(c.behind)
	if err != nil {
		c.err = err
		c.cut()
		return
	}
	c.behind = c.behind[n:]
	if n > 0 {
		c.stalled.Reset(c.loop.server.terms.patience)
	}
	if len(c.behind) == 0 {
		c.behind = nil
		c.stalled.Stop()
		c.stalled = nil
		c.watch(unix.EPOLL_CTL_MOD, unix.EPOLLIN)
	}
}

// Read reads what is there; err is EAGAIN where nothing is.
func (c *client) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	for {
		n, err := unix.Read(int(c.fd), p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// input hears what has come.
func (c *client) input() {
	var from io.Reader = c
	if c.tls != nil {
		from = c.tls
	}
	for {
		n, err := from.Read(c.loop.buf[:])
		if err == nil {
			err = c.loop.hear(c, c.loop.buf[:n])
		}
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			c.end(err)
			return
		case c.tls == nil && n < len(c.loop.buf):
			return // the set says when there is more; not so of what crypto/tls holds
		}
	}
}

// end closes a connection that has come to its end.
func (c *client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		c.release()
	}
}

// cut resets the connection.
func (c *client) cut() {
	unix.SetsockoptLinger(int(c.fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // what is queued in the kernel goes too
	c.release()
}

func (c *client) release() {
	if c.stalled != nil {
		c.stalled.Stop()
	}
	c.behind = nil
	c.loop.forget(c) // before somebody else gets the descriptor
	unix.Close(int(c.fd))
	c.remove()
}

// frames hears a WebSocket's frames (RFC 6455, section 5.2), the last of which
// may be cut anywhere.
func (c *client) frames(data []byte) error {
	if partial := c.loop.keep(c, nil); partial != nil {
		data = append(partial, data...)
	}
	for len(data) > 0 {
		r := bytes.NewReader(data)
		h, err := ws.ReadHeader(r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		state := ws.StateServerSide
		if c.fragmented {
			state |= ws.StateFragmented
		}
		if err == nil {
			err = ws.CheckHeader(h, state)
		}
		if err == nil && h.Length > largestMessage {
			err = ws.ErrHeaderLengthUnexpected
		}
		if err != nil {
			return err
		}
		rest := data[len(data)-r.Len():]
		if h.Length > int64(len(rest)) {
			break
		}
		ws.Cipher(rest[:h.Length], h.Mask, 0)
		if err := c.frame(h, rest[:h.Length]); err != nil {
			return err
		}
		data = rest[h.Length:]
	}
	if len(data) > 0 {
		c.loop.keep(c, bytes.Clone(data))
	}
	return nil
}

func (c *client) frame(h ws.Header, payload []byte) error {
	switch h.OpCode {
	case ws.OpPing:
		c.loop.server.heard.Add(1)
		return c.Send(ws.MustCompileFrame(ws.NewPongFrame(payload)))
	case ws.OpPong:
		return nil
	case ws.OpClose:
		c.Send(ws.MustCompileFrame(ws.NewCloseFrame(payload)))
		return io.EOF
	}
	if c.fragmented = !h.Fin; h.Fin {
		c.loop.server.heard.Add(1)
	}
	return nil
}

// The rest of a net.Conn, of which crypto/tls needs none here.

func (c *client) Close() error                   { c.end(net.ErrClosed); return nil }
func (*client) LocalAddr() net.Addr              { return nil }
func (*client) RemoteAddr() net.Addr             { return nil }
func (*client) SetDeadline(time.Time) error      { return nil }
func (*client) SetReadDeadline(time.Time) error  { return nil }
func (*client) SetWriteDeadline(time.Time) error { return nil }
