package room

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	kflate "github.com/klauspost/compress/flate"
	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"pushcost/internal/codec"
)

var codings = []codec.Name{codec.Brotli, codec.Gzip, codec.Zstd, codec.Deflate, codec.DeflateNoTakeover}

// A client decodes a stream bit by bit.
type client interface {
	// receive fails unless this much of the stream, without what follows,
	// decodes to want.
	receive(wire, want []byte) error
}

// clients returns one client for each decoder of a coding.
func clients(coding codec.Name) map[string]client {
	stream := func(open func(io.Reader) (io.Reader, error)) client { return &streamClient{open: open} }
	deflate := func(open func(io.Reader) io.ReadCloser) client {
		return &frameClient{takeover: coding == codec.Deflate, open: open}
	}
	switch coding {
	case codec.Brotli:
		return map[string]client{
			"andybalholm": stream(func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil }),
		}
	case codec.Gzip:
		return map[string]client{
			"compress":  stream(func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }),
			"klauspost": stream(func(r io.Reader) (io.Reader, error) { return kgzip.NewReader(r) }),
		}
	case codec.Zstd:
		return map[string]client{
			"klauspost": stream(func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) }),
		}
	}
	return map[string]client{"compress": deflate(flate.NewReader), "klauspost": deflate(kflate.NewReader)}
}

var errStarved = errors.New("the decoder wants more than it was sent")

// A queue is what arrived and was not read. A decoder that reads on before
// more arrives fails: a browser would wait for bytes that do not come.
type queue struct{ buf bytes.Buffer }

func (q *queue) Read(p []byte) (int, error) {
	if q.buf.Len() == 0 {
		return 0, errStarved
	}
	return q.buf.Read(p)
}

func (q *queue) ReadByte() (byte, error) {
	if q.buf.Len() == 0 {
		return 0, errStarved
	}
	return q.buf.ReadByte()
}

type streamClient struct {
	open    func(io.Reader) (io.Reader, error)
	queue   queue
	decoder io.Reader
	buf     []byte
}

func (s *streamClient) receive(wire, want []byte) (err error) {
	s.queue.buf.Write(wire)
	if len(want) == 0 {
		return nil
	}
	if s.decoder == nil {
		if s.decoder, err = s.open(&s.queue); err != nil {
			return err
		}
	}
	s.buf = append(s.buf[:0], want...)
	clear(s.buf)
	if n, err := io.ReadFull(s.decoder, s.buf); err != nil {
		return fmt.Errorf("after %d of %d bytes: %w", n, len(want), err)
	}
	return compare(s.buf, want)
}

func compare(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	return fmt.Errorf("byte %d of %d (got %d) differs: %.40q instead of %.40q", n, len(want), len(got), got[n:], want[n:])
}

// A frameClient reads one WebSocket frame at a time.
type frameClient struct {
	takeover bool
	open     func(io.Reader) io.ReadCloser
	stream   *streamClient
}

func (f *frameClient) receive(wire, want []byte) error {
	if len(want) == 0 && (len(wire) == 0 || string(wire) == "\x89\x00") {
		return nil // the header that a WebSocket's stream has not, or a ping
	}
	deflated, payload, err := parseFrame(wire)
	if err != nil {
		return err
	}
	if text := wire[0]&1 == 1; text != utf8.Valid(want) {
		return fmt.Errorf("a frame of text: %t, for %.40q", text, want)
	}
	if !deflated {
		return compare(payload, want)
	}
	if f.stream == nil || !f.takeover {
		f.stream = &streamClient{open: func(r io.Reader) (io.Reader, error) { return f.open(r), nil }}
	}
	return f.stream.receive(append(payload[:len(payload):len(payload)], "\x00\x00\xff\xff"...), want)
}

// parseFrame reads an unmasked frame of a whole message (RFC 6455, 5.2).
func parseFrame(wire []byte) (deflated bool, payload []byte, err error) {
	if len(wire) < 2 || wire[0]&0b1011_1100 != 0b1000_0000 || wire[0]&3 == 0 || wire[0]&3 == 3 {
		return false, nil, fmt.Errorf("not a frame of text or data: %.4x", wire)
	}
	size, rest := uint64(wire[1]), wire[2:]
	switch size {
	case 126:
		size, rest = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
	case 127:
		size, rest = binary.BigEndian.Uint64(rest), rest[8:]
	}
	if size != uint64(len(rest)) {
		return false, nil, fmt.Errorf("a frame of %d bytes has %d", size, len(rest))
	}
	return wire[0]&(1<<6) != 0, rest, nil
}
