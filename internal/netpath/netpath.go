// Package netpath is the network between a client and a server: delay, jitter,
// rate, window, and a count of what crossed it.
//
// A [Path] says what the network is like. [Memory] is such a network without
// sockets, for real time or a testing/synctest bubble; [Loopback] puts the same
// path between a client and a real TCP socket, as a proxy would.
//
// # Model
//
// A connection is two independent directions. Each Write becomes a segment,
// which passes the bottleneck ([Link].Rate), travels ([Link].Delay and
// [Link].Jitter) and may be read from its arrival on. Segments arrive in the
// order of writing. A Read never joins two segments and a Write is never cut to
// fit what happens to be free, so what a reader sees depends on what was
// written and when, never on scheduling. The end of the stream (FIN) is a
// segment too: it arrives after the delay and after all data.
//
// Errors are those of package net: [net.ErrClosed] after one's own Close,
// [os.ErrDeadlineExceeded], [syscall.EPIPE] for a Write nobody will read, all
// wrapped in [*net.OpError], and a bare [io.EOF]. Client ends have CloseWrite.
//
// # What is not modelled
//
//   - Loss, retransmission and reordering: jitter delays, it does not reorder.
//   - Congestion control: no slow start. Every connection has a bottleneck of
//     its own; connections do not compete.
//   - Packets: counts are TCP payload, without headers, handshakes and ACKs.
//   - The way back of an acknowledgement: a writer learns at once that its
//     peer has read (and so freed the Window) or has stopped reading (EPIPE),
//     for which TCP would need a round trip.
package netpath

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A Link is one direction of every connection of a [Path]. The zero Link
// delivers at once.
type Link struct {
	// Delay is the propagation delay. It never blocks the writer.
	Delay time.Duration

	// Jitter bounds the extra delay of each segment, uniform in [0, Jitter).
	// A segment never overtakes the one before it.
	Jitter time.Duration

	// Seed makes the jitter reproducible. The n-th connection of a network
	// draws the same sequence in every run, other connections and the other
	// direction draw others.
	Seed uint64

	// Rate is in bytes per second, 0 is unlimited. Waiting for the bottleneck
	// never blocks the writer: that is what a Window is for.
	Rate int64

	// Window is how many bytes may be written and not yet read, 0 is
	// unlimited. A Write waits until all of it fits; one larger than the
	// Window goes in pieces of the Window's size, each a segment.
	Window int64
}

// A Path is what lies between the clients and the servers of a [Network].
// Up is the direction in which clients write.
type Path struct{ Up, Down Link }

// Symmetric is a path with the same delay in both directions and no other limit.
func Symmetric(oneWay time.Duration) Path {
	return Path{Up: Link{Delay: oneWay}, Down: Link{Delay: oneWay}}
}

// RTT is the round trip of an idle path, without jitter.
func (p Path) RTT() time.Duration { return p.Up.Delay + p.Down.Delay }

// A Flow is what was written in one direction: bytes of TCP payload, and the
// calls of Write that carried any.
type Flow struct{ Bytes, Writes int64 }

func (f Flow) sub(g Flow) Flow { return Flow{f.Bytes - g.Bytes, f.Writes - g.Writes} }

// A Count is what crossed a [Network] so far, over all its connections.
type Count struct {
	Conns    int // dialed successfully, whether still open or not
	Up, Down Flow
}

// Sub is what was counted since the earlier Count d.
func (c Count) Sub(d Count) Count {
	return Count{c.Conns - d.Conns, c.Up.sub(d.Up), c.Down.sub(d.Down)}
}

// A Network is where servers listen and clients dial. Its methods may be called
// concurrently.
type Network interface {
	// Listen is like net.Listen on a numeric "IP:port"; port 0 picks a free
	// one. Closing the listener also closes the connections that were never
	// accepted.
	Listen(addr string) (net.Listener, error)

	// Dial is like net.Dialer.DialContext for the network "tcp" and a numeric
	// "IP:port"; no name is ever looked up. It takes the path's RTT. The error
	// is a *net.OpError that wraps syscall.ECONNREFUSED where nobody listens,
	// or ctx's error, in which case no server sees a connection.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)

	// Count is what crossed the network so far. A Write is in it before anyone
	// can read its bytes.
	Count() Count
}

// meter is what the two networks share: the path, and the count of what
// crossed it.
type meter struct {
	path  Path
	mu    sync.Mutex
	count Count
}

func (m *meter) Count() Count {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// opened counts a connection and numbers it, from 1.
func (m *meter) opened() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count.Conns++
	return m.count.Conns
}

func (m *meter) wrote(f *Flow, bytes, writes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.Bytes += bytes
	f.Writes += writes
}

// conns returns the two ends of the n-th connection.
func (m *meter) conns(n int, client, server net.Addr) (c, s *conn) {
	up := newPipe(m, &m.count.Up, m.path.Up, uint64(n)<<1)
	down := newPipe(m, &m.count.Down, m.path.Down, uint64(n)<<1|1)
	return &conn{in: down, out: up, local: client, remote: server},
		&conn{in: up, out: down, local: server, remote: client}
}

// parse reads a numeric "IP:port": a name would need a resolver, and in a
// bubble there is none.
func parse(op, network, addr string) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		err = &net.OpError{Op: op, Net: network, Err: &net.AddrError{Err: "not a numeric IP:port", Addr: addr}}
	}
	return at, err
}

// Sleep waits for d or, with its error, for the end of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
