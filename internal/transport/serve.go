package transport

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"pushcost/internal/hub"
)

// serveHTTP serves a handler until ctx ends, and returns after the last call
// of it. Requests carry a context that ends with ctx, also once hijacked.
func serveHTTP(ctx context.Context, ln net.Listener, version HTTP, handle http.HandlerFunc) error {
	var calls calls
	srv := &http.Server{
		Protocols:   Protocols(version),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0), // what goes wrong with a client, the client reports
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.enter() {
				defer calls.leave()
				handle(w, r)
			}
		}),
	}
	defer context.AfterFunc(ctx, func() { srv.Close() })() // not Shutdown, which waits for streams that have no end
	err := srv.Serve(ln)
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

// follow sends what is published after the cursor, and a heartbeat whenever
// one is due, until ctx ends or sending fails.
func follow(ctx context.Context, log *hub.Log, after uint64, every time.Duration, send func(hub.Event) error, beat func() error) error {
	var due <-chan time.Time // never, without heartbeats
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		due = t.C
	}
	for {
		events, more, err := log.Since(after)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := send(e); err != nil {
				return err
			}
			after = e.ID
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-more:
		case <-due:
			if err := beat(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// cursor reads the id of the last event a client has, absent meaning none.
// It answers a client whose cursor is unreadable or not in the log.
func cursor(w http.ResponseWriter, log *hub.Log, text string) (after uint64, ok bool) {
	if text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			http.Error(w, "cursor "+strconv.Quote(text)+" is not the id of an event", http.StatusBadRequest)
			return 0, false
		}
	}
	if _, _, err := log.Since(after); err != nil {
		http.Error(w, err.Error(), http.StatusGone)
		return 0, false
	}
	return after, true
}
