package crowd

import (
	"io"
	"net"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

// largestMessage is what a server reads from a WebSocket's client at most, in
// bytes.
const largestMessage = 1 << 20

var gobwases = []Contestant{
	{Transport: "ws", Lib: "gobwas", Over: http1, TLS: true, serve: serveGobwas},
}

// serveGobwas upgrades without net/http. A message is a frame, made once.
func serveGobwas(d *door) (Server, error) {
	s := &server[[]byte]{door: d, encode: textFrame, beat: ws.CompiledPing}
	d.serveConns(func(c net.Conn) {
		c.SetReadDeadline(time.Now().Add(Patience))
		if _, err := ws.Upgrade(c); err != nil {
			c.Close()
			return
		}
		c.SetReadDeadline(time.Time{})
		go followGobwas(s, c) // on a fresh stack: the upgrade has grown this one
	})
	return s, nil
}

func textFrame(data []byte) []byte { return ws.MustCompileFrame(ws.NewTextFrame(data)) }

func followGobwas(s *server[[]byte], c net.Conn) {
	defer c.Close()
	defer s.Add(rawConn{c})()
	control := wsutil.ControlFrameHandler(c, ws.StateServerSide)
	answer := func(h ws.Header, r io.Reader) error {
		if h.OpCode == ws.OpPing {
			s.heard.Add(1)
		}
		return control(h, r)
	}
	r := wsutil.Reader{Source: c, State: ws.StateServerSide, OnIntermediate: answer, MaxMessageSize: largestMessage}
	for {
		h, err := r.NextFrame()
		if err != nil {
			return
		}
		if h.OpCode.IsControl() {
			err = answer(h, &r)
		} else {
			s.heard.Add(1)
			err = r.Discard()
		}
		if err != nil {
			return
		}
	}
}
