package pushcost

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/board"
	"pushcost/internal/command"
	"pushcost/internal/hub"
	"pushcost/internal/measure"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
	"pushcost/internal/virtual"
)

// What it costs that commands and patches take different ways: sections 5 and
// 6 of the document "SSE + CQRS vs WebSockets". The order on the wire is that
// in which the server reads its sockets, the order of application that of the
// patches. What the network does is exact in virtual time; what goroutines do
// shows on real sockets.

// twoWays are the architectures: both ways on one connection, or POSTs beside
// a stream.
const twoWays = "transport=ws/http=1.1/headers=bare transport=sse/http=1.1|2/headers=bare"

// threeWays has long polling and POSTs too.
const threeWays = twoWays + " transport=poll/http=1.1|2/headers=bare"

// far is a round trip of 100 ms, in virtual time. Microseconds between the
// commands of a burst keep them from arriving at one instant.
var far = measure.BurstPlan{Path: netpath.Symmetric(50 * time.Millisecond), Every: 7 * time.Microsecond}

// bursts sends the document's 400 commands over a setup.
func bursts(tb testing.TB, s setup.Setup, p measure.BurstPlan) (b measure.Bursts) {
	tb.Helper()
	require.NoError(tb, experiment(s, func(ctx context.Context) (err error) {
		b, err = measure.Burst(ctx, s, p)
		return err
	}))
	require.Equal(tb, 400, b.Sent)
	assert.Equal(tb, 400, b.Delivered, "every command has its patch")
	return b
}

// onSockets is a setup on loopback, without delay.
func onSockets(s setup.Setup) setup.Setup {
	s.Net = "loopback"
	return s
}

// C12: bursts of un-awaited commands are read in the order of sending where they
// share a connection: over a WebSocket and over HTTP/2, at any round trip. What
// comes on five connections of HTTP/1.1 without a delay is read in the order in
// which Go's poller wakes their goroutines, which is the last first as a rule;
// at 100 ms they come apart. Beside long polling it is the same as beside SSE.
// Nothing is lost. But net/http runs the requests of HTTP/2 in goroutines too,
// which on real sockets apply them in another order.
func TestOrderingOnTheWire(t *testing.T) {
	run(t, threeWays, func(t *testing.T, s setup.Setup) {
		b := bursts(t, s, far)
		assert.Zero(t, b.Wire, "at 100 ms")
		assert.Zero(t, b.Applied, "where goroutines cost nothing")
		b = bursts(t, onSockets(s), measure.BurstPlan{})
		if oneConnection := s.Transport == "ws" || s.HTTP == transport.HTTP2; oneConnection {
			assert.Zero(t, b.Wire, "at 0 ms")
		}
		t.Logf("at 0 ms, of 1,800 pairs: %d inverted on the wire, %d applied so", b.Wire, b.Applied)
	})
}

// C12b: with sequence numbers and a buffer for ten commands, the order of
// application is that of sending everywhere. Without it, handlers that take up
// to 20 ms to begin invert it, over HTTP/2 as well. A WebSocket's messages,
// read one after the other, need no buffer.
func TestOrderingWithABuffer(t *testing.T) {
	run(t, threeWays, func(t *testing.T, s setup.Setup) {
		slow := far
		slow.Jitter, slow.Seed = 20*time.Millisecond, rand.Uint64()
		t.Logf("seed %d", slow.Seed)
		if inverted := bursts(t, s, slow).Applied; s.Transport == "ws" {
			assert.Zero(t, inverted, "messages are handled one by one")
		} else {
			assert.Greater(t, inverted, 180, "a tenth of all pairs, without the buffer")
		}
		slow.Buffer = true
		assert.Zero(t, bursts(t, s, slow).Applied, "with the buffer, and the same jitter")
		assert.Zero(t, bursts(t, onSockets(s), measure.BurstPlan{Buffer: true}).Applied, "on real sockets")
	})
}

// C13: a POST has a status, a round trip later. A WebSocket's send has no
// answer: it returns at once whatever becomes of the command, and a refusal is
// a message like any other, for the client to match.
func TestOrderingAnswers(t *testing.T) {
	const rtt = 100 * time.Millisecond
	run(t, twoWays, func(t *testing.T, s setup.Setup) {
		talk(t, s, netpath.Symmetric(rtt/2), command.Policy{}, func(server measure.Server, _ *hub.Hub) error {
			stream, err := server.Open(server.Client("r1"), 0)
			if err != nil {
				return err
			}
			begin := time.Now()
			ack, err := stream.Send(row(board.Rows))
			if err != nil {
				return err
			}
			var refusal *transport.Refusal
			if err = ack(); s.Transport == "ws" {
				assert.NoError(t, err, "it says nothing")
				assert.Zero(t, time.Since(begin), "at once")
				_, err = stream.Next()
			}
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, http.StatusNotFound, refusal.Status)
			want := rtt
			if s.Transport == "sse" && s.HTTP == transport.HTTP1 {
				want += rtt // for a connection
			}
			assert.Equal(t, want, time.Since(begin), "the answer takes a round trip")
			return nil
		})
	})
}

// C14: a POST's answer and the patch it caused leave at the same time, and the
// network does not order them: the difference is 0 ns. Over HTTP/1.1, where they
// have connections of their own, it is positive if each of these is slow, since
// an answer is smaller, and of either sign if they jitter; on real sockets it is
// some microseconds of software. So a page is driven by patches, not by answers.
func TestOrderingOfAnswerAndPatch(t *testing.T) {
	run(t, twoWays, func(t *testing.T, s setup.Setup) {
		got := bursts(t, s, far).AckToPatch
		if s.Transport == "ws" {
			assert.Empty(t, got, "a WebSocket has no answers")
			return
		}
		assert.Equal(t, constant(400, 0), got)
		wall := bursts(t, onSockets(s), measure.BurstPlan{}).AckToPatch
		slices.Sort(wall)
		require.Len(t, wall, 400)
		t.Logf("on loopback, from answer to patch: %v, median %v, %v", wall[0], wall[200], wall[399])
	})
	h1 := cell(t, "transport=sse/http=1.1/headers=bare")
	slow := far
	slow.Path.Down.Rate = 100_000
	assert.Positive(t, slices.Min(bursts(t, h1, slow).AckToPatch), "every answer comes before its patch")
	jittery := far
	jittery.Path.Down.Jitter = 20 * time.Millisecond
	got := bursts(t, h1, jittery).AckToPatch
	assert.Negative(t, slices.Min(got), "a patch comes before its answer")
	assert.Positive(t, slices.Max(got), "another comes after it")
}

// C15: the handler is a function of (room, id, nonce): called from a route, a
// timer, a webhook or a WebSocket it causes the same patches. And one registry
// serves both architectures at once: what is posted beside SSE comes down a
// WebSocket, and the other way round.
func TestOrderingHandlerIsAFunction(t *testing.T) {
	var want [][]byte
	for _, caller := range []string{"a call", "a route", "a timer", "a webhook", "a message"} {
		h, handler := rooms()
		call := map[string]func(c board.Command) error{
			"a call": func(c board.Command) error { return handler("r1", c.Row, c.Nonce) },
			"a route": func(c board.Command) error {
				w := httptest.NewRecorder()
				command.Post(handler, command.Policy{}).ServeHTTP(w, httptest.NewRequest("POST", "/r1/commands", bytes.NewReader(encode(c))))
				return status(w, http.StatusNoContent)
			},
			"a timer": func(c board.Command) error {
				done := make(chan error)
				time.AfterFunc(37*time.Minute+11*time.Second, func() { done <- handler("r1", c.Row, c.Nonce) })
				return <-done
			},
			"a webhook": func(c board.Command) error {
				hook := func(w http.ResponseWriter, r *http.Request) {
					id, _ := strconv.Atoi(r.FormValue("order"))
					if err := handler("r1", id, r.FormValue("delivery")); err != nil {
						http.Error(w, err.Error(), http.StatusInternalServerError)
					}
				}
				w := httptest.NewRecorder()
				hook(w, httptest.NewRequest("POST", fmt.Sprintf("/paid?order=%d&delivery=%s", c.Row, c.Nonce), nil))
				return status(w, http.StatusOK)
			},
			"a message": func(c board.Command) error {
				if refusal := command.Message(handler, command.Policy{})(httptest.NewRequest("GET", "/r1/ws", nil), encode(c)); refusal != nil {
					return refusal
				}
				return nil
			},
		}[caller]
		require.NoError(t, virtual.Run(func(context.Context) (err error) {
			for _, c := range board.Script(20, board.Rows) {
				err = errors.Join(err, call(c))
			}
			return err
		}))
		events, _, err := h.Room("r1").Since(0)
		require.NoError(t, err)
		var patches [][]byte
		for _, e := range events {
			patches = append(patches, e.Data)
		}
		if want == nil {
			want = patches
		}
		require.Len(t, patches, 20)
		assert.Equal(t, want, patches, "the patches of %s", caller)
	}

	require.NoError(t, virtual.Run(func(ctx context.Context) error {
		h, handler := rooms()
		options := transport.Options{Commands: command.Post(handler, command.Policy{}), Message: command.Message(handler, command.Policy{})}
		return measure.Serve(ctx, cell(t, "transport=ws/http=1.1/headers=bare"), netpath.Path{}, h, options, func(sockets measure.Server) error {
			return measure.Serve(ctx, cell(t, "transport=sse/http=2/headers=bare"), netpath.Symmetric(time.Millisecond), h, options, func(streams measure.Server) error {
				ws, err := sockets.Open(sockets.Client("r1"), 0)
				require.NoError(t, err)
				sse, err := streams.Open(streams.Client("r1"), 0)
				require.NoError(t, err)
				for i, sender := range []transport.Stream{ws, sse} {
					_, err := sender.Send(row(i))
					require.NoError(t, err)
					for _, receiver := range []transport.Stream{ws, sse} {
						patch, err := receiver.Next()
						require.NoError(t, err)
						assert.Equal(t, uint64(i+1), patch.ID)
						assert.Contains(t, string(patch.Data), fmt.Sprintf("nonce-%d", i))
					}
				}
				return nil
			})
		})
	}))
}

// guarded is a policy with everything: sessions, no commands from other
// origins, one command a second, a log.
func guarded(log io.Writer) command.Policy {
	return command.Policy{
		Client:  command.Tokens(map[string]string{"secret": "alice", "password": "bob"}),
		Origins: http.NewCrossOriginProtection(),
		Rate:    command.NewRate(1, 1),
		Log:     slog.New(slog.NewTextHandler(log, nil)),
	}
}

// C16: who may open a stream is a matter of its request on either way: a wrong
// token is refused with 401, a page from elsewhere with 403, and so are their
// POSTs. (A cross-origin check lets a WebSocket's GET pass, unless asked as for a
// POST: gorilla and coder would look at Origin themselves, gws would not.)
func TestOrderingAdmission(t *testing.T) {
	for _, c := range []struct {
		field, value string
		status       int
	}{{"Authorization", "Bearer guess", 401}, {"Authorization", "secret", 401}, {"Origin", "https://evil.example", 403}} {
		run(t, "transport=ws/lib=gorilla|coder|gws/http=1.1/headers=bare transport=sse/http=1.1|2/headers=bare", func(t *testing.T, s setup.Setup) {
			talk(t, s, netpath.Symmetric(time.Millisecond), guarded(io.Discard), func(server measure.Server, _ *hub.Hub) error {
				client := server.Client("r1")
				client.Header = http.Header{"Authorization": {"bearer secret"}} // a scheme's case does not matter
				stream, err := server.Open(client, 0)
				require.NoError(t, err, "a known client of this origin is admitted")
				client.Header.Set(c.field, c.value)
				_, err = server.Open(client, 0)
				assert.ErrorContains(t, err, strconv.Itoa(c.status), "%s: %s", c.field, c.value)
				if s.Transport == "sse" {
					refusal, err := tell(stream, row(1))
					require.NoError(t, err)
					require.NotNil(t, refusal)
					assert.Equal(t, c.status, refusal.Status, "a POST of %s: %s", c.field, c.value)
				}
				return nil
			})
		})
	}
}

// C16: what the write path gets from being HTTP. Standard middleware refuses a
// POST with a status; a WebSocket does it by hand, message by message, and here
// with the same status and text.
func TestOrderingRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		room     string
		commands [][]byte // the last one is refused
		status   int
		text     string
	}{
		"malformed": {commands: [][]byte{[]byte(`{"id":`)}, status: 400, text: "command: unexpected EOF"},
		"field":     {commands: [][]byte{[]byte(`{"row":1,"nonce":"a"}`)}, status: 400, text: `command: json: unknown field "row"`},
		"trailing":  {commands: [][]byte{append(row(1), row(1)...)}, status: 400, text: "command: there is something behind it"},
		"nonce":     {commands: [][]byte{[]byte(`{"id":1}`)}, status: 400, text: "command: it has no nonce"},
		"markup":    {commands: [][]byte{[]byte(`{"id":1,"nonce":"<b>"}`)}, status: 400, text: "board: not a nonce"},
		"row":       {commands: [][]byte{row(board.Rows)}, status: 404, text: "board: no such row: 179"},
		"room":      {room: "lobby", commands: [][]byte{row(1)}, status: 404, text: `board: no such room: "lobby"`},
		"oversized": {commands: [][]byte{largest(0), largest(1)}, status: 413, text: "http: request body too large"},
		"rate":      {commands: [][]byte{row(1), row(2)}, status: 429, text: "too many commands; the next in 1 s"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, "transport=ws/lib=gws/http=1.1/headers=bare transport=sse/http=1.1|2/headers=bare", func(t *testing.T, s setup.Setup) {
				var log bytes.Buffer
				room, method := cmp.Or(c.room, "r1"), "POST"
				if s.Transport == "ws" {
					method = "message"
				}
				policy := guarded(&log)
				if name == "oversized" {
					policy.Rate = nil
				}
				talk(t, s, netpath.Symmetric(time.Millisecond), policy, func(server measure.Server, _ *hub.Hub) error {
					client := server.Client(room)
					client.Header = http.Header{"Authorization": {"Bearer secret"}}
					stream, err := server.Open(client, 0)
					require.NoError(t, err)
					last := len(c.commands) - 1
					for _, data := range c.commands[:last] {
						refusal, err := tell(stream, data)
						require.NoError(t, err)
						require.Nil(t, refusal, "what comes before is applied")
					}
					refusal, err := tell(stream, c.commands[last])
					require.NoError(t, err)
					require.NotNil(t, refusal)
					assert.Equal(t, c.status, refusal.Status)
					assert.Contains(t, refusal.Text, c.text)
					return nil
				})
				assert.Contains(t, log.String(), fmt.Sprintf("msg=command method=%s room=%s status=%d duration=0s\n", method, room, c.status))
				assert.Equal(t, len(c.commands), strings.Count(log.String(), "\n"), "a line each")
			})
		})
	}
}

// C16: what only HTTP has: a method that is not allowed, and heads that say
// what would be. A cookie is a session on both ways.
func TestOrderingHeads(t *testing.T) {
	_, handler := rooms()
	post := command.Post(handler, guarded(io.Discard))
	ask := func(method, field, value string) *http.Response {
		r := httptest.NewRequest(method, "/r1/commands", bytes.NewReader(row(1)))
		r.Header.Set(field, value)
		w := httptest.NewRecorder()
		post.ServeHTTP(w, r)
		return w.Result()
	}
	assert.Equal(t, "Bearer", ask("POST", "Authorization", "").Header.Get("WWW-Authenticate"), "who comes without a token is told what to bring")
	wrong := ask("PUT", "Cookie", "session=secret")
	assert.Equal(t, http.StatusMethodNotAllowed, wrong.StatusCode)
	assert.Equal(t, "POST", wrong.Header.Get("Allow"))
	tooSoon := ask("POST", "Cookie", "session=secret")
	assert.Equal(t, http.StatusTooManyRequests, tooSoon.StatusCode, "any method counts")
	assert.Equal(t, "1", tooSoon.Header.Get("Retry-After"))
	assert.Equal(t, http.StatusNoContent, ask("POST", "Cookie", "session=password").StatusCode, "alice's commands are not bob's")
}

// C16: a reader that stops reading costs nobody memory. A connection that has
// only TCP's window stops its server when that is full; over HTTP/2 the stream
// has a window of its own, 4 MiB in Go's client, and what else the connection
// carries goes on. The log forgets meanwhile, and the reader is not left with
// a gap: its stream ends, and it is told that its cursor is gone.
func TestOrderingSlowReader(t *testing.T) {
	const window, boards = 256 << 10, 100
	path := netpath.Symmetric(time.Millisecond)
	path.Down.Window = window
	run(t, twoWays, func(t *testing.T, s setup.Setup) {
		limit := int64(window + 8<<10) // and what the client's buffers take
		if s.HTTP == transport.HTTP2 {
			limit = 4<<20 + 8<<10
		}
		talk(t, s, path, command.Policy{}, func(server measure.Server, h *hub.Hub) error {
			client := server.Client("r1")
			stream, err := server.Open(client, 0)
			require.NoError(t, err)
			whole := board.New("r1", board.Utility).HTML()
			for range boards {
				h.Room("r1").Publish(whole)
				time.Sleep(time.Millisecond)
			}
			stuck := server.Count().Down.Bytes
			assert.LessOrEqual(t, stuck, limit, "of %d B", boards*len(whole))
			assert.Greater(t, stuck, limit/2, "it is the window that holds")
			ack, err := stream.Send(row(1))
			require.NoError(t, err)
			assert.NoError(t, ack(), "commands do not wait for the reader")
			time.Sleep(time.Second)
			events, _, err := h.Room("r1").Since(boards)
			require.NoError(t, err)
			assert.Len(t, events, 1, "they are applied")
			assert.LessOrEqual(t, server.Count().Down.Bytes, limit+1<<10, "the server waits on")

			var last uint64
			for err == nil {
				var e hub.Event
				if e, err = stream.Next(); err == nil {
					last = e.ID
					assert.Equal(t, whole, e.Data, "what was under way arrives")
				}
			}
			assert.Less(t, last, uint64(boards-keep), "then the stream ends")
			stream, err = server.Open(client, max(last, 1))
			if err == nil {
				_, err = stream.Next()
			}
			assert.ErrorContains(t, err, "410", "and the reader is told why")
			return nil
		})
	})
}

// C19: chat needs no WebSocket. Two users talk over SSE and POSTs: both see
// every line, in one order, a round trip after it was sent, as over a WebSocket.
func TestOrderingChat(t *testing.T) {
	const rtt = 100 * time.Millisecond
	run(t, twoWays, func(t *testing.T, s setup.Setup) {
		require.NoError(t, virtual.Run(func(ctx context.Context) error {
			h := hub.NewHub(10, "hall")
			var mu sync.Mutex
			chat := board.NewChat(board.Utility)
			say := func(r *http.Request, text []byte) {
				mu.Lock()
				defer mu.Unlock()
				h.Room("hall").Publish(chat.Post(r.Header.Get("User"), string(text)))
			}
			options := transport.Options{
				Commands: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					text, _ := io.ReadAll(r.Body)
					say(r, text)
				}),
				Message: func(r *http.Request, text []byte) *transport.Refusal {
					say(r, text)
					return nil
				},
			}
			return measure.Serve(ctx, s, netpath.Symmetric(rtt/2), h, options, func(server measure.Server) error {
				var users []transport.Stream
				for _, name := range []string{"alice", "bob"} {
					client := server.Client("hall")
					client.Header = http.Header{"User": {name}}
					stream, err := server.Open(client, 0)
					require.NoError(t, err)
					users = append(users, stream)
				}
				for i, line := range []string{"alice: hello", "bob: who is there?", "alice: alice", "bob: alice who?"} {
					author, text, _ := strings.Cut(line, ": ")
					begin := time.Now()
					_, err := users[i%2].Send([]byte(text))
					require.NoError(t, err)
					for _, user := range users {
						seen, err := user.Next()
						require.NoError(t, err)
						assert.Equal(t, uint64(i+1), seen.ID)
						assert.Regexp(t, "<b>"+author+"</b>.*"+regexp.QuoteMeta(text), string(seen.Data))
					}
					if i > 1 { // with the connection there, over HTTP/1.1
						assert.Equal(t, rtt, time.Since(begin), line)
					}
				}
				return nil
			})
		}))
	})
}

// keep is how many events a room of these findings keeps.
const keep = 20

// rooms are a board in room r1 and none in the lobby, and the handler for them.
func rooms() (*hub.Hub, command.Handler) {
	h := hub.NewHub(keep, "r1", "lobby")
	return h, command.OnBoard(board.NewRooms(board.Utility, board.Row, "r1"), h)
}

// talk serves such rooms in virtual time while f runs.
func talk(t *testing.T, s setup.Setup, path netpath.Path, p command.Policy, f func(measure.Server, *hub.Hub) error) {
	t.Helper()
	require.NoError(t, virtual.Run(func(ctx context.Context) error {
		h, handler := rooms()
		options := transport.Options{Admit: p.Admit, Commands: command.Post(handler, p), Message: command.Message(handler, p)}
		return measure.Serve(ctx, s, path, h, options, func(server measure.Server) error { return f(server, h) })
	}))
}

// tell sends a command and waits for its patch, unless it is refused.
func tell(stream transport.Stream, data []byte) (refusal *transport.Refusal, err error) {
	ack, err := stream.Send(data)
	if err == nil {
		err = ack()
	}
	if err == nil {
		_, err = stream.Next()
	}
	if errors.As(err, &refusal) {
		return refusal, nil
	}
	return nil, err
}

// largest is a command of the size that is allowed, and so many bytes more.
func largest(more int) []byte {
	c := row(1)
	return append(bytes.Repeat([]byte(" "), command.MaxBytes+more-len(c)), c...)
}

func encode(c board.Command) []byte { return command.Command{ID: c.Row, Nonce: c.Nonce}.Encode() }

// row is a command for this row.
func row(i int) []byte { return encode(board.Command{Row: i, Nonce: fmt.Sprintf("nonce-%d", i)}) }

func status(w *httptest.ResponseRecorder, want int) error {
	if w.Code != want {
		return fmt.Errorf("%d: %s", w.Code, w.Body)
	}
	return nil
}

// BenchmarkOrdering sends bursts of un-awaited commands (C12, C14): without a
// delay over real sockets, where only the machine's scheduling decides, and
// over a virtual round trip of 100 ms.
func BenchmarkOrdering(b *testing.B) {
	for _, at := range []struct {
		rtt, net string
		plan     measure.BurstPlan
	}{{"rtt=0ms", "/net=loopback", measure.BurstPlan{}}, {"rtt=100ms", "", far}} {
		b.Run(at.rtt, func(b *testing.B) {
			report(b, strings.ReplaceAll(threeWays+" ", " ", at.net+" "), func(b *testing.B, s setup.Setup) []measure.Metric {
				return bursts(b, s, at.plan).Figures()
			})
		})
	}
}
