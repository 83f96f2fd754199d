package transport

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"pushcost/internal/codec"
	"pushcost/internal/hub"
)

// What all WebSockets (RFC 6455) have in common; gorilla.go, coder.go and
// gws.go say how each library does it.

// largestMessage is what a server reads from a client at most, in bytes.
const largestMessage = 1 << 20

// Codes of Close frames.
const (
	closeGoingAway = 1001 // RFC 6455, section 7.4.1
	closeGone      = 4410 // for private use (7.4.2): the log has moved past this subscriber, as an HTTP 410 says
)

// ended is why there is no further message, with the code of the Close frame
// if there was one.
func ended(err error, code int) error {
	if code == closeGone {
		return fmt.Errorf("%w: %w", hub.ErrGone, err)
	}
	return err
}

// A socket is a WebSocket as a library gives it.
type socket interface {
	send(data []byte, text bool) error
	ping() error
	read() ([]byte, error)         // the next message; pings are answered meanwhile
	leave(code int, reason string) // with a Close frame
	close()
}

// serveWebSocket serves one message an event.
func serveWebSocket(upgrade func(http.ResponseWriter, *http.Request, codec.Name) (socket, error)) func(context.Context, net.Listener, *hub.Hub, Options) error {
	return func(ctx context.Context, ln net.Listener, h *hub.Hub, o Options) error {
		return ServeHTTP(ctx, ln, o, func(w http.ResponseWriter, r *http.Request) {
			log, after, ok := subscription(w, r, h, o, r.FormValue("cursor"))
			if !ok {
				return
			}
			s, err := upgrade(w, r, o.Codec)
			if err != nil {
				return // the library has answered
			}
			ctx, cancel := context.WithCancel(r.Context())
			gone := make(chan struct{})
			asides := make(chan func() error)
			go func() { // after an upgrade only a reader notices that the client left
				defer close(gone)
				defer cancel()
				for {
					data, err := s.read()
					if err != nil {
						return
					}
					refusal := o.message(r, data)
					if refusal == nil {
						continue
					}
					select { // until it is told, nothing more is read: a client that does not listen is not listened to
					case asides <- func() error { return s.send(refusal.encode(), true) }:
					case <-ctx.Done():
						return
					}
				}
			}()
			err = follow(ctx, log, after, o.Heartbeat, socketSink{s}, asides)
			switch {
			case errors.Is(err, hub.ErrGone):
				s.leave(closeGone, err.Error())
			case r.Context().Err() != nil: // over HTTP/2 the connection is closed already
				s.leave(closeGoingAway, "the server stops")
			}
			s.close()
			<-gone
		})
	}
}

type socketSink struct{ socket }

func (s socketSink) event(e hub.Event) error { return s.send(e.Data, utf8.Valid(e.Data)) }
func (s socketSink) beat() error             { return s.ping() }

// openWebSocket opens one; dial is given the path to ask for.
func openWebSocket(dial func(ctx context.Context, c *Client, path string) (socket, http.Header, error)) func(context.Context, *Client, uint64) (Stream, error) {
	return func(ctx context.Context, c *Client, after uint64) (Stream, error) {
		path := c.path("/ws")
		if after > 0 {
			path += "?cursor=" + strconv.FormatUint(after, 10)
		}
		c.Count()
		s, answer, err := dial(ctx, c, path)
		if err != nil {
			return nil, fmt.Errorf("ws: %w", err)
		}
		if err := Negotiated(answer.Get("Sec-Websocket-Extensions"), c.Codec); err != nil {
			s.close()
			return nil, fmt.Errorf("ws: %w", err)
		}
		return &socketStream{socket: s, last: after, stop: context.AfterFunc(ctx, s.close)}, nil
	}
}

// Negotiated checks that the extensions of a server's answer are the compression
// asked for (RFC 7692, section 7).
func Negotiated(extensions string, want codec.Name) error {
	got := codec.Identity
	if strings.Contains(extensions, "permessage-deflate") {
		got = codec.Deflate
		if strings.Contains(extensions, "server_no_context_takeover") {
			got = codec.DeflateNoTakeover
		}
	}
	if got != want {
		return fmt.Errorf("asked for compression %q, got %q (%s)", want, got, extensions)
	}
	return nil
}

type socketStream struct {
	socket
	last uint64
	stop func() bool
}

func (s *socketStream) Next() (hub.Event, error) {
	data, err := s.read()
	if err != nil {
		return hub.Event{}, fmt.Errorf("ws: after event %d: %w", s.last, err)
	}
	if refusal := decodeRefusal(data); refusal != nil {
		return hub.Event{}, refusal
	}
	s.last++
	return hub.Event{ID: s.last, Data: data}, nil
}

// Send sends a message. Its acknowledgement comes at once and says nothing: a
// WebSocket has none.
func (s *socketStream) Send(data []byte) (ack func() error, err error) {
	if err := s.send(data, utf8.Valid(data)); err != nil {
		return nil, fmt.Errorf("ws: %w", err)
	}
	return func() error { return nil }, nil
}

func (s *socketStream) Close() error {
	s.stop()
	s.close()
	return nil
}

// upgradeHeader is the client's header without what the upgrade sets itself.
func upgradeHeader(c *Client) http.Header {
	h := c.Header.Clone()
	h.Del("Connection")
	return h
}

// wsURL is a URL in the scheme of WebSocket libraries.
func wsURL(c *Client, path string) string {
	return "ws" + strings.TrimPrefix(c.URL, "http") + path
}

// AcceptKey is the answer to a Sec-WebSocket-Key (RFC 6455, section 4.2.2).
func AcceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// notUpgraded adds what the server answered instead of upgrading.
func notUpgraded(err error, resp *http.Response) error {
	if resp == nil || resp.Body == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, refused(resp))
}
