package crowd

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"pushcost/internal/codec"
)

var messageCodecs = []codec.Name{codec.Deflate, codec.DeflateNoTakeover}

var coders = []Contestant{
	{Transport: "ws", Lib: "coder", Over: http1, TLS: true, Codecs: messageCodecs, serve: coder{}.serve},
	{Transport: "ws", Lib: "coder-returns", Over: http1, TLS: true, serve: coder{returns: true}.serve},
}

// coder is how coder/websocket is used.
type coder struct {
	returns bool // the handler does
}

func (k coder) serve(d *door) (Server, error) {
	s := &server[func(*websocket.Conn) error]{door: d,
		encode: func(data []byte) func(*websocket.Conn) error {
			return func(c *websocket.Conn) error { return c.Write(context.Background(), websocket.MessageText, data) }
		},
		beat: func(c *websocket.Conn) error { // its Ping waits for the pong
			if !d.enter(nil) {
				return net.ErrClosed
			}
			go func() {
				defer d.all.Done()
				ctx, cancel := context.WithTimeout(context.Background(), d.terms.patience)
				defer cancel()
				if c.Ping(ctx) != nil {
					c.CloseNow()
				}
			}()
			return nil
		},
	}
	o := &websocket.AcceptOptions{
		InsecureSkipVerify: true, // any origin
		OnPingReceived:     func(context.Context, []byte) bool { s.heard.Add(1); return true },
	}
	switch d.setup.Codec {
	case codec.Deflate:
		o.CompressionMode, o.CompressionThreshold = websocket.CompressionContextTakeover, 1
	case codec.DeflateNoTakeover:
		o.CompressionMode, o.CompressionThreshold = websocket.CompressionNoContextTakeover, 1
	}
	d.serveHTTP(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, o)
		if err != nil {
			return // the library has answered
		}
		c.SetReadLimit(largestMessage)
		if k.returns {
			d.all.Go(func() { k.follow(context.Background(), s, c) })
		} else {
			k.follow(r.Context(), s, c)
		}
	})
	return s, nil
}

func (coder) follow(ctx context.Context, s *server[func(*websocket.Conn) error], c *websocket.Conn) {
	defer c.CloseNow()
	defer s.Add(libraryConn[*websocket.Conn]{c})()
	for {
		_, message, err := c.Reader(ctx)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, message); err != nil {
			return
		}
		s.heard.Add(1)
	}
}
