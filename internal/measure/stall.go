package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/resume"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A StallPlan is a fast server, three clients that read and, if there is one,
// a fourth that stops reading before the second event, for an hour.
type StallPlan struct {
	Stalled  bool
	Deadline time.Duration // of a write; 0: none
	Keeps    int           // events in the log
	Events   [][]byte
	Every    time.Duration
	Path     netpath.Path
}

// A Stall is how it went.
type Stall struct {
	Latency []time.Duration // of every event at every client that reads
	Cut     time.Duration   // from the stall to the server's closing of the connection; 0: it had not when the hour was over
	Serving int             // connections at the server then
	Held    int             // bytes that had waited for the stalled client in its socket
	Resumed uint64          // the last event that came to it in the end, once and in order
}

// Slow serves a plan. It fails with [hub.ErrGone] if the stalled client was
// told so in the end.
func Slow(ctx context.Context, s setup.Setup, p StallPlan) (st Stall, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", s, err)
		}
	}()
	var doors doors
	r, err := assemble(ctx, s, site{path: p.Path, hub: hub.NewHub(p.Keeps, ""), options: transport.Options{WriteDeadline: p.Deadline}, tap: doors.tapped})
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	log := r.hub.Room("")
	log.Publish(p.Events[0])
	published := make([]time.Time, len(p.Events))
	var readers errgroup.Group
	latencies := make([][]time.Duration, 3)
	for i := range latencies {
		stream, err := r.open(r.client(""), 1)
		if err != nil {
			return st, err
		}
		defer stream.Close()
		readers.Go(func() error {
			for n := 1; n < len(p.Events); n++ {
				if err := arrives(stream, uint64(n+1), p.Events[n]); err != nil {
					return err
				}
				latencies[i] = append(latencies[i], time.Since(published[n]))
			}
			return nil
		})
	}
	var late lateReader
	if p.Stalled {
		if err := late.subscribe(r, p.Events); err != nil {
			return st, err
		}
		defer late.sub.Close()
	}
	if err := r.quiet(); err != nil {
		return st, err
	}
	begin := time.Now()
	for n := 1; n < len(p.Events); n++ {
		if err := netpath.Sleep(ctx, time.Until(begin.Add(time.Duration(n)*p.Every))); err != nil {
			return st, err
		}
		published[n] = time.Now()
		log.Publish(p.Events[n])
	}
	if err := readers.Wait(); err != nil {
		return st, err
	}
	for _, l := range latencies {
		st.Latency = append(st.Latency, l...)
	}
	if err := netpath.Sleep(ctx, time.Until(begin.Add(time.Hour))); err != nil {
		return st, err
	}
	st.Serving = doors.open()
	if p.Stalled {
		if at, closed := doors.closed(late.conn.LocalAddr()); closed {
			st.Cut = at.Sub(begin)
		}
		err = late.wake()
		st.Held, st.Resumed = late.conn.held, late.last
	}
	return st, err
}

// A lateReader reads one event, then nothing until it wakes, then the rest.
type lateReader struct {
	sub    *resume.Subscription
	conn   *stalling // its first
	events [][]byte
	last   uint64
	ended  chan error
}

func (l *lateReader) subscribe(r *rig, events [][]byte) error {
	client := r.client("")
	dial := client.HTTP.DialContext
	client.HTTP.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil || l.conn != nil {
			return conn, err
		}
		l.conn = &stalling{Conn: conn, stalled: make(chan struct{}), awake: make(chan struct{})}
		return l.conn, nil
	}
	l.events, l.ended = events, make(chan error, 1)
	l.sub = resume.Subscribe(r.ctx, r.contestant, client, 0, resume.Backoff{Base: time.Second, Cap: time.Second})
	if err := l.next(); err != nil {
		return err
	}
	close(l.conn.stalled)
	go func() {
		var err error
		for err == nil && l.last < uint64(len(events)) {
			err = l.next()
		}
		l.ended <- err
	}()
	return nil
}

func (l *lateReader) next() error {
	err := arrives(l.sub, l.last+1, l.events[l.last])
	if err == nil {
		l.last++
	}
	return err
}

func (l *lateReader) wake() error {
	l.conn.since = time.Now()
	close(l.conn.awake)
	return <-l.ended
}

// A stalling connection brings nothing between two moments.
type stalling struct {
	net.Conn
	stalled, awake chan struct{} // are closed
	since          time.Time     // when it was awake again
	held           int           // bytes read at that moment: they had waited
}

func (c *stalling) Read(data []byte) (int, error) {
	after := c.wait()
	n, err := c.Conn.Read(data)
	if after && time.Now().Equal(c.since) {
		c.held += n
	}
	c.wait() // it may have stalled meanwhile
	return n, err
}

// wait waits until the connection is awake. It says whether it is after a
// stall, rather than before it.
func (c *stalling) wait() (after bool) {
	select {
	case <-c.stalled:
		<-c.awake
		return true
	default:
		return false
	}
}

// doors note when a server closes its connections.
type doors struct {
	mu    sync.Mutex
	conns map[string]time.Time // by the client's address; zero while open
}

func (d *doors) tapped(ln net.Listener) net.Listener {
	d.conns = map[string]time.Time{}
	return door{ln, d}
}

func (d *doors) note(client net.Addr, closed time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns[client.String()].IsZero() {
		d.conns[client.String()] = closed
	}
}

func (d *doors) closed(client net.Addr) (at time.Time, closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at = d.conns[client.String()]
	return at, !at.IsZero()
}

func (d *doors) open() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, closed := range d.conns {
		if closed.IsZero() {
			n++
		}
	}
	return n
}

type door struct {
	net.Listener
	doors *doors
}

func (d door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	d.doors.note(conn.RemoteAddr(), time.Time{})
	return doorConn{conn, d.doors}, nil
}

type doorConn struct {
	net.Conn
	doors *doors
}

func (c doorConn) Close() error {
	c.doors.note(c.RemoteAddr(), time.Now())
	return c.Conn.Close()
}
