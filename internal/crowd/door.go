package crowd

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"pushcost/internal/certificate"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A door lets clients in, knows who is inside and shows everybody out.
type door struct {
	net.Listener
	setup setup.Setup
	terms terms

	writes       atomic.Int64
	compressions atomic.Int64

	deaf  bool                 // nobody reads the connections, and so closes them
	wrap  func(*conn) net.Conn // what is let in, if not nil
	after func()               // runs when everybody has left, if not nil

	mu     sync.Mutex
	closed bool
	inside map[*conn]struct{}

	// all that is to end before Close returns: connections, and the goroutines
	// and calls that serve them.
	all sync.WaitGroup
}

// Accept lets in the next client.
func (d *door) Accept() (net.Conn, error) {
	accepted, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c, err := newConn(accepted, d)
	if err != nil || !d.enter(c) {
		accepted.Close()
		return nil, net.ErrClosed
	}
	if d.wrap != nil {
		return d.wrap(c), nil
	}
	return c, nil
}

// listener is the door as its clients knock: over TLS where the setup says so.
func (d *door) listener() net.Listener {
	if d.setup.TLS == "" {
		return entrance{d}
	}
	server, _ := certificate.Configs(d.setup.HTTP)
	return tls.NewListener(entrance{d}, server)
}

// An entrance is a door of which a server closes no more than the listener.
type entrance struct{ *door }

func (e entrance) Close() error { return e.Listener.Close() }

// enter counts something in, unless the door is closed. It ends with all.Done.
func (d *door) enter(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	if c != nil {
		d.inside[c] = struct{}{}
	}
	d.all.Add(1)
	return true
}

func (d *door) leave(c *conn) {
	d.mu.Lock()
	delete(d.inside, c)
	d.mu.Unlock()
	d.all.Done()
}

// serveHTTP serves a handler to whoever comes.
func (d *door) serveHTTP(handle http.HandlerFunc) {
	srv := &http.Server{
		Protocols: transport.Protocols(d.setup.HTTP),
		ErrorLog:  log.New(io.Discard, "", 0), // what goes wrong with a client, the client reports
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if d.enter(nil) {
				defer d.all.Done()
				handle(w, r)
			}
		}),
	}
	d.all.Go(func() { srv.Serve(d.listener()) }) // until Close
}

// serveConns gives each connection a goroutine.
func (d *door) serveConns(handle func(net.Conn)) {
	ln := d.listener()
	d.all.Go(func() {
		for {
			c, err := ln.Accept()
			switch {
			case err == nil:
				go handle(c)
			case errors.Is(err, net.ErrClosed):
				return
			default: // out of descriptors: as net/http does
				time.Sleep(5 * time.Millisecond)
			}
		}
	})
}

func (d *door) Writes() int64       { return d.writes.Load() }
func (d *door) Compressions() int64 { return d.compressions.Load() }

// Close cuts off who is inside and returns when nothing is left.
func (d *door) Close() error {
	d.mu.Lock()
	d.closed = true
	inside := slices.Collect(maps.Keys(d.inside))
	d.mu.Unlock()
	err := d.Listener.Close()
	for _, c := range inside {
		c.cut()
		if d.deaf {
			c.Close()
		}
	}
	d.all.Wait()
	if d.after != nil {
		d.after()
	}
	return err
}

// newState is what an application keeps for a connection: bytes that were written
// to, for memory that was not takes no room. (A pointer to the first is a third
// of a slice.)
func (t terms) newState() *byte {
	if t.state == 0 {
		return nil
	}
	state := make([]byte, t.state)
	for i := range state {
		state[i] = 1
	}
	return unsafe.SliceData(state)
}
