package transport

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"pushcost/internal/hub"
)

// ServeHTTP serves a handler until ctx ends, and returns after the last call
// of it. Requests carry a context that ends with ctx, also once hijacked.
func ServeHTTP(ctx context.Context, ln net.Listener, o Options, handle http.HandlerFunc) error {
	if o.WriteDeadline > 0 {
		handle = impatient(o.WriteDeadline, handle)
	}
	var calls calls
	srv := &http.Server{
		Protocols:   Protocols(o.HTTP),
		HTTP2:       &http.HTTP2Config{WriteByteTimeout: o.WriteDeadline}, // a connection that takes nothing has no use for a stream's deadline
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0), // what goes wrong with a client, the client reports
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.enter() {
				defer calls.leave()
				handle(w, r)
			}
		}),
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		srv.Close() // not Shutdown, which waits for streams that have no end
	})
	err := srv.Serve(ln)
	if !stop() {
		<-closed // Serve returns when Close begins
	}
	calls.wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Protocols are what a server or client of this version of HTTP speaks, over TLS
// or not.
func Protocols(version HTTP) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(version == HTTP1)
	p.SetHTTP2(version == HTTP2)
	p.SetUnencryptedHTTP2(version == HTTP2)
	return p
}

// calls counts the handlers under way. A WaitGroup cannot: a connection's
// goroutine may enter while the server already waits.
type calls struct {
	mu      sync.Mutex
	n       int
	waiting chan struct{} // not nil: nobody enters any more
}

func (c *calls) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.n++
	}
	return c.waiting == nil
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.waiting != nil {
		close(c.waiting)
	}
}

func (c *calls) wait() {
	c.mu.Lock()
	c.waiting = make(chan struct{})
	if c.n == 0 {
		close(c.waiting)
	}
	c.mu.Unlock()
	<-c.waiting
}

// A sink is where a subscriber's events go. Only one goroutine writes to it.
type sink interface {
	event(hub.Event) error
	beat() error
}

// follow sends what is published after the cursor, and a heartbeat whenever
// one is due, until ctx ends or sending fails. Between events it calls what
// comes in on asides.
func follow(ctx context.Context, log *hub.Log, after uint64, every time.Duration, to sink, asides <-chan func() error) error {
	var due <-chan time.Time // never, without heartbeats
	postpone := func() {}
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		due, postpone = t.C, func() { t.Reset(every) }
	}
	for {
		events, more, err := log.Since(after)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := to.event(e); err != nil {
				return err
			}
			after = e.ID
		}
		if len(events) > 0 {
			postpone()
			continue
		}
		select {
		case <-more:
		case <-due:
			err = to.beat()
		case aside := <-asides:
			err = aside()
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// Room is the room that a request names: the folder of its path, so that
// /events is in the room without a name.
func Room(r *http.Request) string { return strings.Trim(path.Dir(r.URL.Path), "/") }

// subscription admits a client and finds the log of its [Room] and its cursor:
// the id of the last event it has, absent meaning none. It answers a client
// that is refused, whose room does not exist, and whose cursor is unreadable
// or not in the log.
func subscription(w http.ResponseWriter, r *http.Request, h *hub.Hub, o Options, cursor string) (log *hub.Log, after uint64, ok bool) {
	if o.Admit != nil {
		if refusal := o.Admit(r); refusal != nil {
			http.Error(w, refusal.Text, refusal.Status)
			return nil, 0, false
		}
	}
	room := Room(r)
	if log = h.Room(room); log == nil {
		http.Error(w, "there is no room "+strconv.Quote(room), http.StatusNotFound)
		return nil, 0, false
	}
	if cursor != "" {
		var err error
		if after, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			http.Error(w, "cursor "+strconv.Quote(cursor)+" is not the id of an event", http.StatusBadRequest)
			return nil, 0, false
		}
	}
	if _, _, err := log.Since(after); err != nil {
		noEvents(w, err)
		return nil, 0, false
	}
	return log, after, true
}

// noEvents answers that there are none: they are gone, or the server stops.
func noEvents(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if errors.Is(err, hub.ErrGone) {
		status = http.StatusGone
	}
	http.Error(w, err.Error(), status)
}
