// Package eventstream reads and writes the text/event-stream format of
// WHATWG HTML §9.2, "Server-sent events".
//
// [Reader] is the client's half: it parses a stream (§9.2.5) and interprets it
// (§9.2.6). [AppendEvent], [AppendRetry] and [AppendComment] are the server's half.
//
// The format carries lines of UTF-8 text, so not every payload survives it: a
// CR comes out as LF, and a byte sequence that is not UTF-8 comes out as
// U+FFFD. Valid UTF-8 without CR comes out byte for byte.
package eventstream

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// An Event is one dispatched event (§9.2.6).
type Event struct {
	ID   string // last event ID in force at the dispatch, set by this event or an earlier one
	Type string // value of the event field, "message" if there was none or it was empty
	Data []byte // values of the data fields, joined by LF
}

// A Reader parses one event stream. It holds no event back: Next returns an
// event once the blank line after it has arrived, even if that line ends in CR
// and an LF may follow. Lines may be of any length; the buffer grows to the
// longest and keeps that size. A Reader is not safe for concurrent use.
//
// The bytes are decoded as the Encoding Standard's "UTF-8 decode" does it: one
// leading BOM is dropped, and each maximal subpart of an ill-formed sequence
// becomes one U+FFFD.
type Reader struct {
	src   io.Reader
	err   error  // from src, reported once the bytes before it are used up
	buf   []byte // buf[start:] has been read but not yet parsed
	start int

	begun   bool // the first line, where a BOM may stand, is behind us
	afterCR bool // the last line ended in CR: an LF that comes next belongs to it

	// The buffers of §9.2.6. data has an LF after each line.
	data []byte
	typ  string
	id   string

	retry    time.Duration
	hasRetry bool
}

// NewReader returns a Reader of the stream r, which must be at its start. The
// Reader may read more from r than it has parsed.
func NewReader(r io.Reader) *Reader {
	return &Reader{src: r, buf: make([]byte, 0, 4096)}
}

// Next returns the next dispatched event; its Data belongs to the caller. An
// event without a data field is not dispatched, one with an empty data field
// is.
//
// At the end of the stream the error is io.EOF, and an unfinished line or event
// is discarded, as §9.2.6 says. Any other error is that of the underlying
// reader, wrapped. After an error, Next keeps returning it.
func (r *Reader) Next() (Event, error) {
	for {
		line, err := r.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) > 0 {
			r.field(line)
			continue
		}
		data, typ := r.data, r.typ
		r.data, r.typ = nil, ""
		if len(data) > 0 {
			return Event{
				ID:   r.id,
				Type: cmp.Or(typ, "message"),
				Data: decode(data[:len(data)-1]),
			}, nil
		}
	}
}

// Retry returns the reconnection time set by the last valid retry field, and
// whether there was one. The field takes effect as soon as its line is parsed.
// A value that is not all ASCII digits, is empty, or is too large for a
// time.Duration is ignored: the earlier one stays.
func (r *Reader) Retry() (time.Duration, bool) { return r.retry, r.hasRetry }

// field processes a line that is not blank. A comment is a field with an empty
// name, ignored like any other unknown one.
func (r *Reader) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if r.data == nil { // one allocation for an event with one line of data
			r.data = make([]byte, 0, len(value)+1)
		}
		r.data = append(r.data, value...)
		r.data = append(r.data, '\n')
	case "event":
		r.typ = string(decode(value))
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.id = string(decode(value))
		}
	case "retry":
		// In base 10 ParseUint takes digits only: no sign, no underscore.
		ms, err := strconv.ParseUint(string(value), 10, 64)
		if err == nil && ms <= math.MaxInt64/uint64(time.Millisecond) {
			r.retry, r.hasRetry = time.Duration(ms)*time.Millisecond, true
		}
	}
}

// line returns the next line without its end (§9.2.5). It is valid until the
// next call.
func (r *Reader) line() ([]byte, error) {
	scanned := 0 // unread bytes known to hold no line end
	for {
		if r.afterCR && r.start < len(r.buf) {
			r.afterCR = false
			if r.buf[r.start] == '\n' {
				r.start++
			}
		}
		unread := r.buf[r.start:]
		if i := lineEnd(unread[scanned:]); i >= 0 {
			line, end := unread[:scanned+i], unread[scanned+i]
			r.start += len(line) + 1
			r.afterCR = end == '\r'
			if !r.begun {
				r.begun = true
				line = bytes.TrimPrefix(line, []byte("\uFEFF"))
			}
			return line, nil
		}
		scanned = len(unread)
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// fill does one read, after the unread bytes. It invalidates lines.
func (r *Reader) fill() error {
	if r.err == io.EOF {
		return io.EOF
	}
	if r.err != nil {
		return fmt.Errorf("eventstream: reading the stream: %w", r.err)
	}
	if r.start > 0 { // not for each read of a long line
		r.buf = r.buf[:copy(r.buf, r.buf[r.start:])]
		r.start = 0
	}
	if len(r.buf) == cap(r.buf) {
		r.buf = slices.Grow(r.buf, len(r.buf))
	}
	var n int
	n, r.err = r.src.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	return nil
}

// lineEnd returns the index of the first CR or LF in b, or -1.
//
// It makes two passes with IndexByte, which is many times faster than one with
// IndexAny. It makes them block by block, because a search for LF to the end of
// b would be quadratic over many lines that end in CR.
func lineEnd(b []byte) int {
	const size = 1024
	for start := 0; start < len(b); start += size {
		block := b[start:min(start+size, len(b))]
		line := block
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i]
		}
		if i := bytes.IndexByte(line, '\r'); i >= 0 {
			line = line[:i]
		}
		if len(line) < len(block) {
			return start + len(line)
		}
	}
	return -1
}

// decode returns b if it is valid UTF-8, and otherwise a copy in which each
// maximal subpart of an ill-formed sequence is replaced by U+FFFD. That is
// neither bytes.ToValidUTF8, which replaces a run once, nor a range loop, which
// replaces every byte.
//
// To decode a value on its own is the same as to decode the stream: what
// delimits a value is ASCII, which no multi-byte sequence contains.
func decode(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		// An ill-formed subpart goes on while what follows could complete it.
		for n < len(b) && !utf8.FullRune(b[:n+1]) {
			n++
		}
		out = utf8.AppendRune(out, c)
		b = b[n:]
	}
	return out
}

// AppendEvent appends to b an event of type "message" and returns the result.
// If id is "" it writes no id field, and the receiver's last event ID stays
// what it was.
//
// The format has no way to write a CR in data: CR and CRLF break the line like
// LF, and arrive as LF. The data is not checked to be UTF-8; [Reader] describes
// what arrives if it is not. The id must hold no CR, LF or NUL, which is not
// checked either.
func AppendEvent(b []byte, id string, data []byte) []byte {
	if id != "" {
		b = append(b, "id: "...)
		b = append(b, id...)
		b = append(b, '\n')
	}
	for {
		b = append(b, "data: "...)
		i := lineEnd(data)
		if i < 0 {
			b = append(b, data...)
			return append(b, "\n\n"...)
		}
		b = append(b, data[:i]...)
		b = append(b, '\n')
		if bytes.HasPrefix(data[i:], []byte("\r\n")) {
			i++
		}
		data = data[i+1:]
	}
}

// AppendRetry appends to b a reconnection time (§9.2.6), in milliseconds
// rounded down, and returns the result. It may stand between events.
func AppendRetry(b []byte, d time.Duration) []byte {
	b = append(b, "retry: "...)
	b = strconv.AppendInt(b, d.Milliseconds(), 10)
	return append(b, '\n')
}

// AppendComment appends to b the shortest comment, which serves to keep a
// connection alive (§9.2.7), and returns the result. It may stand between
// events. A comment is one line, with no blank line after it.
func AppendComment(b []byte) []byte { return append(b, ":\n"...) }
