package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"pushcost/internal/codec"
	"pushcost/internal/hub"
)

// poll is long polling: a request waits at the server ("is parked") until
// there is an event after its cursor; the answer is a JSON array of all there
// are.
var poll = Transport{
	Name:   "poll",
	Over:   []HTTP{HTTP1, HTTP2},
	Codecs: []codec.Name{codec.Gzip, codec.Brotli},
	JSON:   true,
	Serve:  servePoll,
	Open: func(ctx context.Context, c *Client, after uint64) (Stream, error) {
		return &pollStream{poster: poster{ctx, c}, after: after}, nil
	},
}

func servePoll(ctx context.Context, ln net.Listener, h *hub.Hub, o Options) error {
	if _, err := newBody(o.Codec); err != nil {
		return err
	}
	bodies := sync.Pool{New: func() any { b, _ := newBody(o.Codec); return b }}
	return ServeHTTP(ctx, ln, o, o.orCommand(func(w http.ResponseWriter, r *http.Request) {
		log, after, ok := subscription(w, r, h, o, r.FormValue("cursor"))
		if !ok {
			return
		}
		events, err := await(r.Context(), log, after, o.Heartbeat)
		if err != nil {
			noEvents(w, err)
			return
		}
		b := bodies.Get().(*body)
		defer bodies.Put(b)
		b.fill(events)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Length", strconv.Itoa(b.Len())) // or a large one would be chunked
		if o.Codec != codec.Identity {
			w.Header().Set("Content-Encoding", string(o.Codec))
		}
		w.Write(b.Bytes())
	}))
}

// await parks until there are events after the cursor. Without any it gives
// up when a heartbeat is due, before somebody in between loses patience.
func await(ctx context.Context, log *hub.Log, after uint64, heartbeat time.Duration) ([]hub.Event, error) {
	var due <-chan time.Time
	if heartbeat > 0 {
		t := time.NewTimer(heartbeat)
		defer t.Stop()
		due = t.C
	}
	for {
		events, more, err := log.Since(after)
		if len(events) > 0 || err != nil {
			return events, err
		}
		select {
		case <-more:
		case <-due:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A body is an answer being made. It is used again, since an encoder is far
// larger than what it encodes.
type body struct {
	bytes.Buffer
	enc codec.Writer
}

func newBody(coding codec.Name) (b *body, err error) {
	b = new(body)
	b.enc, err = codec.NewWriter(coding, &b.Buffer)
	return b, err
}

// fill makes the body a JSON array of the events.
func (b *body) fill(events []hub.Event) { // writes go to memory: none of them fails
	b.Reset()
	b.enc.Reset(&b.Buffer)
	io.WriteString(b.enc, "[")
	for i, e := range events {
		if i > 0 {
			io.WriteString(b.enc, ",")
		}
		b.enc.Write(e.Data)
	}
	io.WriteString(b.enc, "]")
	b.enc.Close()
}

type pollStream struct {
	poster
	after  uint64 // the last event returned
	events []json.RawMessage
}

func (s *pollStream) Next() (hub.Event, error) {
	for len(s.events) == 0 {
		if err := s.ask(); err != nil {
			return hub.Event{}, fmt.Errorf("poll: cursor %d: %w", s.after, err)
		}
	}
	e := hub.Event{ID: s.after + 1, Data: s.events[0]}
	s.after, s.events = e.ID, s.events[1:]
	return e, nil
}

func (s *pollStream) ask() error {
	resp, err := s.client.get(s.ctx, s.client.path("/poll?cursor="+strconv.FormatUint(s.after, 10)), s.client.Header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := codec.NewReader(s.client.Codec, resp.Body)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var events []json.RawMessage
	if err := json.Unmarshal(text, &events); err != nil {
		return fmt.Errorf("the answer is not a JSON array: %w: %.60q", err, text)
	}
	s.events = events
	return nil
}

func (s *pollStream) Close() error { return nil }
