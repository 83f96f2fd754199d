package crowd

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

var errBehind = errors.New("the client is too far behind")

// An outbox is what a connection has still to write: nothing, as long as its
// client keeps up.
type outbox struct {
	mu     sync.Mutex
	err    error  // why nothing more can be written
	behind []byte // what the socket had no room for: not empty while it is drained
}

// An outlet is where an outbox leads. Its methods are called under the lock.
type outlet interface {
	try(p []byte) (n int, err error) // writes as much as there is room for
	later()                          // begins to drain the outbox, which is not empty
	cut()                            // ends the connection at once
}

// write writes all of p, now or later, or fails. After a failure nothing more
// is written, so that no frame is ever cut in the middle.
func (o *outbox) write(to outlet, p []byte, limit int) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	drained := len(o.behind) == 0
	if drained {
		n, err = to.try(p)
	}
	if n == len(p) && err == nil {
		return n, nil
	}
	if err == nil && len(o.behind)+len(p)-n > limit {
		err = errBehind
	}
	if err != nil {
		o.err = err
		to.cut()
		return n, err
	}
	o.behind = append(o.behind, p[n:]...)
	if drained {
		to.later()
	}
	return len(p), nil
}

// A conn is a connection whose Write does not block: whichever library writes,
// its clients are dealt with alike. It takes no write deadline, having one.
type conn struct {
	net.Conn                 // *net.TCPConn, or *stub
	raw      syscall.RawConn // nil for a stub
	door     *door
	state    *byte
	outbox
	left bool // closed by who serves it
}

func newConn(accepted net.Conn, d *door) (*conn, error) {
	c := &conn{Conn: accepted, door: d, state: d.terms.newState()}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		raw, err := tcp.SyscallConn()
		if err != nil {
			return nil, err
		}
		c.raw = raw
	}
	return c, nil
}

func (c *conn) Write(p []byte) (int, error) { return c.write(c, p, c.door.terms.behind) }

func (c *conn) later() { go c.drain() }

// drain writes what is behind, until nothing is.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.behind) > 0 {
		batch := c.behind // is only appended to
		c.mu.Unlock()
		c.Conn.SetWriteDeadline(time.Now().Add(c.door.terms.patience))
		c.door.writes.Add(1)
		n, err := c.Conn.Write(batch)
		c.mu.Lock()
		if errors.Is(err, os.ErrDeadlineExceeded) && n > 0 {
			err = nil // slow, not stalled
		}
		if err != nil {
			c.err = err
			c.cut()
			break
		}
		c.behind = c.behind[n:]
	}
	c.behind = nil
	c.Conn.SetWriteDeadline(time.Time{})
	if c.left {
		c.leave()
	}
}

// cut resets the connection. Who serves it notices when reading.
func (c *conn) cut() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.SetLinger(0) // what is queued in the kernel goes too
	}
	c.Conn.Close()
}

// Close is for who serves the connection, to call last. What is behind is
// written first, in the background.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return net.ErrClosed
	}
	c.left = true
	if c.err == nil {
		c.err = net.ErrClosed
	}
	if len(c.behind) > 0 {
		return nil
	}
	return c.leave()
}

func (c *conn) leave() error {
	err := c.Conn.Close()
	c.door.leave(c)
	return err
}

func (c *conn) SetDeadline(t time.Time) error  { return c.SetReadDeadline(t) }
func (*conn) SetWriteDeadline(time.Time) error { return nil }
