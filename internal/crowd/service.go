package crowd

import (
	"context"
	"net"
	"time"

	"pushcost/internal/setup"
)

// A Service is a server that another process commands: its methods are those
// of a receiver of net/rpc. An argument that is not needed is an int.
type Service struct{ server Server }

// StartArgs say what to serve, and where.
type StartArgs struct {
	Setup     setup.Setup
	Addr      string // empty: a free port of 127.0.0.1
	ReusePort bool   // with other processes
	State     int    // bytes that the application keeps for each connection
}

// Start starts the server. The answer is its address.
func (s *Service) Start(a StartArgs, addr *string) error {
	if a.Addr == "" {
		a.Addr = "127.0.0.1:0"
	}
	var lc net.ListenConfig
	if a.ReusePort {
		lc.Control = reusePort
	}
	ln, err := lc.Listen(context.Background(), "tcp", a.Addr)
	if err != nil {
		return err
	}
	s.server, err = serve(ln, a.Setup, terms{behind: Behind, patience: Patience, state: a.State})
	if err != nil {
		ln.Close()
		return err
	}
	*addr = ln.Addr().String()
	return nil
}

// BroadcastArgs are a message and how often it is to be sent.
type BroadcastArgs struct {
	Data  []byte
	Times int
}

// Broadcasted says how that went.
type Broadcasted struct {
	Began, Issued time.Time // when the last was issued, it may not yet be on its way to all
	Sent, Dropped int       // over all times
}

// Broadcast sends a message to everybody.
func (s *Service) Broadcast(a BroadcastArgs, b *Broadcasted) error {
	b.Began = time.Now()
	for range a.Times {
		sent, dropped := s.server.Broadcast(a.Data)
		b.Sent += sent
		b.Dropped += dropped
	}
	b.Issued = time.Now()
	return nil
}

// Beat sends a heartbeat. The answer is to how many.
func (s *Service) Beat(_ int, n *int) error {
	*n = s.server.Beat()
	return nil
}

// Len answers with the number of connections.
func (s *Service) Len(_ int, n *int) error {
	*n = s.server.Len()
	return nil
}

// AwaitArgs are a number of connections and how long to wait for it.
type AwaitArgs struct {
	N       int
	Timeout time.Duration
}

// AwaitLen answers with the number of connections when it is N, and fails if it
// does not become that in time.
func (s *Service) AwaitLen(a AwaitArgs, n *int) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.Timeout)
	defer cancel()
	err := s.server.Await(ctx, a.N)
	*n = s.server.Len()
	return err
}

// Heard answers with the number of messages and pings read from clients so far.
func (s *Service) Heard(_ int, n *int64) error {
	*n = s.server.Heard()
	return nil
}

// Writes answers with the number of writes to sockets so far.
func (s *Service) Writes(_ int, n *int64) error {
	*n = s.server.Writes()
	return nil
}

// Close closes the server.
func (s *Service) Close(int, *int) error { return s.server.Close() }
