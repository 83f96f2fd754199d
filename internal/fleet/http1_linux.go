package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"pushcost/internal/codec"
)

// largestHead is what the head of an answer may have, in bytes.
const largestHead = 16 << 10

// The status lines of the answers that clients want.
const (
	statusOK        = "HTTP/1.1 200"
	statusSwitching = "HTTP/1.1 101"
)

// A head is that of an HTTP/1.1 answer (RFC 9112, section 2.1), with the blank
// line after it.
type head []byte

// cutHead splits b after the first blank line. What has come of a head is
// kept in *part until it is complete; before that, ok is false.
func cutHead(part *[]byte, b []byte) (h head, rest []byte, ok bool, err error) {
	have := len(*part)
	all := b
	if have > 0 {
		all = append(*part, b...)
	}
	if i := bytes.Index(all, []byte("\r\n\r\n")); i >= 0 {
		*part = (*part)[:0]
		return all[:i+4], b[i+4-have:], true, nil
	}
	if len(all) > largestHead {
		return nil, nil, false, fmt.Errorf("the answer's head has more than %d bytes: %.60q", largestHead, all)
	}
	*part = append((*part)[:0], all...)
	return nil, nil, false, nil
}

// status insists on a status line that begins like this.
func (h head) status(want string) error {
	if !bytes.HasPrefix(h, []byte(want)) {
		line, _, _ := bytes.Cut(h, []byte("\r\n"))
		return fmt.Errorf("the answer begins %.60q, want %s", line, want)
	}
	return nil
}

// field returns the value of a field, empty if there is none.
func (h head) field(name string) []byte {
	for rest := []byte(h); len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		if len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return bytes.TrimSpace(line[len(name)+1:])
		}
	}
	return nil
}

// An answer is a head, and then what accept finds it to announce.
type answer struct {
	part   []byte
	accept func(head) (decoder, error)
	rest   decoder // nil: the head is not complete
}

func (a *answer) feed(b []byte) error {
	if a.rest == nil {
		h, rest, ok, err := cutHead(&a.part, b)
		if err != nil || !ok {
			return err
		}
		if a.rest, err = a.accept(h); err != nil {
			return err
		}
		if b = rest; len(b) == 0 {
			return nil
		}
	}
	return a.rest.feed(b)
}

// floor is the least there can be: a line asks, a head answers, and events
// follow as they are.
func floor() dialect {
	return dialect{
		request: func(*conn) []byte { return []byte("hello\n") },
		decoder: func(c *conn) decoder {
			return &answer{accept: func(head) (decoder, error) {
				c.opened()
				return raw{c.clients[0]}, nil
			}}
		},
	}
}

// raw takes events one after the other, with nothing between them.
type raw struct{ *client }

func (r raw) feed(b []byte) error {
	for len(b) > 0 {
		n, _, err := r.some(b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// sseOverHTTP1 is Server-Sent Events in an answer of HTTP/1.1 that does not end.
func sseOverHTTP1(profile http.Header, coding codec.Name) dialect {
	request := get("/events", profile, "Accept", "text/event-stream", "Accept-Encoding", accepts(profile, coding))
	return dialect{
		request: func(*conn) []byte { return request },
		decoder: func(c *conn) decoder {
			return &answer{accept: func(h head) (decoder, error) {
				if err := h.status(statusOK); err != nil {
					return nil, err
				}
				body, err := newStream(c, c.clients[0], coding, string(h.field("Content-Type")), string(h.field("Content-Encoding")))
				if err != nil {
					return nil, err
				}
				c.clients[0].answered()
				if string(h.field("Transfer-Encoding")) == "chunked" {
					return &chunked{client: c.clients[0], body: body}, nil
				}
				return body, nil // until the connection ends
			}}
		},
	}
}

// newStream decodes an event stream that was announced like this. A codec may
// name its window, br24: what comes says itself which one it has.
func newStream(c *conn, of *client, name codec.Name, kind, coding string) (decoder, error) {
	want := codec.Name(strings.TrimRight(string(name), "0123456789"))
	if kind, _, _ = strings.Cut(kind, ";"); kind != "text/event-stream" {
		return nil, fmt.Errorf("the answer is %q, not text/event-stream", kind)
	}
	if coding != string(want) {
		return nil, fmt.Errorf("asked for coding %q, got %q", want, coding)
	}
	if of.encoded {
		return raw{of}, nil
	}
	stream := &eventStream{client: of}
	if want == codec.Identity {
		return stream, nil
	}
	d := newDecompressor(want, stream)
	c.release = append(c.release, d.stop)
	return d, nil
}

// chunked takes the chunks of an answer apart (RFC 9112, section 7.1). No
// server here sends chunk extensions or trailers.
type chunked struct {
	*client
	body   decoder
	at     chunkPart
	digits int // of the size
	left   int // of the chunk, in bytes
	last   bool
	rest   []byte // what followed the last chunk
}

type chunkPart int

const (
	chunkSize chunkPart = iota
	chunkSizeLF
	chunkData
	chunkCR
	chunkLF
)

func (k *chunked) feed(b []byte) error {
	for len(b) > 0 {
		if k.at == chunkData {
			n := min(len(b), k.left)
			if err := k.body.feed(b[:n]); err != nil {
				return err
			}
			b = b[n:]
			if k.left -= n; k.left == 0 {
				k.at = chunkCR
			}
			continue
		}
		if err := k.frame(b[0]); err != nil {
			if err != errLeft {
				return fmt.Errorf("%s: %w, at %.60q", k.client, err, b)
			}
			k.rest = b[1:]
			return err
		}
		b = b[1:]
	}
	return nil
}

// frame takes a byte of what is between the data of two chunks.
func (k *chunked) frame(ch byte) error {
	digit := unhex(ch)
	switch {
	case k.at == chunkSize && digit >= 0 && k.digits < 7:
		k.left = k.left<<4 | digit
		k.digits++
	case k.at == chunkSize && ch == '\r' && k.digits > 0:
		k.at = chunkSizeLF
	case k.at == chunkSizeLF && ch == '\n' && k.left > 0:
		k.at, k.digits = chunkData, 0
	case k.at == chunkSizeLF && ch == '\n':
		k.at, k.last = chunkCR, true
	case k.at == chunkCR && ch == '\r':
		k.at = chunkLF
	case k.at == chunkLF && ch == '\n':
		if k.last {
			return errLeft
		}
		k.at = chunkSize
	default:
		return errors.New("a chunk is broken")
	}
	return nil
}

func unhex(ch byte) int {
	switch {
	case '0' <= ch && ch <= '9':
		return int(ch - '0')
	case 'a' <= ch && ch <= 'f':
		return int(ch-'a') + 10
	case 'A' <= ch && ch <= 'F':
		return int(ch-'A') + 10
	}
	return -1
}

// eventStream takes an event stream apart (WHATWG HTML, section 9.2), in the
// form in which servers write it: lines end in LF.
type eventStream struct {
	*client
	at    linePart
	name  [5]byte // the longest: event, retry
	have  int     // bytes of the name
	begun bool    // the event has a line of data
}

type linePart int

const (
	lineName linePart = iota
	lineSpace
	lineData
	lineIgnored
)

func (s *eventStream) feed(b []byte) error {
	for len(b) > 0 {
		switch s.at {
		case lineName:
			if err := s.named(b[0]); err != nil {
				return err
			}
			b = b[1:]
		case lineSpace:
			if b[0] == ' ' {
				b = b[1:]
			}
			s.at = lineData
		default:
			line, rest, ended := bytes.Cut(b, []byte("\n"))
			if s.at == lineData {
				if err := s.data(line); err != nil {
					return err
				}
			}
			if b = rest; ended {
				s.at = lineName
			}
		}
	}
	return nil
}

// named takes a byte of a field's name, or what ends it.
func (s *eventStream) named(ch byte) error {
	name := string(s.name[:s.have])
	switch {
	case ch == '\n' && name == "":
		if !s.begun {
			return nil // after a comment
		}
		s.begun = false
		return s.end()
	case ch == ':' && name == "data":
		s.at = lineSpace
		if s.begun {
			if err := s.data([]byte("\n")); err != nil {
				return err
			}
		}
		s.begun = true
	case ch == ':' && name == "":
		s.at = lineIgnored
		s.conn.fleet.counts.Pings++
	case ch == ':' && (name == "id" || name == "event" || name == "retry"):
		s.at = lineIgnored
	case ch != '\n' && ch != ':' && s.have < len(s.name):
		s.name[s.have] = ch
		s.have++
		return nil
	default:
		return fmt.Errorf("%s: a line begins %q: want a field of an event stream", s.client, name+string(ch))
	}
	s.have = 0
	return nil
}
