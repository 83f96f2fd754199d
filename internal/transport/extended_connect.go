package transport

//lint:file-ignore SA1019 net/http's own client, which is to be used instead, refuses the pseudo-header :protocol

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"pushcost/internal/codec"
)

// webSocketOverHTTP2 is RFC 8441: the same frames in one stream of an HTTP/2
// connection, opened by a CONNECT with a :protocol. No library offers it;
// coder's takes its connection from interfaces that can be given a stream.
var webSocketOverHTTP2 = Transport{
	Name:    "ws",
	Lib:     "coder",
	Over:    []HTTP{HTTP2},
	Codecs:  []codec.Name{codec.Deflate, codec.DeflateNoTakeover},
	GODEBUG: "http2xconnect=1",
	Serve:   serveWebSocket(acceptStream),
	Open:    openWebSocket(dialStream),
}

// acceptStream answers an extended CONNECT. The library sees the HTTP/1.1
// upgrade it knows.
func acceptStream(w http.ResponseWriter, r *http.Request, coding codec.Name) (socket, error) {
	if r.Method != http.MethodConnect || r.Header.Get(":protocol") != "websocket" {
		err := fmt.Errorf("a WebSocket over HTTP/2 opens with CONNECT and :protocol websocket (RFC 8441), not with %s", r.Method)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, err
	}
	up := r.Clone(r.Context())
	up.Method, up.Proto, up.ProtoMajor, up.ProtoMinor = http.MethodGet, "HTTP/1.1", 1, 1
	up.Header.Set("Connection", "Upgrade")
	up.Header.Set("Upgrade", "websocket")
	up.Header.Set("Sec-Websocket-Key", base64.StdEncoding.EncodeToString(make([]byte, 16))) // HTTP/2 has none
	return upgradeCoder(&streamUpgrade{ResponseWriter: w, header: http.Header{}, body: r.Body}, up, coding)
}

// streamUpgrade is a ResponseWriter whose upgrade is a stream's 200.
type streamUpgrade struct {
	http.ResponseWriter
	header http.Header // what the library says; of it only the extensions are HTTP/2's
	body   io.ReadCloser
}

func (u *streamUpgrade) Header() http.Header { return u.header }

func (u *streamUpgrade) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols {
		status = http.StatusOK
	}
	if e := u.header.Get("Sec-Websocket-Extensions"); e != "" {
		u.ResponseWriter.Header().Set("Sec-Websocket-Extensions", e)
	}
	u.ResponseWriter.WriteHeader(status)
}

func (u *streamUpgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c := &serverStream{ReadCloser: u.body, w: u.ResponseWriter, ResponseController: http.NewResponseController(u.ResponseWriter)}
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), c.Flush()
}

// serverStream is the server's end of a stream as a connection.
type serverStream struct {
	io.ReadCloser
	*http.ResponseController
	w               io.Writer
	writing, closed atomic.Bool
}

func (s *serverStream) Write(p []byte) (int, error) {
	s.writing.Store(true)
	defer s.writing.Store(false)
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := s.w.Write(p)
	return n, errors.Join(err, s.Flush())
}

// Close makes a write under way fail, as that of a connection does: it may
// wait for a client that reads no more.
func (s *serverStream) Close() error {
	s.closed.Store(true)
	if s.writing.Load() {
		s.SetWriteDeadline(time.Unix(0, 0)) // resets the stream
	}
	return s.ReadCloser.Close()
}

func (s *serverStream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

func (*serverStream) LocalAddr() net.Addr  { return streamAddr{} }
func (*serverStream) RemoteAddr() net.Addr { return streamAddr{} }

type streamAddr struct{}

func (streamAddr) Network() string { return "h2" }
func (streamAddr) String() string  { return "stream" }

func dialStream(ctx context.Context, c *Client, path string) (socket, http.Header, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	h2, err := (&http2.Transport{AllowHTTP: true}).NewClientConn(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return dialCoder(ctx, c, extendedConnect{h2}, path)
}

// extendedConnect turns the library's HTTP/1.1 upgrade into an extended
// CONNECT, and the answer back.
type extendedConnect struct{ conn *http2.ClientConn }

func (t extendedConnect) RoundTrip(upgrade *http.Request) (*http.Response, error) {
	up, writer := io.Pipe()
	req, err := http.NewRequestWithContext(upgrade.Context(), http.MethodConnect, upgrade.URL.String(), up)
	if err != nil {
		return nil, err
	}
	req.Header = upgrade.Header.Clone()
	key := req.Header.Get("Sec-Websocket-Key")
	for _, name := range []string{"Connection", "Upgrade", "Sec-Websocket-Key"} {
		req.Header.Del(name)
	}
	req.Header[":protocol"] = []string{"websocket"}
	resp, err := t.conn.RoundTrip(req)
	if err != nil {
		t.conn.Close()
		return nil, err
	}
	resp.Body = &clientStream{ReadCloser: resp.Body, WriteCloser: writer, conn: t.conn}
	if resp.StatusCode == http.StatusOK {
		resp.StatusCode = http.StatusSwitchingProtocols
		resp.Header.Set("Connection", "Upgrade")
		resp.Header.Set("Upgrade", "websocket")
		resp.Header.Set("Sec-Websocket-Accept", AcceptKey(key))
	}
	return resp, nil
}

// clientStream is the client's end; the connection has no other stream.
type clientStream struct {
	io.ReadCloser
	io.WriteCloser
	conn *http2.ClientConn
}

func (s *clientStream) Close() error {
	return errors.Join(s.WriteCloser.Close(), s.ReadCloser.Close(), s.conn.Close())
}
