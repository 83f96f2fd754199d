package netpath

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A pipe carries bytes one way. It has no goroutine: whoever has to wait for
// an instant sets a timer that wakes it.
type pipe struct {
	link   Link
	jitter *rand.Rand // nil without Jitter
	meter  *meter
	flow   *Flow // of meter

	mu             sync.Mutex // never held while waiting: a bubble's clock would stop
	cond           sync.Cond  // something below changed, or an awaited instant came
	segments       []segment
	unread         int64     // bytes in segments
	free           time.Time // when the bottleneck has sent everything
	midway         bool      // a Write has some pieces in, and others wait for the Window
	silent         bool      // what is written is lost, and so is the FIN
	reader, writer side
}

// A segment without data is the FIN. Segments queue: one that jitter lets
// arrive before its predecessor still waits for it.
type segment struct {
	at   time.Time // of its arrival
	data []byte
}

// A side is one end of a pipe: that of its reader or that of its writer.
type side struct {
	err      error // why there is no more reading or writing here
	deadline time.Time
	timer    *time.Timer
}

func newPipe(m *meter, f *Flow, l Link, stream uint64) *pipe {
	p := &pipe{link: l, meter: m, flow: f}
	p.cond.L = &p.mu
	if l.Jitter > 0 {
		p.jitter = rand.New(rand.NewPCG(l.Seed, stream))
	}
	return p
}

// check comes before everything else, so that a deadline beats data that
// arrives at the same instant, whoever is scheduled first.
func (s *side) check() error {
	if s.err == nil && !s.deadline.IsZero() && !time.Now().Before(s.deadline) {
		return os.ErrDeadlineExceeded
	}
	return s.err
}

// wait returns when the state may have changed, at the instant at (if not
// zero), or at the deadline. All who wait on one side wait for the same
// instant, so one timer serves them.
func (p *pipe) wait(s *side, at time.Time) {
	if at.IsZero() || !s.deadline.IsZero() && s.deadline.Before(at) {
		at = s.deadline
	}
	if !at.IsZero() {
		if d := time.Until(at); s.timer == nil {
			s.timer = time.AfterFunc(d, p.wake)
		} else {
			s.timer.Reset(d)
		}
	}
	p.cond.Wait()
}

// wake takes the lock so that it cannot come between the setting of the timer
// and the waiting.
func (p *pipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cond.Broadcast()
}

// send appends a segment, to arrive when the link lets it.
func (p *pipe) send(data []byte) {
	at := time.Now()
	if p.link.Rate > 0 {
		if p.free.After(at) {
			at = p.free
		}
		at = at.Add(time.Duration(int64(len(data)) * int64(time.Second) / p.link.Rate))
		p.free = at
	}
	at = at.Add(p.link.Delay)
	if p.jitter != nil {
		at = at.Add(time.Duration(p.jitter.Int64N(int64(p.link.Jitter))))
	}
	p.segments = append(p.segments, segment{at, data})
	p.unread += int64(len(data))
	p.cond.Broadcast()
}

func (p *pipe) write(data []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if err := p.writer.check(); err != nil || len(data) == 0 {
			p.midway = p.midway && n == 0 // it was this Write, or still is another
			return n, err
		}
		if p.silent {
			return n + len(data), nil
		}
		piece, first := data, int64(1)
		if n > 0 {
			first = 0
		}
		if w := p.link.Window; w > 0 {
			piece = data[:min(int64(len(data)), w)]
			// A Write is atomic to other Writes, as a socket's is.
			if others := p.midway && n == 0; others || p.unread+int64(len(piece)) > w {
				p.wait(&p.writer, time.Time{})
				continue
			}
		}
		p.meter.wrote(p.flow, int64(len(piece)), first)
		p.send(bytes.Clone(piece))
		n += len(piece)
		data = data[len(piece):]
		if p.midway = len(data) > 0; !p.midway {
			return n, nil // even if the deadline passes just now
		}
	}
}

func (p *pipe) read(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if err := p.reader.check(); err != nil || len(data) == 0 {
			return 0, err
		}
		if len(p.segments) == 0 {
			p.wait(&p.reader, time.Time{})
			continue
		}
		s := &p.segments[0]
		switch {
		case s.at.After(time.Now()):
			p.wait(&p.reader, s.at)
			continue
		case len(s.data) == 0:
			return 0, io.EOF // and stay, for the next Read
		}
		n := copy(data, s.data)
		if s.data = s.data[n:]; len(s.data) == 0 {
			*s = segment{} // the array outlives it
			p.segments = p.segments[1:]
		}
		p.unread -= int64(n)
		if p.link.Window > 0 {
			p.cond.Broadcast()
		}
		return n, nil
	}
}

// closeWrite sends the FIN; later Writes fail with reason.
func (p *pipe) closeWrite(reason error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.writer.err {
	case net.ErrClosed:
		return net.ErrClosed
	case nil:
		if !p.silent {
			p.send(nil)
		}
	}
	p.writer.end(reason)
	p.cond.Broadcast()
	return nil
}

// closeRead drops what was not read; the peer's Writes fail from now on.
func (p *pipe) closeRead() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reader.err == net.ErrClosed {
		return net.ErrClosed
	}
	p.reader.end(net.ErrClosed)
	if p.writer.err == nil && !p.silent {
		p.writer.err = syscall.EPIPE
	}
	p.segments, p.unread = nil, 0
	p.cond.Broadcast()
	return nil
}

// silence makes the pipe lose what is written from now on. It does not tell.
func (p *pipe) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = true
	p.cond.Broadcast()
}

// lose drops what is under way.
func (p *pipe) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.segments, p.unread = nil, 0
}

// reset ends one or both sides and drops what is under way.
func (p *pipe) reset(sides ...*side) {
	p.lose()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range sides {
		if s.err == nil {
			s.end(syscall.ECONNRESET)
		}
	}
	p.cond.Broadcast()
}

func (s *side) end(reason error) {
	s.err = reason
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (p *pipe) setDeadline(s *side, t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.err == net.ErrClosed {
		return s.err
	}
	s.deadline = t
	p.cond.Broadcast() // who waits takes it into account
	return nil
}

// A conn is one end of two pipes.
type conn struct {
	in, out       *pipe
	local, remote net.Addr
}

func (c *conn) Read(data []byte) (int, error) {
	n, err := c.in.read(data)
	return n, c.wrap("read", err)
}

func (c *conn) Write(data []byte) (int, error) {
	n, err := c.out.write(data)
	return n, c.wrap("write", err)
}

func (c *conn) Close() error {
	c.out.closeWrite(net.ErrClosed)
	return c.wrap("close", c.in.closeRead())
}

// CloseWrite sends the FIN and leaves the other direction open.
func (c *conn) CloseWrite() error {
	return c.wrap("close", c.out.closeWrite(syscall.EPIPE))
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.wrap("set", c.in.setDeadline(&c.in.reader, t))
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.wrap("set", c.out.setDeadline(&c.out.writer, t))
}

func (c *conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t) // fails if and only if the other one does
	return c.SetWriteDeadline(t)
}

func (c *conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
