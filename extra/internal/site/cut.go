package site

import (
	"net"
	"sync"
	"sync/atomic"
)

// A Cutter cuts connections at any byte of what the server sends, once it is
// armed.
type Cutter struct {
	// Next says after how many bytes the next connection ends, and whether
	// with a reset (RST) or as if the server had said all (FIN). It is called
	// by one goroutine at a time.
	Next func() (bytes int, reset bool)

	mu    sync.Mutex
	armed atomic.Bool
	cuts  atomic.Int64
}

// Arm begins the cutting. Connections that are open count from here.
func (c *Cutter) Arm() { c.armed.Store(true) }

// Cuts is the number of connections cut.
func (c *Cutter) Cuts() int64 { return c.cuts.Load() }

func (c *Cutter) next() (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Next()
}

// tap puts the cutter before a listener.
func (c *Cutter) tap(ln net.Listener) net.Listener { return cutListener{ln, c} }

type cutListener struct {
	net.Listener
	cutter *Cutter
}

func (l cutListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, cutter: l.cutter}, nil
}

type cutConn struct {
	net.Conn
	cutter *Cutter
	doomed bool // to end after this many bytes, in this way
	left   int
	reset  bool
}

func (c *cutConn) Write(p []byte) (int, error) {
	if !c.cutter.armed.Load() {
		return c.Conn.Write(p)
	}
	if !c.doomed {
		c.doomed = true
		c.left, c.reset = c.cutter.next()
	}
	n, err := c.Conn.Write(p[:min(len(p), c.left)])
	c.left -= n
	if err != nil || n == len(p) {
		return n, err
	}
	c.cutter.cuts.Add(1)
	if c.reset {
		c.Conn.(*net.TCPConn).SetLinger(0)
	}
	c.Close()
	return n, net.ErrClosed
}
