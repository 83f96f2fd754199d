package crowd

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

var gorillas = []Contestant{
	{Transport: "ws", Lib: "gorilla", Over: http1, TLS: true, serve: gorilla{}.serve},
	{Transport: "ws", Lib: "gorilla-prepared", Over: http1, TLS: true, serve: gorilla{prepared: true}.serve},
	{Transport: "ws", Lib: "gorilla-tuned", Over: http1, TLS: true, serve: gorilla{
		upgrader: websocket.Upgrader{ReadBufferSize: 256, WriteBufferSize: 1024, WriteBufferPool: new(sync.Pool)},
		prepared: true,
		returns:  true,
	}.serve},
	{Transport: "ws", Lib: "leaky", Over: http1, serve: gorilla{leaky: true}.serve},
}

// gorilla is how gorilla/websocket is used.
type gorilla struct {
	upgrader websocket.Upgrader
	prepared bool // a message is encoded once
	returns  bool // the handler does, and with it net/http's goroutine and buffers go
	leaky    bool // nobody who left is taken off the list
}

func (g gorilla) serve(d *door) (Server, error) {
	s := &server[func(*websocket.Conn) error]{door: d,
		encode: func(data []byte) func(*websocket.Conn) error {
			return func(c *websocket.Conn) error { return c.WriteMessage(websocket.TextMessage, data) }
		},
		beat: func(c *websocket.Conn) error { return c.WriteControl(websocket.PingMessage, nil, time.Time{}) },
	}
	if g.prepared {
		s.encode = func(data []byte) func(*websocket.Conn) error {
			m, err := websocket.NewPreparedMessage(websocket.TextMessage, data)
			return func(c *websocket.Conn) error {
				if err != nil {
					return err
				}
				return c.WritePreparedMessage(m)
			}
		}
	}
	g.upgrader.CheckOrigin = func(*http.Request) bool { return true }
	d.serveHTTP(func(w http.ResponseWriter, r *http.Request) {
		c, err := g.upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // the library has answered
		}
		if g.returns {
			d.all.Go(func() { g.follow(s, c) })
		} else {
			g.follow(s, c)
		}
	})
	return s, nil
}

func (g gorilla) follow(s *server[func(*websocket.Conn) error], c *websocket.Conn) {
	defer c.Close()
	pong := c.PingHandler()
	c.SetPingHandler(func(text string) error {
		s.heard.Add(1)
		return pong(text)
	})
	c.SetReadLimit(largestMessage)
	if g.leaky {
		s.Add(deaf{c})
	} else {
		defer s.Add(libraryConn[*websocket.Conn]{c})()
	}
	for {
		_, message, err := c.NextReader()
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, message); err != nil {
			return
		}
		s.heard.Add(1)
	}
}

// deaf keeps on sending to who is gone.
type deaf struct{ conn *websocket.Conn }

func (d deaf) Send(call func(*websocket.Conn) error) error {
	call(d.conn) // its failure is the signal that is missed
	return nil
}
