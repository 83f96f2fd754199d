package crowd

import (
	"net/http"

	"github.com/klauspost/compress/flate"
	"github.com/lxzan/gws"

	"pushcost/internal/codec"
)

var gwss = []Contestant{
	{Transport: "ws", Lib: "gws", Over: http1, TLS: true, Codecs: messageCodecs, serve: serveGWS(false)},
	{Transport: "ws", Lib: "gws-broadcaster", Over: http1, TLS: true, serve: serveGWS(true)},
}

// serveGWS serves with lxzan/gws; its Broadcaster encodes once, and writes from
// goroutines of its own.
func serveGWS(broadcaster bool) func(*door) (Server, error) {
	return func(d *door) (Server, error) {
		s := &server[func(*gws.Conn) error]{door: d,
			encode: func(data []byte) func(*gws.Conn) error {
				return func(c *gws.Conn) error { return c.WriteMessage(gws.OpcodeText, data) }
			},
			beat: func(c *gws.Conn) error { return c.WritePing(nil) },
		}
		if broadcaster {
			s.encode = func(data []byte) func(*gws.Conn) error {
				return gws.NewBroadcaster(gws.OpcodeText, data).Broadcast
			}
		}
		takeover := d.setup.Codec == codec.Deflate
		upgrader := gws.NewUpgrader(&gwsEvents{server: s}, &gws.ServerOption{
			ReadMaxPayloadSize: largestMessage,
			PermessageDeflate: gws.PermessageDeflate{
				Enabled:               d.setup.Codec != codec.Identity,
				Level:                 flate.BestCompression, // the one that looks into small messages too
				Threshold:             1,
				ServerContextTakeover: takeover,
				ClientContextTakeover: takeover,
				ServerMaxWindowBits:   15,
				ClientMaxWindowBits:   15,
			},
		})
		d.serveHTTP(func(w http.ResponseWriter, r *http.Request) {
			if c, err := upgrader.Upgrade(w, r); err == nil { // else the library has answered
				d.all.Go(c.ReadLoop)
			}
		})
		return s, nil
	}
}

// gwsEvents is what the library calls.
type gwsEvents struct {
	gws.BuiltinEventHandler
	server *server[func(*gws.Conn) error]
}

func (e *gwsEvents) OnOpen(c *gws.Conn) {
	c.Session().Store("leave", e.server.Add(libraryConn[*gws.Conn]{c}))
}

func (e *gwsEvents) OnClose(c *gws.Conn, _ error) {
	if leave, ok := c.Session().Load("leave"); ok {
		leave.(func())()
	}
}

func (e *gwsEvents) OnMessage(_ *gws.Conn, m *gws.Message) {
	e.server.heard.Add(1)
	m.Close()
}

func (e *gwsEvents) OnPing(c *gws.Conn, payload []byte) {
	e.server.heard.Add(1)
	c.WritePong(payload) // where it fails, reading does too
}
