// Package crowd holds the contestants as servers of many connections: what
// does one cost that is idle, and what does a message to all of them?
//
// Each is a real server. It answers pings, reads what its clients send,
// notices that they leave, by FIN or RST, and delivers every broadcast once, in
// order. The floors, which do less, are there to be subtracted.
//
// # Dead and stalled clients
//
// A broadcast waits for nobody. It writes straight to the socket, as far as
// the kernel takes it. What does not fit waits in a queue of that connection,
// which something drains that exists only while there is a queue. A client
// that is more than [Behind] bytes behind, or takes nothing for [Patience], is
// cut off with an RST and leaves the registry; nobody else notices.
package crowd

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"pushcost/internal/codec"
	"pushcost/internal/hub"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// The limits of a client that does not read.
const (
	Behind   = 1 << 20 // bytes queued for it, beyond what its socket holds
	Patience = 10 * time.Second
)

// A Server serves a crowd.
type Server interface {
	// Broadcast sends a message to everybody. Some sent it need not have
	// reached yet; dropped were cut off.
	Broadcast(data []byte) (sent, dropped int)

	// Beat sends a heartbeat to everybody and returns to how many: a ping, a
	// comment, an empty answer.
	Beat() int

	Len() int                               // connections now
	Await(ctx context.Context, n int) error // until there are n
	Heard() int64                           // messages and pings read from clients so far
	Writes() int64                          // writes to their sockets so far
	Compressions() int64                    // calls of a content coding's encoder so far

	Close() error // returns when nothing is left of it
}

// A Contestant is a way to serve a crowd.
type Contestant struct {
	Transport string           // ws, sse, poll; floor: no transport at all
	Lib       string           // what serves it
	Over      []transport.HTTP // the versions of HTTP it runs over
	TLS       bool             // can be served over TLS
	Codecs    []codec.Name     // beside none

	// Serve serves a contestant of another package, which has a registry and
	// queues of its own.
	Serve func(ln net.Listener, s setup.Setup) (Server, error)

	serve func(*door) (Server, error)
}

// All is the table of contestants. Where a transport is named without a lib,
// the first row is meant.
var All = slices.Concat(gorillas, coders, gwss, gobwases, sses, hijacks, polls, floors, epolls)

func (c Contestant) fits(s setup.Setup) bool {
	return c.Transport == s.Transport && (s.Lib == "" || c.Lib == s.Lib) && slices.Contains(c.Over, s.HTTP) &&
		(s.TLS == "" || s.TLS == "1.3" && c.TLS) && (s.Codec == codec.Identity || slices.Contains(c.Codecs, s.Codec))
}

// terms are on what a client is served.
type terms struct {
	behind   int
	patience time.Duration
	state    int // bytes that the application keeps for each
}

// serve serves a setup's crowd on a listener until it is closed.
func serve(ln net.Listener, s setup.Setup, t terms) (Server, error) {
	i := slices.IndexFunc(All, func(c Contestant) bool { return c.fits(s) })
	if i < 0 {
		return nil, fmt.Errorf("crowd: there is no %s here", s)
	}
	if All[i].Serve != nil {
		return All[i].Serve(ln, s)
	}
	return All[i].serve(&door{Listener: ln, setup: s, terms: t, inside: make(map[*conn]struct{})})
}

// A server's connections are sinks of M: a message in the form in which all of
// them send it.
type server[M any] struct {
	*door
	hub.Fanout[M]
	heard atomic.Int64

	encode func(data []byte) M
	beat   M
	silent bool // has no heartbeat
}

func (s *server[M]) Broadcast(data []byte) (sent, dropped int) {
	return s.Fanout.Broadcast(s.encode(data))
}

func (s *server[M]) Beat() int {
	if s.silent {
		return 0
	}
	sent, _ := s.Fanout.Broadcast(s.beat)
	return sent
}

func (s *server[M]) Heard() int64 { return s.heard.Load() }

// A libraryConn is a connection of a library, to which a message is what to
// call.
type libraryConn[C any] struct{ conn C }

func (l libraryConn[C]) Send(call func(C) error) error { return call(l.conn) }

// A rawConn is one to which a message is bytes.
type rawConn struct{ net.Conn }

func (r rawConn) Send(message []byte) error {
	_, err := r.Write(message)
	return err
}

func same(data []byte) []byte { return data }

var http1 = []transport.HTTP{transport.HTTP1}
