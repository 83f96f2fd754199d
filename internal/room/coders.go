package room

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

const deflateWindow = 32 << 10

var gzipFormat = format{
	header: []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}, // RFC 1952, 2.3: no name, no time, system unknown
	beat:   []byte("\x00\x00\x00\xff\xff"),               // an empty stored block (RFC 1951, 3.2.4)
	window: deflateWindow,
	coder:  func() coder { return newDeflateCoder() },
}

// A deflateCoder keeps nothing between events: the reference is its preset
// dictionary, which makes the same blocks as if it had been encoded before.
type deflateCoder struct {
	w   *flate.Writer
	buf bytes.Buffer
}

func newDeflateCoder() *deflateCoder {
	w, err := flate.NewWriter(nil, flate.BestCompression) // finds matches in events of less than 128 bytes, too
	if err != nil {
		panic(err) // there is such a level
	}
	return &deflateCoder{w: w}
}

func (d *deflateCoder) encode(ref, event []byte) []byte {
	d.buf.Reset()
	d.w.ResetDict(&d.buf, ref)
	d.w.Write(event) // a Buffer does not fail
	d.w.Flush()
	return slices.Clone(d.buf.Bytes())
}

// webSocketFormat has frames for a stream: without a header, and private events
// that are not compressed.
func webSocketFormat(window int) format {
	return format{
		beat:    []byte("\x89\x00"), // a ping (RFC 6455, 5.5.2)
		window:  window,
		private: func(event []byte) []byte { return frame(event, event, 0) },
		coder:   func() coder { return webSocketCoder{newDeflateCoder()} },
	}
}

type webSocketCoder struct{ *deflateCoder }

func (w webSocketCoder) encode(ref, event []byte) []byte {
	deflated := w.deflateCoder.encode(ref, event)
	return frame(event, deflated[:len(deflated)-len("\x00\x00\xff\xff")], compressed)
}

const compressed = 1 << 6 // RSV1 (RFC 7692, section 6)

// frame returns a server's frame that is all of a message (RFC 6455, 5.2):
// of text if the event is UTF-8, which text has to be.
func frame(event, payload []byte, rsv byte) []byte {
	const final, text, binaryData = 1 << 7, 1, 2
	opcode := byte(text)
	if !utf8.Valid(event) {
		opcode = binaryData
	}
	f := []byte{final | rsv | opcode}
	switch n := len(payload); {
	case n < 126:
		f = append(f, byte(n))
	case n < 1<<16:
		f = binary.BigEndian.AppendUint16(append(f, 126), uint16(n))
	default:
		f = binary.BigEndian.AppendUint64(append(f, 127), uint64(n))
	}
	return append(f, payload...)
}

// zstdFormat has frames that share nothing, of windows of at most 8 MB (RFC
// 9659, which browsers insist on).
var zstdFormat = format{
	beat: []byte("\x50\x2a\x4d\x18\x00\x00\x00\x00"), // a skippable frame (RFC 8878, 3.1.2)
	coder: func() coder {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
		if err != nil {
			panic(err) // the options are constant
		}
		return zstdCoder{w}
	},
}

type zstdCoder struct{ *zstd.Encoder }

func (z zstdCoder) encode(_, event []byte) []byte { return z.EncodeAll(event, nil) }
