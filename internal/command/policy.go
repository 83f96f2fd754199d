package command

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"pushcost/internal/board"
	"pushcost/internal/transport"
)

// MaxBytes is the size of the largest command that is handled.
const MaxBytes = 4 << 10

// A Policy is what stands between a client and a handler. The zero Policy lets
// everything through that is a command for a row that exists.
type Policy struct {
	// Client names the client that sends a request, or that opened a WebSocket
	// with it; otherwise the request is nobody's, and refused with 401. Nil: all
	// are one client, without a name. See [Tokens].
	Client func(*http.Request) (name string, ok bool)

	// Origins refuses what a page from elsewhere sends, and to such a page its
	// stream, with 403. Nil: nothing.
	Origins *http.CrossOriginProtection

	Rate  *Rate  // how often a client may: else 429; nil: always
	Order *Order // in which order its POSTs are applied; nil: as they come

	Log *slog.Logger // a line for each command; nil: none
}

// Tokens is a [Policy]'s Client: the one whose token a request bears in its
// Authorization, or else in the cookie "session".
func Tokens(clients map[string]string) func(*http.Request) (name string, ok bool) {
	type digest = [sha256.Size]byte // looked up instead of the token, whose letters a look-up's time could tell
	known := map[digest]string{}
	for token, name := range clients {
		known[sha256.Sum256([]byte(token))] = name
	}
	return func(r *http.Request) (name string, ok bool) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			cookie, err := r.Cookie("session")
			if err != nil {
				return "", false
			}
			token = cookie.Value
		}
		name, ok = known[sha256.Sum256([]byte(token))]
		return name, ok
	}
}

// Admit is whether a client may open a stream, see [transport.Options]. For a
// WebSocket it is where the origin is looked at: its messages have none.
func (p Policy) Admit(r *http.Request) *transport.Refusal {
	if p.Origins != nil {
		post := *r // a cross-origin check lets a GET pass, but a WebSocket's does what a POST does
		post.Method = http.MethodPost
		if err := p.Origins.Check(&post); err != nil {
			return &transport.Refusal{Status: http.StatusForbidden, Text: err.Error()}
		}
	}
	_, refusal := p.client(r)
	return refusal
}

// Post answers POSTs to /commands, or in a room to /{room}/commands: with 204
// once a command is applied, and otherwise with a [transport.Refusal]'s status
// and text. What it does not let through, middleware stops.
func Post(h Handler, p Policy) http.Handler {
	take := func(w http.ResponseWriter, r *http.Request) {
		// The reader has net/http's own writer close the connection of who sends too much.
		data, err := io.ReadAll(http.MaxBytesReader(w.(*answer).ResponseWriter, r.Body, MaxBytes))
		if err == nil {
			err = p.execute(h, r.Context().Value(clientKey{}).(string), r, data)
		}
		if refusal := refuse(err); refusal != nil {
			http.Error(w, refusal.Text, refusal.Status)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /commands", take)
	mux.HandleFunc("POST /{room}/commands", take)
	return p.logged(p.sameOrigin(p.authorized(p.limited(mux))))
}

type clientKey struct{} // of the client's name in a request's context

func (p Policy) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin, answer := time.Now(), &answer{ResponseWriter: w}
		next.ServeHTTP(answer, r)
		p.log(r, r.Method, answer.status, begin)
	})
}

// An answer remembers its status.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (p Policy) sameOrigin(next http.Handler) http.Handler {
	if p.Origins == nil {
		return next
	}
	return p.Origins.Handler(next)
}

func (p Policy) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, err := p.client(r)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Text, err.Status)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, client)))
	})
}

func (p Policy) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if after, err := p.Rate.take(r.Context().Value(clientKey{}).(string)); err != nil {
			w.Header().Set("Retry-After", fmt.Sprint(after))
			http.Error(w, err.Text, err.Status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Message handles a message up a WebSocket that was admitted, see
// [transport.Options]: nil once the command is applied, and otherwise what
// [Post] would have answered. There is no middleware for messages, so each
// step is taken here. Messages come in order, and what one connection has not
// brought it never will: no message waits for a number.
func Message(h Handler, p Policy) func(r *http.Request, data []byte) *transport.Refusal {
	return func(r *http.Request, data []byte) *transport.Refusal {
		begin, status := time.Now(), http.StatusNoContent
		refusal := p.message(h, r, data)
		if refusal != nil {
			status = refusal.Status
		}
		p.log(r, "message", status, begin)
		return refusal
	}
}

func (p Policy) message(h Handler, r *http.Request, data []byte) *transport.Refusal {
	p.Order = nil
	client, refusal := p.client(r)
	if refusal != nil {
		return refusal
	}
	if _, refusal := p.Rate.take(client); refusal != nil {
		return refusal
	}
	if len(data) > MaxBytes {
		return refuse(&http.MaxBytesError{Limit: MaxBytes})
	}
	return refuse(p.execute(h, client, r, data))
}

func (p Policy) client(r *http.Request) (name string, refusal *transport.Refusal) {
	if p.Client == nil {
		return "", nil
	}
	name, ok := p.Client(r)
	if !ok {
		return "", &transport.Refusal{Status: http.StatusUnauthorized, Text: "who are you? neither a bearer token nor a session that is known"}
	}
	return name, nil
}

// execute hands a command to the handler, in its turn.
func (p Policy) execute(h Handler, client string, r *http.Request, data []byte) error {
	c, err := Decode(data)
	if err != nil {
		return &transport.Refusal{Status: http.StatusBadRequest, Text: err.Error()}
	}
	return p.Order.Do(r.Context(), client, c.Seq, func() error { return h(transport.Room(r), c.ID, c.Nonce) })
}

func (p Policy) log(r *http.Request, method string, status int, begin time.Time) {
	if p.Log != nil {
		p.Log.Info("command", "method", method, "room", transport.Room(r), "status", status, "duration", time.Since(begin))
	}
}

// refuse is what a client is told of an error; nil for none.
func refuse(err error) *transport.Refusal {
	var refusal *transport.Refusal
	var tooLarge *http.MaxBytesError
	status := http.StatusInternalServerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &tooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, board.ErrNoRoom), errors.Is(err, board.ErrNoRow):
		status = http.StatusNotFound
	case errors.Is(err, board.ErrNonce):
		status = http.StatusBadRequest
	}
	return &transport.Refusal{Status: status, Text: err.Error()}
}
