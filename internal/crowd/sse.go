package crowd

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"pushcost/internal/codec"
	"pushcost/internal/eventstream"
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
		serve:  serveSSE(same, nil, encodeEvent),
	},
	{
		Transport: "sse", Lib: "encoded", Over: []transport.HTTP{transport.HTTP1, transport.HTTP2}, TLS: true,
		serve: serveSSE(event, comment, func(_, message []byte) []byte { return message }),
	},
}

func event(data []byte) []byte { return eventstream.AppendEvent(nil, "", data) }

var comment = eventstream.AppendComment(nil)

// encodeEvent is what a handler makes of a message, in its buffer: an event, or
// a heartbeat of nil.
func encodeEvent(buf, message []byte) []byte {
	if message == nil {
		return eventstream.AppendComment(buf)
	}
	return eventstream.AppendEvent(buf, "", message)
}

// serveSSE serves with net/http as everybody does: a handler stays with each
// client and writes what comes into its mailbox. A message is encoded by
// encode, once, or by every handler into a buffer of its own, which is the only
// one to be written to.
func serveSSE(encode func([]byte) []byte, beat []byte, each func(buf, message []byte) []byte) func(*door) (Server, error) {
	return func(d *door) (Server, error) {
		coding, ok := windows[d.setup.Codec]
		if !ok {
			coding.Name = d.setup.Codec
		}
		s := &server[[]byte]{door: d, encode: encode, beat: beat}
		d.serveHTTP(func(w http.ResponseWriter, r *http.Request) {
			body, err := coding.NewWriter(w)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-store")
			if coding.Name != codec.Identity {
				w.Header().Set("Content-Encoding", string(coding.Name))
			}
			w.WriteHeader(http.StatusOK)
			m := &mailbox{answer: http.NewResponseController(w), limit: d.terms.behind, ready: make(chan struct{}, 1)}
			if m.answer.Flush() != nil {
				return
			}
			defer m.close()
			defer s.Add(m)()
			var buf []byte
			for {
				select {
				case <-m.ready:
				case <-r.Context().Done():
					return
				}
				for message, more := m.next(); more; message, more = m.next() {
					buf = each(buf[:0], message)
					_, err := body.Write(buf)
					if errors.Join(err, body.Flush(), m.answer.Flush()) != nil {
						panic(http.ErrAbortHandler) // the stream has no other end
					}
				}
			}
		})
		return s, nil
	}
}

// A mailbox is what a handler has still to write.
type mailbox struct {
	answer *http.ResponseController
	limit  int           // of bytes
	ready  chan struct{} // something was put in

	mu      sync.Mutex
	waiting [][]byte
	size    int
	first   [1][]byte // what waiting begins with: mostly one is all there is
	closed  bool
}

// Send puts a message in. A client whose mailbox is full has its answer cut
// off: over HTTP/1.1 that is its connection, over HTTP/2 its stream.
func (m *mailbox) Send(message []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return http.ErrHandlerTimeout
	}
	if m.size+len(message) > m.limit {
		m.closed = true
		m.answer.SetWriteDeadline(time.Unix(1, 0))
		return errBehind
	}
	m.size += len(message)
	m.waiting = append(m.waiting, message)
	select {
	case m.ready <- struct{}{}:
	default:
	}
	return nil
}

// next takes a message out.
func (m *mailbox) next() (message []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		m.waiting = m.first[:0]
		return nil, false
	}
	message = m.waiting[0]
	m.waiting[0] = nil
	m.waiting = m.waiting[1:]
	m.size -= len(message)
	return message, true
}

// close keeps Send from an answer whose handler has returned.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}
