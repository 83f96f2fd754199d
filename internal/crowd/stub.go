package crowd

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"pushcost/internal/hub"
)

// Stubs are a listener's connections without a socket: more of them than a
// process may have descriptors. Their clients send an opening and then nothing;
// what is written to them is counted and dropped. They serve for a model of
// memory, whose server is the real one.
type stubs struct {
	arrive chan net.Conn
	closed chan struct{}
	close  sync.Once
	taken  atomic.Int64 // bytes written to all

	answered hub.Count // those that were written to
}

func newStubs() *stubs { return &stubs{arrive: make(chan net.Conn), closed: make(chan struct{})} }

// admit lets in n clients which all send this.
func (s *stubs) admit(opening []byte, n int) error {
	for range n {
		c := &stub{stubs: s, unread: opening}
		c.changed.L = &c.mu
		select {
		case s.arrive <- c:
		case <-s.closed:
			return net.ErrClosed
		}
	}
	return nil
}

func (s *stubs) Accept() (net.Conn, error) {
	select {
	case c := <-s.arrive:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *stubs) Close() error {
	s.close.Do(func() { close(s.closed) })
	return nil
}

func (*stubs) Addr() net.Addr { return nowhere }

var nowhere = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}

// A stub is one of them.
type stub struct {
	stubs   *stubs
	mu      sync.Mutex
	changed sync.Cond
	unread  []byte // of the opening, which all share
	overdue bool
	ended   bool
	written atomic.Bool
}

func (c *stub) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.ended:
			return 0, io.EOF
		case c.overdue:
			return 0, os.ErrDeadlineExceeded
		case len(c.unread) > 0:
			n := copy(p, c.unread)
			c.unread = c.unread[n:]
			return n, nil
		}
		c.changed.Wait()
	}
}

func (c *stub) Write(p []byte) (int, error) {
	c.stubs.taken.Add(int64(len(p)))
	if !c.written.Swap(true) {
		c.stubs.answered.Add(1)
	}
	return len(p), nil
}

func (c *stub) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.changed.Broadcast()
	return nil
}

// SetReadDeadline knows the past, with which net/http interrupts a Read, and
// no other instant: nobody here is waited for.
func (c *stub) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.overdue = !t.IsZero() && t.Before(time.Now())
	c.changed.Broadcast()
	return nil
}

func (c *stub) SetDeadline(t time.Time) error  { return c.SetReadDeadline(t) }
func (*stub) SetWriteDeadline(time.Time) error { return nil }
func (*stub) LocalAddr() net.Addr              { return nowhere }
func (*stub) RemoteAddr() net.Addr             { return nowhere }

// AdmitArgs are stubs to let in, and what each of them sends.
type AdmitArgs struct {
	Opening []byte
	N       int
}

var errNoStubs = errors.New("crowd: this server has a port, not stubs")

// Admit lets in clients without a socket, if the server was started for such.
func (s *Service) Admit(a AdmitArgs, _ *int) error {
	if s.stubs == nil {
		return errNoStubs
	}
	return s.stubs.admit(a.Opening, a.N)
}

// Taken answers with the bytes written to them so far.
func (s *Service) Taken(_ int, n *int64) error {
	if s.stubs == nil {
		return errNoStubs
	}
	*n = s.stubs.taken.Load()
	return nil
}
