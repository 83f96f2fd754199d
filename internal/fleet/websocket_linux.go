package fleet

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"

	"pushcost/internal/codec"
	"pushcost/internal/transport"
)

// The opcodes of RFC 6455, section 5.2.
const (
	opContinuation = iota
	opText
	opBinary
	opClose = iota + 5
	opPing
	opPong
)

// webSocket is a WebSocket (RFC 6455) opened over HTTP/1.1.
func webSocket(profile http.Header, coding codec.Name) (dialect, error) {
	offers := map[codec.Name][]string{
		codec.Identity:          nil,
		codec.Deflate:           {"Sec-Websocket-Extensions", "permessage-deflate; client_max_window_bits"},
		codec.DeflateNoTakeover: {"Sec-Websocket-Extensions", "permessage-deflate; server_no_context_takeover; client_no_context_takeover; client_max_window_bits"},
	}
	offer, ok := offers[coding]
	if !ok {
		return dialect{}, fmt.Errorf("a WebSocket has no %s", coding)
	}
	return upgrade("/ws", profile, offer, func(c *conn, h head) (decoder, error) {
		if err := transport.Negotiated(string(h.field("Sec-Websocket-Extensions")), coding); err != nil {
			return nil, err
		}
		c.opened()
		c.sends = plainMessages
		return newFrames(c.clients[0], c.clients[0], coding)
	}), nil
}

// upgrade asks for a WebSocket. What follows the answer's head is for the
// decoder that accept returns.
func upgrade(path string, profile http.Header, offer []string, accept func(*conn, head) (decoder, error)) dialect {
	nonce := make([]byte, 16)
	rand.Read(nonce) // never fails
	key := base64.StdEncoding.EncodeToString(nonce)
	answered := transport.AcceptKey(key)
	request := get(path, profile, slices.Concat([]string{
		"Connection", "Upgrade",
		"Upgrade", "websocket",
		"Sec-Websocket-Version", "13",
		"Sec-Websocket-Key", key,
	}, offer)...)
	return dialect{
		request: func(*conn) []byte { return request },
		decoder: func(c *conn) decoder {
			return &answer{accept: func(h head) (decoder, error) {
				if err := h.status(statusSwitching); err != nil {
					return nil, err
				}
				if got := h.field("Sec-Websocket-Accept"); string(got) != answered {
					return nil, fmt.Errorf("the answer accepts %q, not the key sent", got)
				}
				return accept(c, h)
			}}
		},
	}
}

// A message takes the data of a WebSocket's messages, cut anywhere.
type message interface {
	data(b []byte) error
	end() error
}

// frames takes a server's frames apart (section 5). It answers pings and a
// close.
type frames struct {
	client            *client
	plain, compressed message // the latter nil where it was not negotiated

	head    [10]byte
	have    int // bytes of the head
	need    int // bytes that it will have
	op      byte
	final   bool
	left    int     // of the frame's payload, in bytes
	message message // that is being received, nil: none
	control []byte  // payload of a ping, a pong or a close
}

func newFrames(c *client, to message, coding codec.Name) (f *frames, err error) {
	f = &frames{client: c, plain: to, need: 2}
	if coding != codec.Identity {
		f.compressed, err = newInflated(c, coding)
	}
	return f, err
}

func (f *frames) feed(b []byte) error {
	for {
		for f.have < f.need {
			if len(b) == 0 {
				return nil
			}
			n := copy(f.head[f.have:f.need], b)
			f.have += n
			if err := f.header(); err != nil {
				return fmt.Errorf("%s: %w: %.60q", f.client, err, b)
			}
			b = b[n:]
		}
		n := min(len(b), f.left)
		if err := f.payload(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		if f.left -= n; f.left > 0 {
			return nil
		}
		f.have, f.need = 0, 2
		if err := f.end(); err != nil {
			return err
		}
	}
}

// header looks at the head as soon as it has 2 bytes, and when it has all.
func (f *frames) header() error {
	switch {
	case f.have < f.need:
	case f.need == 2:
		return f.begin(f.head[0], f.head[1])
	case f.need == 4:
		if f.left = int(binary.BigEndian.Uint16(f.head[2:])); f.left < 126 {
			return errors.New("a length that has a shorter form")
		}
	default:
		length := binary.BigEndian.Uint64(f.head[2:])
		if length < 1<<16 || length > math.MaxInt32 {
			return errors.New("a length that has a shorter form, or is beyond all events")
		}
		f.left = int(length)
	}
	return nil
}

// begin understands the two bytes that every frame begins with.
func (f *frames) begin(first, second byte) error {
	f.op, f.final = first&0xf, first&0x80 != 0
	f.left = int(second & 0x7f)
	start := f.op == opText || f.op == opBinary
	compressed := first&0x40 != 0
	switch {
	case first&0x30 != 0, compressed && (f.compressed == nil || !start):
		return errors.New("a frame with reserved bits")
	case second&0x80 != 0:
		return errors.New("a masked frame from a server")
	case f.op > opPong, opBinary < f.op && f.op < opClose:
		return errors.New("an unknown opcode")
	case f.op >= opClose && (!f.final || f.left > 125):
		return errors.New("a control frame in fragments, or too long")
	case f.op == opContinuation && f.message == nil:
		return errors.New("a continuation of nothing")
	case start && f.message != nil:
		return errors.New("a message within a message")
	}
	switch {
	case start && compressed:
		f.message = f.compressed
	case start:
		f.message = f.plain
	}
	switch f.left {
	case 126:
		f.need = 4
	case 127:
		f.need = 10
	}
	return nil
}

func (f *frames) payload(b []byte) error {
	if f.op >= opClose {
		f.control = append(f.control, b...)
		return nil
	}
	return f.message.data(b)
}

// end ends a frame.
func (f *frames) end() error {
	if f.op < opClose {
		if !f.final {
			return nil
		}
		m := f.message
		f.message = nil
		return m.end()
	}
	control := f.control
	f.control = f.control[:0]
	switch f.op {
	case opPing:
		f.client.conn.fleet.counts.Pings++
		return f.client.conn.send(opPong, control)
	case opPong:
		return f.client.ponged(control)
	default:
		if err := f.client.conn.send(opClose, control); err != nil {
			return err
		}
		return errLeft
	}
}

// mask is that of all frames. It hides nothing from servers that are our own.
var mask = [4]byte{0x37, 0xfa, 0x21, 0x3d}

// appendFrame appends a client's frame with a whole message.
func appendFrame(b []byte, op byte, payload []byte) []byte {
	b = append(b, 0x80|op)
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = append(b, 0x80|126)
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b = append(b, 0x80|127)
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, mask[:]...)
	for i, ch := range payload {
		b = append(b, ch^mask[i%4])
	}
	return b
}

func (c *conn) send(op byte, payload []byte) error {
	c.buf = appendFrame(c.buf[:0], op, payload)
	_, err := c.Write(c.buf)
	return err
}

// ponged takes a pong. One that nobody asked for is allowed (section 5.5.3).
func (c *client) ponged(payload []byte) error {
	if f := c.conn.fleet; c.pinged && bytes.Equal(payload, f.ping) {
		c.pinged = false
		f.ponged++
		f.settle(&f.pinged)
	}
	return nil
}

// inflated inflates the messages of permessage-deflate.
type inflated struct {
	client   *client
	deflated bytes.Buffer
	reader   io.Reader
}

func newInflated(c *client, coding codec.Name) (*inflated, error) {
	i := &inflated{client: c}
	var err error
	i.reader, err = codec.NewReader(coding, &i.deflated)
	return i, err
}

func (i *inflated) data(b []byte) error {
	i.deflated.Write(b) // to memory
	return nil
}

func (i *inflated) end() error {
	b, err := io.ReadAll(i.reader)
	if err != nil {
		return fmt.Errorf("%s: inflating a message: %w", i.client, err)
	}
	if err := i.client.data(b); err != nil {
		return err
	}
	return i.client.end()
}
