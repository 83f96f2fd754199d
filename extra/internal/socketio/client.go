package socketio

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/gorilla/websocket"

	"pushcost/internal/hub"
	"pushcost/internal/transport"
)

// Packets of Engine.IO 4 begin with a digit. Inside its messages those of
// Socket.IO 5 do, so that an event begins with 42.
const (
	opened       = "0"
	ping         = "2"
	pong         = "3"
	noop         = "6"
	connect      = "40"
	event        = "42"
	connectError = "44"
	binaryEvent  = "45" // "451-": with one attachment, which follows
)

// A packet is one of Engine.IO: text, or an attachment.
type packet struct {
	binary bool
	data   []byte
}

func (p packet) is(kind string) bool { return !p.binary && bytes.HasPrefix(p.data, []byte(kind)) }

// A carrier is what Socket.IO calls a transport.
type carrier interface {
	receive() (packet, error) // the next packet
	send(text string) error
	close()
}

// subscribe opens a carrier and connects over it.
func subscribe(ctx context.Context, c *transport.Client, after uint64, open func(context.Context, *transport.Client) (carrier, error)) (transport.Stream, error) {
	says := auth{Room: c.Room}
	if after > 0 {
		says.Cursor = strconv.FormatUint(after, 10)
	}
	hello := []byte(nil)
	if says != (auth{}) {
		hello, _ = json.Marshal(says) // two strings
	}
	carrier, err := open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("socketio: %w", err)
	}
	s := &stream{carrier: carrier, last: after, stop: context.AfterFunc(ctx, carrier.close)}
	if err := s.connect(hello); err != nil {
		s.Close()
		return nil, fmt.Errorf("socketio: connect: %w", err)
	}
	return s, nil
}

type stream struct {
	carrier
	last uint64
	stop func() bool
}

// connect joins the main namespace, which a server may refuse.
func (s *stream) connect(hello []byte) error {
	if err := s.send(connect + string(hello)); err != nil {
		return err
	}
	p, err := s.receive()
	switch {
	case err != nil:
		return err
	case p.is(connect):
		return nil
	case p.is(connectError):
		var refused struct{ Data *transport.Refusal }
		if err := json.Unmarshal(p.data[len(connectError):], &refused); err == nil && refused.Data != nil {
			return refused.Data
		}
	}
	return unexpected(p)
}

func unexpected(p packet) error { return fmt.Errorf("unexpected packet %.100q", p.data) }

func (s *stream) Next() (hub.Event, error) {
	name, data, err := s.event()
	switch {
	case err != nil:
		return hub.Event{}, fmt.Errorf("socketio: after event %d: %w", s.last, err)
	case name == refusal:
		refused := new(transport.Refusal)
		if err := json.Unmarshal(data, refused); err != nil {
			return hub.Event{}, fmt.Errorf("socketio: refusal %.60q: %w", data, err)
		}
		return hub.Event{}, refused
	}
	s.last++
	return hub.Event{ID: s.last, Data: data}, nil
}

// event returns the name and the argument of the next event; pings are answered
// meanwhile.
func (s *stream) event() (name string, data []byte, err error) {
	for {
		p, err := s.receive()
		switch {
		case err != nil:
			return "", nil, err
		case p.is(ping):
			if err := s.send(pong); err != nil {
				return "", nil, err
			}
		case p.is(noop):
		case p.is(event):
			return decode(p.data[len(event):])
		case p.is(binaryEvent):
			_, text, _ := bytes.Cut(p.data, []byte("-"))
			name, _, err := decode(text)
			if err != nil {
				return "", nil, err
			}
			attachment, err := s.receive()
			if err == nil && !attachment.binary {
				err = unexpected(attachment)
			}
			return name, attachment.data, err
		default:
			return "", nil, unexpected(p)
		}
	}
}

// decode reads ["name",argument].
func decode(text []byte) (name string, data []byte, err error) {
	var both []json.RawMessage
	if err := json.Unmarshal(text, &both); err != nil || len(both) != 2 {
		return "", nil, fmt.Errorf("not an event with one argument: %.60q", text)
	}
	return name, both[1], json.Unmarshal(both[0], &name)
}

// Send sends text as a message. Its acknowledgement comes at once and says
// nothing: ours asks for none.
func (s *stream) Send(data []byte) (ack func() error, err error) {
	text, err := json.Marshal([]string{message, string(data)})
	if err == nil {
		err = s.send(event + string(text))
	}
	if err != nil {
		return nil, fmt.Errorf("socketio: %w", err)
	}
	return func() error { return nil }, nil
}

func (s *stream) Close() error {
	s.stop()
	s.close()
	return nil
}

const path = "/socket.io/?EIO=4&transport="

// handshake is the part of the open packet that matters.
type handshake struct {
	SID string `json:"sid"`
}

func receiveOpen(c carrier) (h handshake, err error) {
	p, err := c.receive()
	if err == nil && !p.is(opened) {
		err = unexpected(p)
	}
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal(p.data[len(opened):], &h)
}

type socketCarrier struct {
	*websocket.Conn
	writing sync.Mutex
}

func openWebSocket(ctx context.Context, c *transport.Client) (carrier, error) {
	d := websocket.Dialer{NetDialContext: c.HTTP.DialContext, TLSClientConfig: c.HTTP.TLSClientConfig}
	h := c.Header.Clone()
	h.Del("Connection") // the upgrade sets its own
	c.Count()
	conn, resp, err := d.DialContext(ctx, "ws"+strings.TrimPrefix(c.URL, "http")+path+"websocket", h)
	if err != nil {
		if resp != nil {
			err = fmt.Errorf("%w: %s", err, resp.Status)
		}
		return nil, err
	}
	s := &socketCarrier{Conn: conn}
	if _, err := receiveOpen(s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *socketCarrier) receive() (packet, error) {
	kind, data, err := s.ReadMessage()
	return packet{kind == websocket.BinaryMessage, data}, err
}

func (s *socketCarrier) send(text string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.WriteMessage(websocket.TextMessage, []byte(text))
}

func (s *socketCarrier) close() { s.Conn.Close() }

// pollCarrier asks again once it has nothing left to return.
type pollCarrier struct {
	ctx     context.Context
	cancel  func()
	client  *transport.Client
	query   string // what names the session
	packets []packet

	mu   sync.Mutex
	sent int // requests
}

func openPolling(ctx context.Context, c *transport.Client) (carrier, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &pollCarrier{ctx: ctx, cancel: cancel, client: c}
	h, err := receiveOpen(p)
	if err != nil {
		cancel()
		return nil, err
	}
	p.query = "&sid=" + h.SID
	return p, nil
}

func (p *pollCarrier) receive() (packet, error) {
	for len(p.packets) == 0 {
		text, err := p.request("GET", nil)
		if err != nil {
			return packet{}, err
		}
		for part := range bytes.SplitSeq(text, []byte{0x1e}) {
			next := packet{data: part}
			if next.is("b") {
				data, err := base64.StdEncoding.AppendDecode(nil, part[1:])
				if err != nil {
					return packet{}, fmt.Errorf("attachment %.60q: %w", part, err)
				}
				next = packet{binary: true, data: data}
			}
			p.packets = append(p.packets, next)
		}
	}
	next := p.packets[0]
	p.packets = p.packets[1:]
	return next, nil
}

func (p *pollCarrier) send(text string) error {
	answer, err := p.request("POST", strings.NewReader(text))
	if err == nil && string(answer) != "ok" {
		err = fmt.Errorf("POST answered %.60q", answer)
	}
	return err
}

// request sends one. The official client adds eight characters to each, so that
// no cache answers it.
func (p *pollCarrier) request(method string, body io.Reader) ([]byte, error) {
	p.mu.Lock()
	p.sent++
	unique := fmt.Sprintf("&t=%08d", p.sent)
	p.mu.Unlock()
	req, err := http.NewRequestWithContext(p.ctx, method, p.client.URL+path+"polling"+unique+p.query, body)
	if err != nil {
		return nil, err
	}
	req.Header = p.client.Header
	if body != nil {
		req.Header = req.Header.Clone()
		req.Header.Set("Content-Type", "text/plain;charset=UTF-8")
	}
	p.client.Count()
	resp, err := p.client.HTTP.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s: %.200s", method, resp.Status, text), err)
	}
	return text, err
}

func (p *pollCarrier) close() { p.cancel() }
