package netpath

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Memory is a network without sockets, for real time or for one synctest
// bubble. The server's Accept sees a connection when the handshake's last
// packet lands, Up.Delay after Dial returned. Until then, and until somebody
// accepts, it waits in a backlog without limit.
func Memory(path Path) Network {
	return Fragile(path, nil)
}

type memory struct {
	meter
	mu        sync.Mutex
	listeners map[netip.AddrPort]*listener
	port      uint16           // the newest one picked
	fate      func(n int) Fate // of the n-th connection; nil: none has one
}

func (m *memory) Listen(addr string) (net.Listener, error) {
	at, err := parse("listen", "tcp", addr)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for pick := at.Port() == 0; pick && (at.Port() == 0 || m.listeners[at] != nil); {
		m.port++
		at = netip.AddrPortFrom(at.Addr(), m.port)
	}
	l := &listener{network: m, at: at}
	if m.listeners[at] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: l.Addr(), Err: syscall.EADDRINUSE}
	}
	l.cond.L = &l.mu
	m.listeners[at] = l
	return l, nil
}

func (m *memory) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	to, err := parse("dial", network, addr)
	if err != nil {
		return nil, err
	}
	var l *listener
	if err = Sleep(ctx, m.path.Up.Delay); err == nil { // the SYN lands: is anybody there?
		m.mu.Lock()
		l = m.listeners[to]
		m.mu.Unlock()
		err = Sleep(ctx, m.path.Down.Delay) // the answer, yes or no
	}
	if err == nil && l == nil {
		err = syscall.ECONNREFUSED
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	n := m.opened()
	from := &net.TCPAddr{IP: net.IPv4(10, byte(n>>16), byte(n>>8), byte(n)), Port: 1024} // a host for every client
	c, s := m.conns(n, from, l.Addr())
	if d := m.path.Up.Delay; d > 0 {
		time.AfterFunc(d, func() { l.deliver(s) })
	} else {
		l.deliver(s)
	}
	if m.fate != nil {
		return c.doom(m.fate(n)), nil
	}
	return c, nil
}

type listener struct {
	network *memory
	at      netip.AddrPort

	mu      sync.Mutex
	cond    sync.Cond
	backlog []*conn
	closed  bool
}

func (l *listener) deliver(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return
	}
	l.backlog = append(l.backlog, c)
	l.cond.Signal()
}

func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.backlog) == 0 && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		return nil, l.errClosed("accept")
	}
	c := l.backlog[0]
	l.backlog[0] = nil
	l.backlog = l.backlog[1:]
	return c, nil
}

func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.errClosed("close")
	}
	l.closed = true
	for _, c := range l.backlog {
		c.Close()
	}
	l.backlog = nil
	l.cond.Broadcast()

	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	delete(l.network.listeners, l.at)
	return nil
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

func (l *listener) errClosed(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
}
