package crowd

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

var hijacks = []Contestant{
	{Transport: "sse", Lib: "hijack", Over: http1, TLS: true, serve: hijack{}.serve},
	{Transport: "sse", Lib: "hijack-deaf", Over: http1, TLS: true, serve: hijack{deaf: true}.serve},
}

// hijack takes the connection from net/http and writes chunks itself (RFC 9112,
// section 7.1). What net/http had for it becomes garbage.
type hijack struct {
	deaf bool // nobody reads: who left is noticed when a write fails. A floor
}

func (h hijack) serve(d *door) (Server, error) {
	s := &server[[]byte]{door: d, encode: func(data []byte) []byte { return chunk(event(data)) }, beat: chunk(comment)}
	d.deaf = h.deaf
	d.serveHTTP(func(w http.ResponseWriter, _ *http.Request) {
		c, err := hijacked(w)
		if err != nil {
			return
		}
		if h.deaf {
			s.Add(lastWord{c})
			return
		}
		go func() {
			defer c.Close()
			defer s.Add(rawConn{c})()
			var one [1]byte // an EventSource sends nothing
			for {
				if _, err := c.Read(one[:]); err != nil {
					return
				}
			}
		}()
	})
	return s, nil
}

// hijacked takes over a request's connection and answers with the head of an
// event stream.
func hijacked(w http.ResponseWriter) (net.Conn, error) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Time{})
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func chunk(data []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data) }

// A lastWord closes its connection when a write fails.
type lastWord struct{ net.Conn }

func (l lastWord) Send(message []byte) error {
	_, err := l.Write(message)
	if err != nil {
		l.Close()
	}
	return err
}
