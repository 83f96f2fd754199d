// Package codec holds the codings an event stream can have, each with a flush
// per event: what was written can be decoded without what comes next.
package codec

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// A Name is a coding's name: for HTTP, its token in Content-Encoding.
type Name string

// The codings. The two of a WebSocket are negotiated as an extension of its
// own (RFC 7692): with context takeover a message may refer back to the ones
// before, without it each starts anew.
const (
	Identity          Name = ""
	Gzip              Name = "gzip" // RFC 1952
	Brotli            Name = "br"   // RFC 7932
	Zstd              Name = "zstd" // RFC 8878
	Deflate           Name = "deflate"
	DeflateNoTakeover Name = "deflate-no-takeover"
)

// Params are a coding, how hard it looks for what was there before, and how
// far back. A 0 stands for the default.
//
//	         Level               Window
//	gzip     1 to 9, default 6   15, not to be chosen (RFC 1951, section 2)
//	br       1 to 11, default 5  10 to 24, default 22 (RFC 7932, section 9.1)
//	zstd     1 to 4, default 2   10 to 23, default 23 (RFC 9659, section 3)
//	deflate  1 to 9, default 6   8 to 15, default 15 (RFC 7692, section 7.1.2)
//
// The levels are those of compress/gzip, andybalholm/brotli,
// klauspost/compress/zstd (SpeedFastest is 1) and compress/flate. The latter's
// window is always 15; to choose one is to choose klauspost/compress/flate,
// which then has one level, its own 5.
type Params struct {
	Name   Name
	Level  int
	Window int // the logarithm, to base 2, of its size in bytes
}

// String is what a benchmark's name says: br/level=5/window=22.
func (p Params) String() string {
	s := cmp.Or(string(p.Name), "identity")
	if p.Level != 0 {
		s += fmt.Sprintf("/level=%d", p.Level)
	}
	if p.Window != 0 {
		s += fmt.Sprintf("/window=%d", p.Window)
	}
	return s
}

var choices = map[Name]struct{ levels, windows [2]int }{
	Identity:          {},
	Gzip:              {levels: [2]int{1, 9}},
	Brotli:            {[2]int{1, 11}, [2]int{10, 24}},
	Zstd:              {[2]int{1, 4}, [2]int{10, 23}},
	Deflate:           {[2]int{1, 9}, [2]int{8, 15}},
	DeflateNoTakeover: {[2]int{1, 9}, [2]int{8, 15}},
}

func (p Params) check() error {
	c, ok := choices[p.Name]
	if !ok {
		return fmt.Errorf("codec: %q is not a coding", p.Name)
	}
	within := func(v int, c [2]int) bool { return v == 0 || c[0] <= v && v <= c[1] }
	if !within(p.Level, c.levels) || !within(p.Window, c.windows) || p.messages() && p.Level != 0 && p.Window != 0 {
		return fmt.Errorf("codec: there is no %s", p)
	}
	return nil
}

// messages says that the coding is a WebSocket's.
func (p Params) messages() bool { return p.Name == Deflate || p.Name == DeflateNoTakeover }

// A Writer encodes. Flush passes on everything written so far: of a
// WebSocket's codings, as a message. Reset starts anew into another
// destination.
type Writer interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// NewWriter returns an encoder of a coding as it is by default.
func NewWriter(name Name, w io.Writer) (Writer, error) { return Params{Name: name}.NewWriter(w) }

// NewReader returns the decoder. See [Params.NewReader].
func NewReader(name Name, r io.Reader) (io.Reader, error) { return Params{Name: name}.NewReader(r) }

// NewWriter returns an encoder. It fails if there is no such coding, or not
// with this level or window.
func (p Params) NewWriter(w io.Writer) (Writer, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	switch p.Name {
	case Gzip:
		return gzip.NewWriterLevel(w, cmp.Or(p.Level, 6))
	case Brotli:
		return brotli.NewWriterOptions(w, brotli.WriterOptions{Quality: cmp.Or(p.Level, 5), LGWin: cmp.Or(p.Window, 22)}), nil
	case Zstd:
		return zstd.NewWriter(w,
			zstd.WithEncoderLevel(zstd.EncoderLevel(cmp.Or(p.Level, 2))),
			zstd.WithWindowSize(1<<cmp.Or(p.Window, 23)),
			zstd.WithEncoderConcurrency(1)) // no goroutines: a flush is done when it returns
	case Deflate, DeflateNoTakeover:
		return p.newMessageWriter(w)
	}
	return &plain{w}, nil
}

// NewReader returns the decoder of what an encoder with the same parameters
// writes. It may wait for the stream's first bytes. Of a WebSocket's codings r
// returns io.EOF where a message ends and is then read on, as a
// [bytes.Buffer] can be; what is decoded ends where there is no next message.
func (p Params) NewReader(r io.Reader) (io.Reader, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	switch p.Name {
	case Gzip:
		return gzip.NewReader(r)
	case Brotli:
		return brotli.NewReader(r), nil
	case Zstd:
		stream := struct{ io.Reader }{r} // a bytes.Buffer would be taken for all of it
		return zstd.NewReader(stream, zstd.WithDecoderConcurrency(1))
	case Deflate, DeflateNoTakeover:
		return p.newMessageReader(r), nil
	}
	return r, nil
}

type plain struct{ io.Writer }

func (*plain) Flush() error        { return nil }
func (*plain) Close() error        { return nil }
func (p *plain) Reset(w io.Writer) { p.Writer = w }
