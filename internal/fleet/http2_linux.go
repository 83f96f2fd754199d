package fleet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"pushcost/internal/codec"
)

// The flow-control windows of a stream and of a connection, as Chrome opens
// them. They are opened again whenever half is used up.
const (
	streamWindow     = 6 << 20
	connectionWindow = 15 << 20
	initialWindow    = 1<<16 - 1 // RFC 9113, section 6.9.2
)

// sseOverHTTP2 is Server-Sent Events over HTTP/2 (RFC 9113), with prior
// knowledge or TLS: one request a stream.
func sseOverHTTP2(profile http.Header, coding codec.Name, tls bool) dialect {
	h := profile.Clone()
	h.Del("Connection")
	h.Set("Accept", "text/event-stream")
	h.Set("Accept-Encoding", accepts(profile, coding))
	scheme := "http"
	if tls {
		scheme = "https"
	}
	return dialect{
		request: func(c *conn) []byte { return streams(len(c.clients), h, scheme, "/events") },
		decoder: func(c *conn) decoder {
			d := &http2Frames{conn: c, coding: coding, streams: make([]stream, len(c.clients))}
			d.hpack = hpack.NewDecoder(4096, nil)
			return d
		},
	}
}

// streams are the preface of a connection and n requests.
func streams(n int, h http.Header, scheme, path string) []byte {
	var b, block bytes.Buffer
	b.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&b, nil) // which writes to memory
	framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow})
	framer.WriteWindowUpdate(0, connectionWindow-initialWindow)
	encoder := hpack.NewEncoder(&block)
	field := func(name, value string) { encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	for i := range n {
		block.Reset()
		field(":method", "GET")
		field(":scheme", scheme)
		field(":authority", "localhost")
		field(":path", path)
		for name, values := range h {
			if value := cmp.Or(values...); value != "" {
				field(strings.ToLower(name), value)
			}
		}
		framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID:      streamID(i),
			BlockFragment: block.Bytes(),
			EndStream:     true,
			EndHeaders:    true,
		})
	}
	return b.Bytes()
}

func streamID(i int) uint32 { return uint32(2*i + 1) }

// http2Frames takes a server's HTTP/2 frames apart (section 4.1), in the form in
// which servers write them here: without padding, and a head in one frame. It
// answers SETTINGS and PINGs and keeps the windows open.
type http2Frames struct {
	conn    *conn
	coding  codec.Name
	streams []stream
	hpack   *hpack.Decoder

	head    [9]byte
	have    int // bytes of the head
	frame   http2.FrameHeader
	left    int    // of the payload, in bytes
	payload []byte // but for DATA
	used    int    // of the connection's window
}

type stream struct {
	body decoder // nil: no head has come
	used int     // of the stream's window
}

func (d *http2Frames) feed(b []byte) error {
	for {
		if d.have < len(d.head) {
			n := copy(d.head[d.have:], b)
			b = b[n:]
			if d.have += n; d.have < len(d.head) {
				return nil
			}
			if err := d.begin(); err != nil {
				return fmt.Errorf("%s: %w", d.conn.clients[0], err)
			}
		}
		n := min(len(b), d.left)
		if d.frame.Type == http2.FrameData {
			if err := d.data(b[:n]); err != nil {
				return err
			}
		} else {
			d.payload = append(d.payload, b[:n]...)
		}
		b = b[n:]
		if d.left -= n; d.left > 0 {
			return nil
		}
		err := d.end()
		d.have, d.payload = 0, d.payload[:0]
		if err == errLeft {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.conn.clients[0], err)
		}
	}
}

// begin understands a frame's head.
func (d *http2Frames) begin() error {
	word := binary.BigEndian.Uint32
	d.frame = http2.FrameHeader{
		Length:   word(d.head[:]) >> 8,
		Type:     http2.FrameType(d.head[3]),
		Flags:    http2.Flags(d.head[4]),
		StreamID: word(d.head[5:]) & (1<<31 - 1),
	}
	d.left = int(d.frame.Length)
	if d.left > 1<<14 {
		return fmt.Errorf("a frame larger than was allowed: %s", d.frame)
	}
	switch d.frame.Type {
	case http2.FrameData, http2.FrameHeaders, http2.FrameRSTStream:
		if i := d.index(); d.frame.StreamID%2 == 0 || i >= len(d.streams) {
			return fmt.Errorf("a frame of a stream that was not opened: %s", d.frame)
		}
		const padded, prioritized = 0x8, 0x20
		if d.frame.Flags&(padded|prioritized) != 0 {
			return fmt.Errorf("a frame with padding or a priority: %s", d.frame)
		}
	case http2.FrameSettings, http2.FramePing, http2.FrameGoAway, http2.FrameWindowUpdate:
	default:
		return fmt.Errorf("a frame that no server sends here: %s", d.frame)
	}
	return nil
}

func (d *http2Frames) index() int { return int(d.frame.StreamID / 2) }

// client is the one whose stream the frame belongs to.
func (d *http2Frames) client() *client { return d.conn.clients[d.index()] }

// data takes a part of a DATA frame.
func (d *http2Frames) data(b []byte) error {
	s := &d.streams[d.index()]
	if s.body == nil {
		return fmt.Errorf("%s: data before the answer's head", d.client())
	}
	if len(b) > 0 {
		if err := s.body.feed(b); err != nil {
			return err
		}
	}
	return errors.Join(
		d.use(&d.used, len(b), connectionWindow, 0),
		d.use(&s.used, len(b), streamWindow, d.frame.StreamID))
}

// use gives back half a window as soon as that much is used.
func (d *http2Frames) use(used *int, n, window int, stream uint32) error {
	if *used += n; *used < window/2 {
		return nil
	}
	update := binary.BigEndian.AppendUint32(nil, uint32(*used))
	*used = 0
	return d.send(http2.FrameWindowUpdate, 0, stream, update)
}

func (d *http2Frames) send(t http2.FrameType, flags http2.Flags, stream uint32, payload []byte) error {
	b := binary.BigEndian.AppendUint32(d.conn.buf[:0], uint32(len(payload))<<8|uint32(t))
	b = append(b, byte(flags))
	b = binary.BigEndian.AppendUint32(b, stream)
	d.conn.buf = append(b, payload...)
	_, err := d.conn.Write(d.conn.buf)
	return err
}

// end ends a frame.
func (d *http2Frames) end() error {
	endStream := d.frame.Flags.Has(http2.FlagDataEndStream)
	switch d.frame.Type {
	case http2.FrameHeaders:
		if err := d.answered(); err != nil {
			return err
		}
		if endStream {
			return d.ended("with its head")
		}
	case http2.FrameData:
		if endStream {
			return d.ended("")
		}
	case http2.FrameRSTStream:
		return d.ended(fmt.Sprintf("by a RST_STREAM %x", d.payload))
	case http2.FrameSettings:
		if !d.frame.Flags.Has(http2.FlagSettingsAck) {
			return d.send(http2.FrameSettings, http2.FlagSettingsAck, 0, nil)
		}
	case http2.FramePing:
		if !d.frame.Flags.Has(http2.FlagPingAck) {
			d.conn.fleet.counts.Pings++
			return d.send(http2.FramePing, http2.FlagPingAck, 0, d.payload)
		}
	case http2.FrameGoAway:
		if len(d.payload) < 8 {
			return fmt.Errorf("a GOAWAY of %d bytes", len(d.payload))
		}
		if code := http2.ErrCode(binary.BigEndian.Uint32(d.payload[4:])); code != http2.ErrCodeNo {
			return fmt.Errorf("the server ends the connection: %s: %.60q", code, d.payload[8:])
		}
		return errLeft
	}
	return nil
}

// answered opens a stream whose answer's head has come.
func (d *http2Frames) answered() error {
	if d.streams[d.index()].body != nil || !d.frame.Flags.Has(http2.FlagHeadersEndHeaders) {
		return fmt.Errorf("a second head, or one in several frames: %s", d.frame)
	}
	fields, err := d.hpack.DecodeFull(d.payload)
	if err != nil {
		return err
	}
	h := map[string]string{}
	for _, f := range fields {
		h[f.Name] = f.Value
	}
	if h[":status"] != "200" {
		return fmt.Errorf("the answer's status is %q, want 200", h[":status"])
	}
	d.streams[d.index()].body, err = newStream(d.conn, d.client(), d.coding, h["content-type"], h["content-encoding"])
	d.client().answered()
	return err
}

// ended ends a stream as the server did.
func (d *http2Frames) ended(how string) error {
	if d.conn.opening > 0 {
		return fmt.Errorf("stream %d of %d is ended %s", d.index()+1, len(d.streams), how)
	}
	d.conn.fleet.leave(d.client(), true)
	return nil
}
