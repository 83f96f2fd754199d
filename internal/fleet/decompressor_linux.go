package fleet

import (
	"fmt"
	"io"
	"iter"

	"pushcost/internal/codec"
)

// A decompressor decodes a content coding and feeds what it was put on. The
// codings' readers pull, so that one runs as a coroutine, which is resumed
// with each piece that comes. It costs the client the coding's window.
type decompressor struct {
	resume func() (struct{}, bool)
	stop   func()
	input  []byte
	err    error
}

func newDecompressor(name codec.Name, to *eventStream) *decompressor {
	d := new(decompressor)
	d.resume, d.stop = iter.Pull(func(yield func(struct{}) bool) {
		d.err = decompress(name, source{d, yield}, to)
	})
	return d
}

func decompress(name codec.Name, from io.Reader, to *eventStream) error {
	r, err := codec.NewReader(name, from)
	if err != nil {
		return fmt.Errorf("%s: decoding %s: %w", to.client, name, err)
	}
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := to.feed(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("%s: decoding %s: %w", to.client, name, err)
		}
	}
}

// A source is what a decompressor reads: once it has everything, it waits.
type source struct {
	*decompressor
	yield func(struct{}) bool
}

func (s source) Read(b []byte) (int, error) {
	for len(s.input) == 0 {
		if !s.yield(struct{}{}) {
			return 0, io.ErrUnexpectedEOF // the client is closed
		}
	}
	n := copy(b, s.input)
	s.input = s.input[n:]
	return n, nil
}

func (d *decompressor) feed(b []byte) error {
	d.input = b
	d.resume()
	return d.err
}
