// Package resume keeps a subscription when its connection ends: what an
// EventSource does by itself, and what everybody else writes by hand. It is a
// cursor, a wait before the next try, a watch for connections that are dead
// without saying so, and a [Journal] for what comes twice.
package resume

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"pushcost/internal/hub"
	"pushcost/internal/transport"
)

// A Backoff is how long a client waits before it tries again. The n-th try in a
// row that brings no event, from 0, is followed by up to Base·2^n, or Cap if
// that is less.
type Backoff struct {
	Base, Cap time.Duration

	// Rand draws the wait between nothing and that bound ("full jitter"). If
	// nil, it is the bound itself: clients that lost their connections at one
	// instant come back at one instant.
	Rand *rand.Rand
}

func (b Backoff) wait(try int) time.Duration {
	bound := b.Cap
	if try < 30 { // further on, it would overflow
		bound = min(bound, b.Base<<try)
	}
	if b.Rand == nil || bound <= 0 {
		return bound
	}
	return time.Duration(b.Rand.Int64N(int64(bound)))
}

// A Subscription is a stream of events across connections.
type Subscription struct {
	ctx       context.Context
	transport transport.Transport
	client    *transport.Client
	backoff   Backoff

	cursor uint64           // the last event
	stream transport.Stream // nil: none is open
	tries  int              // in a row that brought no event
	retry  time.Duration    // the reconnection time that the server told; negative: none
}

// Subscribe subscribes to the events after the one with the id after, until
// ctx ends. It does not connect yet: Next does.
func Subscribe(ctx context.Context, t transport.Transport, c *transport.Client, after uint64, b Backoff) *Subscription {
	return &Subscription{ctx: ctx, transport: t, client: c, backoff: b, cursor: after, retry: -1}
}

// Next waits for the next event, over as many connections as that takes. It
// fails when ctx ends, with [hub.ErrGone] where events would be missing, and
// with a [*transport.StatusError] that says the client is at fault: trying
// again would not help.
func (s *Subscription) Next() (hub.Event, error) {
	for {
		e, err := s.next()
		if err == nil {
			s.cursor, s.tries = e.ID, 0
			return e, nil
		}
		s.Close()
		if err := errors.Join(s.ctx.Err(), final(err)); err != nil {
			return hub.Event{}, err
		}
		t := time.NewTimer(s.wait())
		select {
		case <-t.C:
		case <-s.ctx.Done():
			t.Stop()
		}
		s.tries++
	}
}

func (s *Subscription) next() (e hub.Event, err error) {
	if s.stream == nil {
		if s.stream, err = s.transport.Open(s.ctx, s.client, s.cursor); err != nil {
			return hub.Event{}, err
		}
	}
	e, err = s.stream.Next()
	if told, ok := s.stream.(interface{ Retry() (time.Duration, bool) }); ok {
		if d, ok := told.Retry(); ok {
			s.retry = d
		}
	}
	return e, err
}

// wait is that before the next try. A server that told a reconnection time is
// obeyed (WHATWG HTML, section 9.2.3): it is the first wait and the least of
// the others, which the standard leaves to the client.
func (s *Subscription) wait() time.Duration {
	switch {
	case s.retry < 0:
		return s.backoff.wait(s.tries)
	case s.tries == 0:
		return s.retry
	}
	return s.retry + s.backoff.wait(s.tries)
}

// final returns the errors that end a subscription.
func final(err error) error {
	var answer *transport.StatusError
	if errors.Is(err, hub.ErrGone) || errors.As(err, &answer) && answer.Status/100 == 4 && answer.Status != http.StatusTooManyRequests {
		return err
	}
	return nil
}

// Close closes the connection. Next would open another.
func (s *Subscription) Close() {
	if s.stream != nil {
		s.stream.Close()
		s.stream = nil
	}
}

// A Dial opens a connection.
type Dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// Watch returns a Dial whose connections fail when nothing comes for as long as
// patience. The server's heartbeats come more often; so the connection is
// dead, whether or not anybody said so.
func Watch(dial Dial, patience time.Duration) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &watched{conn, patience}, nil
	}
}

type watched struct {
	net.Conn
	patience time.Duration
}

func (w *watched) Read(data []byte) (int, error) {
	if err := w.SetReadDeadline(time.Now().Add(w.patience)); err != nil {
		return 0, err
	}
	return w.Conn.Read(data)
}
