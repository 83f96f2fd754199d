package room

import (
	"math/bits"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/andybalholm/brotli/matchfinder"
)

// The windows of a stream header of four bits (RFC 7932, 9.1).
const (
	minWindow = 18
	maxWindow = 24
)

const maxMetaBlock = 1 << 24 // bytes (RFC 7932, 9.2)

func brotliFormat(lgwin int) format {
	header := 1 | (lgwin-17)<<1 | emptyMetadata<<4 // WBITS, and what fills the second byte
	window := 1<<lgwin - 16
	return format{
		header: []byte{byte(header), byte(header >> 8)},
		beat:   []byte{emptyMetadata},
		window: window,
		coder: func() coder {
			b := &brotliCoder{window: window}
			b.enc.Encode(nil, nil, nil, true) // its header; the stream has ours
			return b
		},
	}
}

// emptyMetadata is six bits, the first the lowest: ISLAST 0, MNIBBLES 3 (which
// means 0: metadata), a reserved 0, MSKIPBYTES 0. Zeros fill the byte.
const emptyMetadata = 0b000110

// A brotliCoder is a match finder and an entropy coder of the library's, which
// unlike its Writer use no state of the stream but the output.
type brotliCoder struct {
	window  int
	finder  matchfinder.ZM
	enc     brotli.Encoder
	matches []matchfinder.Match
	buf     []byte
}

func (b *brotliCoder) encode(ref, event []byte) []byte {
	b.finder.Reset() // all that it knows, and can copy, is ref and event
	b.finder.MaxDistance = min(len(ref)+len(event), b.window)
	b.finder.FindMatches(b.matches[:0], ref)
	b.buf = b.buf[:0]
	for block := range slices.Chunk(event, maxMetaBlock) {
		b.matches = b.finder.FindMatches(b.matches[:0], block)
		b.buf = seal(b.enc.Encode(b.buf, block, b.matches, true))
	}
	return slices.Clone(b.buf)
}

// seal replaces the end of a stream, the bits 11 (ISLAST, ISLASTEMPTY) and
// zeros to the byte, by an empty metadata block and zeros to the byte: the
// stream can go on.
func seal(wire []byte) []byte {
	last := len(wire) - 1
	end := 8*last + bits.Len8(wire[last]) - 2 // where 11 begins
	wire = append(wire, 0)
	wire[end/8] &^= 1 << (end % 8)
	wire[(end+2)/8] |= 1 << ((end + 2) % 8)
	return wire[:(end+6+7)/8]
}
