package crowd

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"pushcost/internal/codec"
	"pushcost/internal/eventstream"
	"pushcost/internal/room"
	"pushcost/internal/transport"
)

// windows are codecs with another window than their default (see
// [codec.Params]).
var windows = map[codec.Name]codec.Params{
	"br17": {Name: codec.Brotli, Window: 17},
	"br20": {Name: codec.Brotli, Window: 20},
	"br24": {Name: codec.Brotli, Window: 24},
}

var sses = []Contestant{
	{
		Transport: "sse", Lib: "http", Over: []transport.HTTP{transport.HTTP1, transport.HTTP2}, TLS: true,
		Codecs: []codec.Name{codec.Gzip, codec.Brotli, "br17", "br20", "br24", codec.Zstd},
		serve:  serveEach,
	},
	{
		Transport: "sse", Lib: "encoded", Over: []transport.HTTP{transport.HTTP1, transport.HTTP2}, TLS: true,
		Codecs: []codec.Name{codec.Gzip, codec.Brotli, codec.Zstd},
		serve:  serveEncoded,
	},
}

func event(data []byte) []byte { return eventstream.AppendEvent(nil, "", data) }

var comment = eventstream.AppendComment(nil)

func length(message []byte) int { return len(message) }

// serveEach has every handler make an event of a message, or a heartbeat of
// nil, in a buffer of its own, and compress it, with a window of its own.
func serveEach(d *door) (Server, error) {
	coding, ok := windows[d.setup.Codec]
	if !ok {
		coding.Name = d.setup.Codec
	}
	s := &server[[]byte]{door: d, encode: same}
	serveSSE(s, coding.Name, length, func(w io.Writer) (func([]byte) error, error) {
		body, err := coding.NewWriter(w)
		if err != nil {
			return nil, err
		}
		var buf []byte
		return func(message []byte) error {
			if buf = buf[:0]; message == nil {
				buf = eventstream.AppendComment(buf)
			} else {
				buf = eventstream.AppendEvent(buf, "", message)
			}
			if coding.Name != codec.Identity {
				d.compressions.Add(1)
			}
			_, err := body.Write(buf)
			return errors.Join(err, body.Flush())
		}, nil
	})
	return s, nil
}

// serveEncoded encodes a message once: as an event and, where there is a codec,
// for a room that everybody joins. Who joins gets the last event at once.
func serveEncoded(d *door) (Server, error) {
	if d.setup.Codec == codec.Identity {
		s := &server[[]byte]{door: d, encode: event, beat: comment}
		serveSSE(s, codec.Identity, length, func(w io.Writer) (func([]byte) error, error) {
			return func(message []byte) error {
				_, err := w.Write(message)
				return err
			}, nil
		})
		return s, nil
	}
	encoder, err := room.NewEncoder(d.setup.Codec, room.Options{})
	if err != nil {
		return nil, err
	}
	s := &server[*room.Chunk]{door: d,
		encode: func(data []byte) *room.Chunk { return encoder.Encode(event(data)) },
	}
	size := func(c *room.Chunk) int { // which a chunk that waits keeps
		if c == nil {
			return 0
		}
		return len(c.Event())
	}
	serveSSE(s, d.setup.Codec, size, func(w io.Writer) (func(*room.Chunk) error, error) {
		member, wire := encoder.Join()
		_, err := w.Write(wire)
		return func(c *room.Chunk) error {
			wire := encoder.Beat()
			if c != nil {
				wire = member.Next(c)
			}
			_, err := w.Write(wire)
			return err
		}, err
	})
	return &shared{Server: s, encoder: encoder}, nil
}

// A shared encoder counts its calls itself, and wants its events sent in the
// order in which it encoded them.
type shared struct {
	Server
	encoder *room.Encoder
	order   sync.Mutex
}

func (s *shared) Broadcast(data []byte) (sent, dropped int) {
	s.order.Lock()
	defer s.order.Unlock()
	return s.Server.Broadcast(data)
}

func (s *shared) Compressions() int64 { return int64(s.encoder.Calls()) }

// serveSSE serves with net/http as everybody does: a handler stays with each
// client and writes what comes into its mailbox. It begins to write when
// nothing can escape it any more.
func serveSSE[M any](s *server[M], coding codec.Name, size func(M) int, begin func(io.Writer) (write func(M) error, err error)) {
	s.serveHTTP(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		if coding != codec.Identity {
			w.Header().Set("Content-Encoding", string(coding))
		}
		w.WriteHeader(http.StatusOK)
		m := &mailbox[M]{answer: http.NewResponseController(w), size: size, limit: s.terms.behind, ready: make(chan struct{}, 1)}
		defer m.close()
		defer s.Add(m)()
		write, err := begin(w)
		if errors.Join(err, m.answer.Flush()) != nil {
			panic(http.ErrAbortHandler) // the stream has no other end
		}
		for {
			select {
			case <-m.ready:
			case <-r.Context().Done():
				return
			}
			for message, more := m.next(); more; message, more = m.next() {
				if errors.Join(write(message), m.answer.Flush()) != nil {
					panic(http.ErrAbortHandler)
				}
			}
		}
	})
}

// A mailbox is what a handler has still to write.
type mailbox[M any] struct {
	answer *http.ResponseController
	size   func(M) int // in bytes, of a message
	limit  int
	ready  chan struct{} // something was put in

	mu      sync.Mutex
	waiting []M
	full    int  // bytes
	first   [1]M // what waiting begins with: mostly one is all there is
	closed  bool
}

// Send puts a message in. A client whose mailbox is full has its answer cut
// off: over HTTP/1.1 that is its connection, over HTTP/2 its stream.
func (m *mailbox[M]) Send(message M) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return net.ErrClosed
	}
	if m.full+m.size(message) > m.limit {
		m.closed = true
		m.answer.SetWriteDeadline(time.Unix(1, 0))
		return errBehind
	}
	m.full += m.size(message)
	m.waiting = append(m.waiting, message)
	select {
	case m.ready <- struct{}{}:
	default:
	}
	return nil
}

// next takes a message out.
func (m *mailbox[M]) next() (message M, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		m.waiting = m.first[:0]
		return message, false
	}
	message = m.waiting[0]
	clear(m.waiting[:1])
	m.waiting = m.waiting[1:]
	m.full -= m.size(message)
	return message, true
}

// close keeps Send from an answer whose handler has returned.
func (m *mailbox[M]) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}
