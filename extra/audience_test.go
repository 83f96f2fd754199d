package extra

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lxzan/gws"
	"github.com/stretchr/testify/require"

	"pushcost/internal/board"
	"pushcost/internal/codec"
	"pushcost/internal/eventstream"
	"pushcost/internal/feed"
	"pushcost/internal/room"
)

// An audience is a page with streams that share an encoder.
type audience struct {
	page
	coding  codec.Name
	enc     *room.Encoder
	opened  chan func([]byte) error // writes to the stream that was opened last
	members []member
	last    []byte // payload
	sent    int
	seen    int
}

type member struct {
	*room.Subscriber
	write func([]byte) error
	want  []string // what was sent and not seen yet
}

func newAudience(t *testing.T, coding codec.Name) *audience {
	enc, err := room.NewEncoder(coding, room.Options{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	a := &audience{coding: coding, enc: enc, opened: make(chan func([]byte) error, 1)}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.page = open(t, server.URL+"/page")
	return a
}

// ServeHTTP opens streams.
func (a *audience) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", string(a.coding))
		flush := http.NewResponseController(w).Flush
		flush()
		a.opened <- func(wire []byte) error {
			_, err := w.Write(wire)
			return errors.Join(err, flush())
		}
		<-r.Context().Done()
	case "/ws":
		c, err := upgrader.Upgrade(w, r)
		if err != nil {
			return // the library has answered
		}
		a.opened <- func(wire []byte) error {
			_, err := c.NetConn().Write(wire)
			return err
		}
		c.ReadLoop() // drops what comes up
	default:
		http.NotFound(w, r)
	}
}

// upgrader agrees to windows of 2^15 bytes and to context takeover.
var upgrader = gws.NewUpgrader(&gws.BuiltinEventHandler{}, &gws.ServerOption{PermessageDeflate: gws.PermessageDeflate{
	Enabled:               true,
	ServerContextTakeover: true,
	ClientContextTakeover: true,
	ServerMaxWindowBits:   15,
	ClientMaxWindowBits:   15,
}})

// join opens another stream, which sees the last event.
func (a *audience) join() {
	n := len(a.members)
	if a.coding == codec.Deflate {
		a.run(`dial('%d', '/ws')`, n)
	} else {
		a.run(`listen('%d', '/events')`, n)
	}
	a.sees(fmt.Sprint(n), "open")
	sub, wire := a.enc.Join()
	a.members = append(a.members, member{Subscriber: sub, write: <-a.opened})
	if a.last == nil {
		require.NoError(a, a.members[n].write(wire))
	} else {
		a.send(n, wire, a.last)
	}
	a.see()
}

// publish encodes an event for all members but those who miss it. Whoever gets
// a private one gets it first, then all get a heartbeat.
func (a *audience) publish(payload []byte, fate func(n int) (missed, private bool)) {
	chunk := a.enc.Encode(a.event(payload))
	for n, m := range a.members {
		missed, private := fate(n)
		if private {
			secret := fmt.Appendf(nil, "for %d alone", n)
			a.send(n, m.Private(a.event(secret)), secret)
		}
		require.NoError(a, m.write(a.enc.Beat()))
		if !missed {
			a.send(n, m.Next(chunk), payload)
		}
	}
	a.last = payload
	a.see()
}

// event is what is encoded of a payload: a WebSocket's message is one.
func (a *audience) event(payload []byte) []byte {
	if a.coding == codec.Deflate {
		return payload
	}
	return eventstream.AppendEvent(nil, "", payload)
}

func (a *audience) send(n int, wire, payload []byte) {
	require.NoError(a, a.members[n].write(wire))
	a.members[n].want = append(a.members[n].want, string(payload))
	a.sent++
}

// see waits until the page has seen all that was sent.
func (a *audience) see() {
	for ; a.seen < a.sent; a.seen++ {
		got := a.next()
		require.Equal(a, "message", got.Saw)
		var n int
		_, err := fmt.Sscan(got.Stream, &n)
		require.NoError(a, err)
		m := &a.members[n]
		require.NotEmpty(a, m.want, "stream %d sees more than it was sent", n)
		require.True(a, m.want[0] == got.Text, "stream %d sees byte for byte what it was sent", n)
		m.want = m.want[1:]
	}
}

// payloads are rows, whole boards and trades, one kind after the other.
func payloads(t *testing.T) (all [][]byte) {
	for _, patches := range []struct {
		kind board.Patch
		n    int
	}{{board.Row, 40}, {board.Whole, 2}} {
		rooms := board.NewRooms(board.Utility, patches.kind, "lobby")
		for _, c := range board.Script(patches.n, board.Rows) {
			html, err := rooms.Do("lobby", c.Row, c.Nonce)
			require.NoError(t, err)
			all = append(all, html)
		}
	}
	return append(all, feed.Trades()[:60]...)
}
