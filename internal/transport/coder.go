package transport

import (
	"context"
	"net/http"
	"sync"

	"github.com/coder/websocket"

	"pushcost/internal/codec"
)

var coderWebSocket = Transport{
	Name:   "ws",
	Lib:    "coder",
	Over:   []HTTP{HTTP1},
	Codecs: []codec.Name{codec.Deflate, codec.DeflateNoTakeover}, // at its only level, 1
	Serve:  serveWebSocket(upgradeCoder),
	Open: openWebSocket(func(ctx context.Context, c *Client, path string) (socket, http.Header, error) {
		return dialCoder(ctx, c, c.HTTP, path)
	}),
}

// coderMode is also the smallest message to compress: all of them.
func coderMode(coding codec.Name) (mode websocket.CompressionMode, threshold int) {
	switch coding {
	case codec.Deflate:
		return websocket.CompressionContextTakeover, 1
	case codec.DeflateNoTakeover:
		return websocket.CompressionNoContextTakeover, 1
	}
	return websocket.CompressionDisabled, 0
}

func upgradeCoder(w http.ResponseWriter, r *http.Request, coding codec.Name) (socket, error) {
	mode, threshold := coderMode(coding)
	// Any origin: Options.Admit sees to it, as with gorilla.
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: mode, CompressionThreshold: threshold, InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	c.SetReadLimit(largestMessage)
	return &coderSocket{Conn: c, ctx: context.WithoutCancel(r.Context())}, nil // or its end would leave no time for a Close frame
}

func dialCoder(ctx context.Context, c *Client, rt http.RoundTripper, path string) (socket, http.Header, error) {
	mode, threshold := coderMode(c.Codec)
	conn, resp, err := websocket.Dial(ctx, wsURL(c, path), &websocket.DialOptions{
		HTTPClient:           &http.Client{Transport: rt},
		HTTPHeader:           upgradeHeader(c),
		CompressionMode:      mode,
		CompressionThreshold: threshold,
	})
	if err != nil {
		return nil, nil, notUpgraded(err, resp)
	}
	conn.SetReadLimit(-1) // the sender is ours
	return &coderSocket{Conn: conn, ctx: ctx}, resp.Header, nil
}

type coderSocket struct {
	*websocket.Conn
	ctx   context.Context // of the connection; its methods want one each
	pings sync.WaitGroup  // under way
}

func (s *coderSocket) send(data []byte, text bool) error {
	kind := websocket.MessageBinary
	if text {
		kind = websocket.MessageText
	}
	return s.Write(s.ctx, kind, data)
}

// ping does not wait for the pong, as the library's does: events would wait too.
func (s *coderSocket) ping() error {
	s.pings.Go(func() { s.Ping(s.ctx) }) // until the pong or the end; of a failure the reader learns
	return nil
}

func (s *coderSocket) read() ([]byte, error) {
	_, data, err := s.Read(s.ctx)
	return data, ended(err, int(websocket.CloseStatus(err)))
}

func (s *coderSocket) leave(code int, reason string) { s.Close(websocket.StatusCode(code), reason) }

// close returns when no ping is written any more: a stream of HTTP/2 must not
// be, once its handler has returned.
func (s *coderSocket) close() {
	s.CloseNow()
	s.pings.Wait()
}
