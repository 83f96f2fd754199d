package crowd

import (
	"context"
	"net"
	"time"

	"pushcost/internal/setup"
)

// A Service is a server that another process commands: its methods are those
// of a receiver of net/rpc. An argument that is not needed is an int.
type Service struct {
	server Server
	stubs  *stubs // nil: it has a port
}

// StartArgs say what to serve, and where.
type StartArgs struct {
	Setup     setup.Setup
	Addr      string // empty: a free port of 127.0.0.1
	ReusePort bool   // with other processes
	State     int    // bytes that the application keeps for each connection
	Stubs     bool   // no port, but connections without a socket, which Admit lets in
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
	var ln net.Listener
	var err error
	if a.Stubs {
		s.stubs = newStubs()
		ln = s.stubs
	} else if ln, err = lc.Listen(context.Background(), "tcp", a.Addr); err != nil {
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

// BroadcastArgs are a message, how often it is to be sent, and how long after one
// another. An instant is due however late the ones before it were: who falls
// behind is not asked less.
type BroadcastArgs struct {
	Data  []byte
	Times int
	Every time.Duration // 0: as fast as can be
}

// Broadcasted says how that went.
type Broadcasted struct {
	Began, Issued time.Time // when the last was issued, it may not yet be on its way to all
	Sent, Dropped int       // over all times
}

// Broadcast sends a message to everybody.
func (s *Service) Broadcast(a BroadcastArgs, b *Broadcasted) error {
	b.Began = time.Now()
	for i := range a.Times {
		if a.Every > 0 {
			time.Sleep(time.Until(b.Began.Add(time.Duration(i) * a.Every)))
		}
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
// does not become that in time. Stubs, which are not seen to be answered, are
// N when each of them is.
func (s *Service) AwaitLen(a AwaitArgs, n *int) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.Timeout)
	defer cancel()
	err := s.server.Await(ctx, a.N)
	if err == nil && s.stubs != nil {
		err = s.stubs.answered.Await(ctx, a.N)
	}
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

// Compressions answers with the number of calls of a content coding's encoder
// so far.
func (s *Service) Compressions(_ int, n *int64) error {
	*n = s.server.Compressions()
	return nil
}

// Close closes the server.
func (s *Service) Close(int, *int) error { return s.server.Close() }
