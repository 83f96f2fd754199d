package transport

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"pushcost/internal/codec"
)

var gorillaWebSocket = Transport{
	Name:   "ws",
	Lib:    "gorilla",
	Over:   []HTTP{HTTP1},
	Codecs: []codec.Name{codec.DeflateNoTakeover}, // at its default level, 1
	Serve:  serveWebSocket(upgradeGorilla),
	Open:   openWebSocket(dialGorilla),
}

func upgradeGorilla(w http.ResponseWriter, r *http.Request, coding codec.Name) (socket, error) {
	u := websocket.Upgrader{EnableCompression: coding != codec.Identity, CheckOrigin: anyOrigin}
	c, err := u.Upgrade(w, r, nil)
	if err != nil {
		return nil, err
	}
	c.SetReadLimit(largestMessage)
	return gorillaSocket{c}, nil
}

// anyOrigin leaves the Origin of a browser's upgrade to Options.Admit.
func anyOrigin(*http.Request) bool { return true }

func dialGorilla(ctx context.Context, c *Client, path string) (socket, http.Header, error) {
	d := websocket.Dialer{
		NetDialContext:    c.HTTP.DialContext,
		Proxy:             c.HTTP.Proxy,
		TLSClientConfig:   c.HTTP.TLSClientConfig,
		EnableCompression: c.Codec != codec.Identity,
	}
	conn, resp, err := d.DialContext(ctx, wsURL(c, path), upgradeHeader(c))
	if err != nil {
		return nil, nil, notUpgraded(err, resp)
	}
	return gorillaSocket{conn}, resp.Header, nil
}

type gorillaSocket struct{ *websocket.Conn }

func (s gorillaSocket) send(data []byte, text bool) error {
	kind := websocket.BinaryMessage
	if text {
		kind = websocket.TextMessage
	}
	return s.WriteMessage(kind, data)
}

func (s gorillaSocket) ping() error { return s.WriteMessage(websocket.PingMessage, nil) }

func (s gorillaSocket) read() ([]byte, error) {
	_, data, err := s.ReadMessage()
	var close *websocket.CloseError
	if errors.As(err, &close) {
		err = ended(err, close.Code)
	}
	return data, err
}

func (s gorillaSocket) leave(code int, reason string) {
	s.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Time{})
}

func (s gorillaSocket) close() { s.Conn.Close() }
