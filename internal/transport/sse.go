package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"

	"pushcost/internal/codec"
	"pushcost/internal/eventstream"
	"pushcost/internal/hub"
)

// sse is Server-Sent Events (WHATWG HTML, section 9.2): one answer that does
// not end, flushed per event.
var sse = Transport{
	Name:   "sse",
	Over:   []HTTP{HTTP1, HTTP2},
	Codecs: []codec.Name{codec.Gzip, codec.Brotli, codec.Zstd},
	IDs:    true,
	Serve:  serveSSE,
	Open:   openSSE,
}

func serveSSE(ctx context.Context, ln net.Listener, h *hub.Hub, o Options) error {
	return ServeHTTP(ctx, ln, o, o.orCommand(func(w http.ResponseWriter, r *http.Request) {
		// A page that is loaded again has only its URL to name a cursor in. An
		// EventSource that then reconnects repeats it, so the header counts.
		log, after, ok := subscription(w, r, h, o, cmp.Or(r.Header.Get("Last-Event-ID"), r.FormValue("cursor")))
		if !ok {
			return
		}
		body, err := codec.NewWriter(o.Codec, w)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		if o.Unbuffered {
			w.Header().Set("X-Accel-Buffering", "no")
		}
		if o.Codec != codec.Identity {
			w.Header().Set("Content-Encoding", string(o.Codec))
		}
		w.WriteHeader(http.StatusOK)
		s := &sseSink{body: body, ids: o.IDs, flush: http.NewResponseController(w).Flush}
		if s.open(o.Retry) == nil {
			follow(r.Context(), log, after, o.Heartbeat, s, nil)
		}
	}))
}

type sseSink struct {
	body  codec.Writer
	ids   bool
	flush func() error
	buf   []byte
}

// open sends the head of the answer, and in what time to reconnect if that is
// to be told.
func (s *sseSink) open(retry func() time.Duration) error {
	if retry == nil {
		return s.flush()
	}
	s.buf = eventstream.AppendRetry(s.buf[:0], retry())
	return s.write()
}

func (s *sseSink) event(e hub.Event) error {
	id := ""
	if s.ids {
		id = strconv.FormatUint(e.ID, 10)
	}
	s.buf = eventstream.AppendEvent(s.buf[:0], id, e.Data)
	return s.write()
}

func (s *sseSink) beat() error {
	s.buf = eventstream.AppendComment(s.buf[:0])
	return s.write()
}

func (s *sseSink) write() error {
	_, err := s.body.Write(s.buf)
	return errors.Join(err, s.body.Flush(), s.flush())
}

func openSSE(ctx context.Context, c *Client, after uint64) (Stream, error) {
	h := c.Header
	if after > 0 {
		h = with(h, "Last-Event-ID", strconv.FormatUint(after, 10))
	}
	resp, err := c.get(ctx, c.path("/events"), h)
	if err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	// An EventSource refuses anything else (WHATWG HTML, section 9.2.2).
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		resp.Body.Close()
		return nil, fmt.Errorf("sse: the answer is %q, not text/event-stream", kind)
	}
	return &sseStream{poster: poster{ctx, c}, resp: resp, codec: c.Codec, last: after}, nil
}

type sseStream struct {
	poster
	resp   *http.Response
	codec  codec.Name
	events *eventstream.Reader // made by the first Next: a decoder waits for its first bytes
	last   uint64
}

func (s *sseStream) Next() (hub.Event, error) {
	if s.events == nil {
		body, err := codec.NewReader(s.codec, s.resp.Body)
		if err != nil {
			return hub.Event{}, fmt.Errorf("sse: %w", err)
		}
		s.events = eventstream.NewReader(body)
	}
	m, err := s.events.Next()
	if err != nil {
		return hub.Event{}, fmt.Errorf("sse: after event %d: %w", s.last, err)
	}
	s.last++
	if m.ID != "" {
		if s.last, err = strconv.ParseUint(m.ID, 10, 64); err != nil {
			return hub.Event{}, fmt.Errorf("sse: id %q is not a number", m.ID)
		}
	}
	return hub.Event{ID: s.last, Data: m.Data}, nil
}

// Retry is the reconnection time that the server told, if any.
func (s *sseStream) Retry() (time.Duration, bool) {
	if s.events == nil {
		return 0, false
	}
	return s.events.Retry()
}

func (s *sseStream) Close() error { return s.resp.Body.Close() }
