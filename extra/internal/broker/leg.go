package broker

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"pushcost/internal/netpath"
)

// A Leg is an instance's way to the broker: real sockets, whose bytes are
// counted, and which can be cut. It is a nats.CustomDialer.
type Leg struct {
	netpath.Network

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
	deaf  atomic.Bool
}

// NewLeg returns a leg that is whole.
func NewLeg() *Leg { return &Leg{Network: netpath.Loopback(netpath.Path{})} }

// Dial connects to the broker.
func (l *Leg) Dial(network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ENETUNREACH}
	}
	conn, err := l.Network.Dial(context.Background(), network, addr)
	if err != nil {
		return nil, err
	}
	l.conns = append(l.conns, conn)
	return &legConn{conn, l}, nil
}

// Cut ends the leg's connections, and lets nobody connect before it is healed.
func (l *Leg) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, conn := range l.conns {
		conn.Close()
	}
	l.conns = nil
}

// Deafen loses all that comes from the broker from now on. What is sent to the
// broker arrives.
func (l *Leg) Deafen() { l.deaf.Store(true) }

// Heal makes the leg whole again.
func (l *Leg) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
	l.deaf.Store(false)
}

type legConn struct {
	net.Conn
	leg *Leg
}

func (c *legConn) Read(data []byte) (int, error) {
	for {
		n, err := c.Conn.Read(data)
		if err != nil || !c.leg.deaf.Load() {
			return n, err
		}
	}
}
