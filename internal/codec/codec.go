// Package codec holds the content codings an event stream can have, each with
// a flush per event: what was written can be decoded without what comes next.
package codec

import (
	"compress/gzip"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// A Name is a coding's name: for HTTP, its token in Content-Encoding.
type Name string

// The codings. The two of a WebSocket are negotiated as an extension of its
// own (RFC 7692) and coded by its library: with context takeover a message
// may refer back to the ones before, without it each starts anew.
const (
	Identity          Name = ""
	Gzip              Name = "gzip" // compress/gzip, level 6
	Brotli            Name = "br"   // quality 5
	Zstd              Name = "zstd" // the library's default level
	Deflate           Name = "deflate"
	DeflateNoTakeover Name = "deflate-no-takeover"
)

// A Writer encodes. Flush passes on everything written so far, Reset starts
// anew into another destination.
type Writer interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// NewWriter returns an encoder of a content coding.
func NewWriter(name Name, w io.Writer) (Writer, error) {
	switch name {
	case Identity:
		return &plain{w}, nil
	case Gzip:
		return gzip.NewWriter(w), nil
	case Brotli:
		return brotli.NewWriterLevel(w, 5), nil
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) // no goroutines: a flush is done when it returns
	}
	return nil, fmt.Errorf("codec: %q is not a content coding", name)
}

// NewReader returns the decoder. It may wait for the stream's first bytes.
func NewReader(name Name, r io.Reader) (io.Reader, error) {
	switch name {
	case Identity:
		return r, nil
	case Gzip:
		return gzip.NewReader(r)
	case Brotli:
		return brotli.NewReader(r), nil
	case Zstd:
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	}
	return nil, fmt.Errorf("codec: %q is not a content coding", name)
}

type plain struct{ io.Writer }

func (*plain) Flush() error        { return nil }
func (*plain) Close() error        { return nil }
func (p *plain) Reset(w io.Writer) { p.Writer = w }
