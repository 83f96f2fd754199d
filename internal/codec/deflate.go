package codec

import (
	"bytes"
	"cmp"
	"compress/flate"
	"io"
	"strings"

	kflate "github.com/klauspost/compress/flate"
)

// marker is the empty block that a flush ends with (RFC 1951, section 3.2.4),
// but for its header, which shares a byte with what is before it. A message
// leaves it out (RFC 7692, section 7.2.1).
const marker = "\x00\x00\xff\xff"

// A messageWriter deflates: a message is what Flush finds written.
type messageWriter struct {
	Writer   // into message
	message  *bytes.Buffer
	dst      io.Writer
	takeover bool
}

func (p Params) newMessageWriter(dst io.Writer) (_ Writer, err error) {
	w := &messageWriter{message: new(bytes.Buffer), dst: dst, takeover: p.Name == Deflate}
	if p.Window == 0 {
		w.Writer, err = flate.NewWriter(w.message, cmp.Or(p.Level, 6))
	} else {
		w.Writer, err = kflate.NewWriterWindow(w.message, 1<<p.Window)
	}
	return w, err
}

func (w *messageWriter) Flush() error {
	if err := w.Writer.Flush(); err != nil {
		return err
	}
	_, err := w.dst.Write(bytes.TrimSuffix(w.message.Bytes(), []byte(marker)))
	w.message.Reset()
	if !w.takeover {
		w.Writer.Reset(w.message)
	}
	return err
}

// Close leaves the stream as it is: messages have no end of their own.
func (*messageWriter) Close() error { return nil }

func (w *messageWriter) Reset(dst io.Writer) {
	w.dst = dst
	w.message.Reset()
	w.Writer.Reset(w.message)
}

// A messageReader inflates message by message. It keeps what the next may
// refer to, no more than the encoder's window.
type messageReader struct {
	src     io.Reader
	window  []byte
	keep    int
	decoded bytes.Reader
}

func (p Params) newMessageReader(src io.Reader) io.Reader {
	r := &messageReader{src: src}
	if p.Name == Deflate {
		r.keep = 1 << cmp.Or(p.Window, 15)
	}
	return r
}

func (r *messageReader) Read(p []byte) (int, error) {
	for r.decoded.Len() == 0 {
		message, err := io.ReadAll(r.src)
		if err != nil {
			return 0, err
		}
		if len(message) == 0 {
			return 0, io.EOF
		}
		const last = "\x01\x00\x00\xff\xff" // an empty block that says it is
		inflate := flate.NewReaderDict(io.MultiReader(bytes.NewReader(message), strings.NewReader(marker+last)), r.window)
		decoded, err := io.ReadAll(inflate)
		if err != nil {
			return 0, err
		}
		r.decoded.Reset(decoded)
		r.window = append(r.window, decoded...)
		r.window = r.window[max(0, len(r.window)-r.keep):]
	}
	return r.decoded.Read(p)
}
