package fleet

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Fleet is a set of clients. The zero value is one without any; Close ends
// the goroutine that reads for them. Its methods may be called at the same time.
//
// The first error of a client (wrong bytes, surplus ones, a broken protocol)
// is that of every later call.
type Fleet struct {
	mu     sync.Mutex
	poller *poller       // nil: nobody reads
	done   chan struct{} // the reader has ended
	err    error

	sockets []*conn // by descriptor
	conns   []*conn // in the order of joining, also some that have ended
	dialed  int     // clients, joined or not
	counts  Counts

	script    script
	listening int // clients that are open and not stalled
	owed      int // those of them that lack events
	lost      int // clients that left while they were owed
	pinged    int // clients that owe a pong
	ponged    int // those that have had theirs
	ping      []byte

	later   chan struct{} // closed when clients may read again; nil: they do
	now     time.Time     // when the socket at hand became ready
	settled chan struct{} // closed when those who wait should look again; nil: nobody waits
}

// A conn is a connection with its clients: one, but for HTTP/2.
type conn struct {
	fleet    *Fleet
	socket   socket
	tls      *tls.Conn // nil: none
	drained  bool      // the socket has no more for now
	received int64     // bytes not yet counted
	decoder  decoder
	clients  []*client
	opening  int // clients whose answer's head has not been seen
	sends    sends
	stalled  bool // reads no more
	ended    bool
	release  []func() // of decoders
	buf      []byte   // for what is written
}

// sends is what a client can send up, when it likes.
type sends int

const (
	nothing sends = iota
	plainMessages
	socketIOPackets
)

// A decoder takes what a connection receives, cut anywhere. It does not keep b.
type decoder interface{ feed(b []byte) error }

// errLeft is a decoder's: the server ends the connection.
var errLeft = errors.New("the server ended the connection")

func (c *conn) Write(b []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Write(b)
	}
	return c.socket.Write(b)
}

// Read reads what the server has sent, decrypted.
func (c *conn) Read(b []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Read(b)
	}
	return wire{c}.Read(b)
}

// start makes the goroutine that reads, if there is none.
func (f *Fleet) start() (err error) {
	if f.poller != nil {
		return nil
	}
	if f.poller, err = newPoller(); err != nil {
		return err
	}
	f.done = make(chan struct{})
	go f.read(f.poller, f.done)
	return nil
}

func (f *Fleet) read(p *poller, done chan struct{}) {
	defer close(done)
	buf := make([]byte, 256<<10)
	for {
		ready, err := p.wait()
		f.mu.Lock()
		for later := f.later; later != nil; later = f.later {
			f.mu.Unlock()
			<-later
			f.mu.Lock()
		}
		if err != nil {
			f.fail(err)
			f.mu.Unlock()
			return
		}
		for _, e := range ready {
			if int(e.Fd) == p.stop {
				f.mu.Unlock()
				return
			}
			if c := f.sockets[e.Fd]; c != nil { // or it was closed since
				f.ready(c, e.Events, buf)
			}
		}
		f.mu.Unlock()
	}
}

// ready handles a socket's readiness with one read, or for TLS one and those
// of what it has decrypted already.
func (f *Fleet) ready(c *conn, events uint32, buf []byte) {
	if c.stalled {
		if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			f.end(c, false, true)
		}
		return
	}
	f.now = time.Now()
	c.drained = false
	defer f.count(c)
	for {
		n, err := c.Read(buf)
		if err == nil {
			err = c.decoder.feed(buf[:n])
		}
		switch {
		case err == nil && c.tls == nil, errors.Is(err, unix.EAGAIN):
			return
		case gone(err), err == errLeft:
			f.end(c, false, true)
			return
		case err != nil:
			f.fail(err)
			f.end(c, true, false)
			return
		}
	}
}

func (f *Fleet) count(c *conn) {
	f.counts.Bytes += c.received
	c.received = 0
}

// join adds an open connection.
func (f *Fleet) join(c *conn, buf []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.poller == nil {
		return errors.New("the fleet was closed meanwhile")
	}
	if err := f.poller.add(c.socket); err != nil {
		return err
	}
	if n := int(c.socket) + 1; n > len(f.sockets) {
		f.sockets = append(f.sockets, make([]*conn, max(n-len(f.sockets), len(f.sockets)))...)
	}
	f.sockets[c.socket] = c
	f.conns = append(f.conns, c)
	for _, client := range c.clients {
		client.open = true
		f.listening++
		f.counts.Open++
		client.place = f.script.end()
	}
	f.count(c)
	if c.tls != nil { // what was decrypted already makes no socket ready
		f.ready(c, unix.EPOLLIN, buf)
	}
	return nil
}

// end closes a connection that has joined.
func (f *Fleet) end(c *conn, reset, byServer bool) {
	if c.ended {
		return
	}
	for _, client := range c.clients {
		f.leave(client, byServer)
	}
	c.ended = true
	f.sockets[c.socket] = nil
	c.close(reset)
}

func (c *conn) close(reset bool) {
	for _, release := range c.release {
		release()
	}
	c.socket.close(reset)
}

// leave ends a client.
func (f *Fleet) leave(c *client, byServer bool) {
	if !c.open {
		return
	}
	c.open = false
	f.counts.Open--
	if byServer {
		f.counts.Closed++
	}
	if c.pinged {
		f.pinged--
	}
	if !c.conn.stalled {
		f.ignore(c, byServer)
	}
	f.wake()
}

// ignore makes a client one of whom nothing is expected.
func (f *Fleet) ignore(c *client, byServer bool) {
	f.listening--
	if c.place < f.script.end() {
		f.owed--
		if byServer {
			f.lost++
		}
	}
}

// settle notes that one more client has done what n counts.
func (f *Fleet) settle(n *int) {
	if *n--; *n == 0 {
		f.wake()
	}
}

// wake lets those who wait look again.
func (f *Fleet) wake() {
	if f.settled != nil {
		close(f.settled)
		f.settled = nil
	}
}

// wait returns when done does, a client has failed, or time is up.
func (f *Fleet) wait(timeout time.Duration, done func() bool) {
	t := time.NewTimer(timeout)
	defer t.Stop()
	for !done() && f.err == nil {
		if f.settled == nil {
			f.settled = make(chan struct{})
		}
		settled := f.settled
		f.mu.Unlock()
		select {
		case <-settled:
			f.mu.Lock()
		case <-t.C:
			f.mu.Lock()
			return
		}
	}
}

func (f *Fleet) fail(err error) {
	if f.err == nil {
		f.err = fmt.Errorf("fleet: %w", err)
		f.wake()
	}
}

// open returns the connections that have not ended, oldest first.
func (f *Fleet) open() []*conn {
	f.conns = slices.DeleteFunc(f.conns, func(c *conn) bool { return c.ended })
	return f.conns
}

// Expect says what every client gets next. See [ExpectArgs].
func (f *Fleet) Expect(a ExpectArgs, _ *int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script.expect(a, f.listening)
	if a.Times > 0 {
		f.owed = f.listening
	}
	if a.Later && f.later == nil {
		f.later = make(chan struct{})
	}
	return f.err
}

// readOn ends what Expect asked for with Later.
func (f *Fleet) readOn() {
	if f.later != nil {
		close(f.later)
		f.later = nil
	}
}

// Await waits until every client has what is expected.
func (f *Fleet) Await(a AwaitArgs, r *Awaited) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readOn()
	f.wait(a.Timeout, func() bool { return f.owed == 0 })
	r.Missing = f.owed + f.lost
	for _, e := range f.script.events {
		r.Each = append(r.Each, e.Arrival)
		if !e.First.IsZero() && (r.First.IsZero() || e.First.Before(r.First)) {
			r.First = e.First
		}
		if e.Last.After(r.Last) {
			r.Last = e.Last
		}
	}
	if f.owed == 0 {
		f.script.forget()
		f.lost = 0
	}
	return f.err
}

// Send lets every WebSocket client send a text message, and every Socket.IO
// client on a WebSocket an event with this text. It says how many did.
func (f *Fleet) Send(a SendArgs, sent *int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	messages := map[sends][]byte{
		plainMessages:   appendFrame(nil, opText, a.Data),
		socketIOPackets: appendFrame(nil, opText, eventPacket(a.Data)),
	}
	for _, c := range f.open() {
		if c.sends != nothing && f.write(c, messages[c.sends]) {
			*sent++
		}
	}
	return f.err
}

// Ping pings on every WebSocket and waits for the answers. It says how many
// came with the ping's payload.
func (f *Fleet) Ping(a PingArgs, ponged *int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ping = strconv.AppendInt(f.ping[:0], time.Now().UnixNano(), 10)
	f.pinged, f.ponged = 0, 0
	message := appendFrame(nil, opPing, f.ping)
	for _, c := range f.open() {
		if c.sends == plainMessages && !c.stalled && f.write(c, message) {
			c.clients[0].pinged = true
			f.pinged++
		}
	}
	f.wait(a.Timeout, func() bool { return f.pinged == 0 })
	*ponged = f.ponged
	return f.err
}

// write says whether a connection took it.
func (f *Fleet) write(c *conn, b []byte) bool {
	_, err := c.Write(b)
	switch {
	case err == nil:
		return true
	case gone(err):
		f.end(c, true, true)
	default:
		f.fail(fmt.Errorf("%s: %w", c.clients[0], err))
	}
	return false
}

// Stall makes the oldest n clients read no more; nothing is expected of them.
// Of an HTTP/2 connection all stall together, so that n may become more.
func (f *Fleet) Stall(n int, stalled *int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.open() {
		if *stalled >= n {
			break
		}
		if c.stalled {
			continue
		}
		if err := f.poller.deafen(c.socket); err != nil {
			return err
		}
		for _, client := range c.clients {
			if client.open {
				f.ignore(client, false)
				*stalled++
			}
		}
		c.stalled = true
	}
	f.wake()
	return f.err
}

// Cut closes the newest clients and says how many. Of an HTTP/2 connection all
// are closed together.
func (f *Fleet) Cut(a CutArgs, cut *int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	open := f.counts.Open
	for _, c := range slices.Backward(f.open()) {
		if open-f.counts.Open >= a.N {
			break
		}
		f.end(c, a.Reset, false)
	}
	*cut = open - f.counts.Open
	return f.err
}

// Close closes all clients, by RST: so many FINs would leave no local ports.
// The Fleet may then dial again.
func (f *Fleet) Close(int, *int) error {
	f.mu.Lock()
	for _, c := range f.open() {
		f.end(c, true, false)
	}
	p, done := f.poller, f.done
	f.poller = nil
	f.readOn()
	err := f.err
	f.mu.Unlock()
	if p == nil {
		return err
	}
	if err := p.wake(); err != nil {
		return err
	}
	<-done
	p.close()
	return err
}

// Counts returns what the fleet has seen.
func (f *Fleet) Counts(_ int, c *Counts) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	*c = f.counts
	return f.err
}
