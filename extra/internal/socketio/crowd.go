package socketio

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/zishang520/socket.io/servers/engine/v3/transports"
	"github.com/zishang520/socket.io/servers/socket/v3"
	"github.com/zishang520/socket.io/v3/pkg/types"

	"pushcost/internal/crowd"
	"pushcost/internal/hub"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A crowdServer is one of many connections, everything about it the library's
// default: heartbeats every 25 seconds, no compression of messages.
//
// Neither does it bound a queue: what a stalled client does not take waits for
// it, encoded for it alone, until its heartbeat has been missed for 20 seconds.
type crowdServer struct {
	hub.Count     // of the connections
	io            *socket.Server
	http          *http.Server
	served        chan error
	heard, writes atomic.Int64
}

// Crowds are Socket.IO as a contestant of package crowd.
var Crowds = []crowd.Contestant{
	crowdOver("websocket", &transports.WebSocketBuilder{}),
	crowdOver("polling", &transports.PollingBuilder{}),
}

func crowdOver(lib string, kind transports.TransportCtor) crowd.Contestant {
	return crowd.Contestant{
		Transport: "socketio", Lib: lib, Over: []transport.HTTP{transport.HTTP1},
		Serve: func(ln net.Listener, _ setup.Setup) (crowd.Server, error) { return serveCrowd(ln, kind), nil },
	}
}

// serveCrowd serves a crowd over this transport of the library's until it is
// closed.
func serveCrowd(ln net.Listener, kind transports.TransportCtor) *crowdServer {
	options := socket.DefaultServerOptions()
	options.SetTransports(types.NewSet(kind))
	c := &crowdServer{io: socket.NewServer(nil, options), served: make(chan error, 1)}
	c.io.On("connection", func(args ...any) {
		s := args[0].(*socket.Socket)
		c.Add(1)
		left := sync.OnceFunc(func() { c.Add(-1) })
		s.On("disconnect", func(...any) { left() })
		if !s.Connected() { // it left before it could be listened for
			left()
		}
		s.On(message, func(...any) { c.heard.Add(1) })
	})
	c.http = &http.Server{Handler: c.io.ServeHandler(nil), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { c.served <- c.http.Serve(counted{ln, &c.writes}) }()
	return c
}

// Broadcast sends a message to everybody. Nobody is ever dropped.
func (c *crowdServer) Broadcast(data []byte) (sent, dropped int) {
	var value any = string(data)
	if json.Valid(data) {
		value = json.RawMessage(data)
	}
	sent = c.Len()
	c.io.Emit(message, value)
	return sent, 0
}

// Beat sends nothing: heartbeats are the library's own.
func (c *crowdServer) Beat() int { return 0 }

// Heard is the number of messages read from clients so far.
func (c *crowdServer) Heard() int64 { return c.heard.Load() }

// Writes is the number of writes to their sockets so far.
func (c *crowdServer) Writes() int64 { return c.writes.Load() }

// Compressions are none: there is no content coding.
func (c *crowdServer) Compressions() int64 { return 0 }

// Close ends every connection and returns when nothing is accepted any more.
func (c *crowdServer) Close() error {
	err := c.http.Close()
	if served := <-c.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	c.io.Close(nil) // those on a WebSocket: the HTTP server knows them no more
	return err
}

// counted counts the writes to connections of a listener.
type counted struct {
	net.Listener
	writes *atomic.Int64
}

func (l counted) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countedConn{conn, l.writes}, nil
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c *countedConn) Write(data []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(data)
}
