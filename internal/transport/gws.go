package transport

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/lxzan/gws"

	"pushcost/internal/codec"
)

var gwsWebSocket = Transport{
	Name:   "ws",
	Lib:    "gws",
	Over:   []HTTP{HTTP1},
	Codecs: []codec.Name{codec.Deflate, codec.DeflateNoTakeover},
	Serve:  serveWebSocket(upgradeGWS),
	Open:   openWebSocket(dialGWS),
}

// gwsDeflate compresses every message at a level that looks for matches in
// writes of any length: the library's default only does in those of 128 bytes
// and more.
func gwsDeflate(coding codec.Name) gws.PermessageDeflate {
	takeover := coding == codec.Deflate
	return gws.PermessageDeflate{
		Enabled:               coding != codec.Identity,
		Level:                 flate.BestCompression,
		Threshold:             1,
		ServerContextTakeover: takeover,
		ClientContextTakeover: takeover,
		ServerMaxWindowBits:   15,
		ClientMaxWindowBits:   15,
	}
}

func upgradeGWS(w http.ResponseWriter, r *http.Request, coding codec.Name) (socket, error) {
	s := newGWSSocket()
	c, err := gws.NewUpgrader(s, &gws.ServerOption{PermessageDeflate: gwsDeflate(coding), ReadMaxPayloadSize: largestMessage}).Upgrade(w, r)
	if err != nil {
		return nil, err
	}
	return s.start(c), nil
}

func dialGWS(ctx context.Context, c *Client, path string) (socket, http.Header, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	s := newGWSSocket()
	ws, resp, err := gws.NewClientFromConn(s, &gws.ClientOption{
		ReadMaxPayloadSize: 1 << 30, // the sender is ours
		Addr:               wsURL(c, path),
		RequestHeader:      upgradeHeader(c),
		PermessageDeflate:  gwsDeflate(c.Codec),
	}, conn)
	if err != nil {
		return nil, nil, notUpgraded(err, resp)
	}
	return s.start(ws), resp.Header, nil
}

// gwsSocket turns the library's callbacks into calls.
type gwsSocket struct {
	gws.BuiltinEventHandler
	conn     *gws.Conn
	messages chan []byte
	closed   chan struct{} // by us, once
	once     sync.Once
	gone     chan struct{} // the read loop ended, with err
	err      error
}

func newGWSSocket() *gwsSocket {
	return &gwsSocket{messages: make(chan []byte), closed: make(chan struct{}), gone: make(chan struct{})}
}

func (s *gwsSocket) start(c *gws.Conn) *gwsSocket {
	s.conn = c
	go func() {
		defer close(s.gone)
		c.ReadLoop()
	}()
	return s
}

func (s *gwsSocket) OnMessage(_ *gws.Conn, m *gws.Message) {
	defer m.Close()
	select {
	case s.messages <- slices.Clone(m.Bytes()):
	case <-s.closed:
	}
}

func (s *gwsSocket) OnPing(c *gws.Conn, payload []byte) { c.WritePong(payload) }

func (s *gwsSocket) OnClose(_ *gws.Conn, err error) {
	s.err = err
	var close *gws.CloseError
	if errors.As(err, &close) {
		s.err = ended(err, int(close.Code))
	}
}

func (s *gwsSocket) send(data []byte, text bool) error {
	kind := gws.OpcodeBinary
	if text {
		kind = gws.OpcodeText
	}
	return s.conn.WriteMessage(kind, data)
}

func (s *gwsSocket) ping() error { return s.conn.WritePing(nil) }

func (s *gwsSocket) read() ([]byte, error) {
	select {
	case data := <-s.messages:
		return data, nil
	case <-s.gone:
		return nil, errors.Join(errors.New("connection ended"), s.err)
	}
}

func (s *gwsSocket) leave(code int, reason string) { s.conn.WriteClose(uint16(code), []byte(reason)) }

func (s *gwsSocket) close() {
	s.once.Do(func() { close(s.closed) })
	s.conn.NetConn().Close()
}
