package extra

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zishang520/socket.io/servers/socket/v3"

	"pushcost/internal/child"
	"pushcost/internal/feed"
	"pushcost/internal/fleet"
	"pushcost/internal/measure"
)

// A use is how much of Socket.IO's machinery a connection uses.
type use string

const (
	websocketOnly use = "websocket" // no Socket.IO at all: the library under it, with its defaults
	unused        use = "unused"
	inRooms       use = "rooms"      // ten, which all are in
	inNamespaces  use = "namespaces" // three beside the main one
	withAcks      use = "acks"       // ten that the client still owes
)

// machinery is a server in a process of its own.
type machinery struct{}

// Start serves, and answers with its address. A client is told "ready" once all
// is in place.
func (machinery) Start(name string, addr *string) error {
	u := use(name)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	*addr = ln.Addr().String()
	if u == websocketOnly {
		go http.Serve(ln, http.HandlerFunc(bareWebSocket))
		return nil
	}
	io := socket.NewServer(nil, nil)
	for i := range 3 {
		io.Of(fmt.Sprint("/", i), nil)
	}
	io.On("connection", func(args ...any) {
		s := args[0].(*socket.Socket)
		for i := range 10 {
			switch u {
			case inRooms:
				s.Join(socket.Room(fmt.Sprint(i)))
			case withAcks:
				s.Emit("question", func([]any, error) {})
			}
		}
		s.Emit("ready")
	})
	go http.Serve(ln, io.ServeHandler(nil))
	return nil
}

func bareWebSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := new(websocket.Upgrader).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	conn.WriteMessage(websocket.TextMessage, []byte(`42["ready"]`)) // a failure ends the reads
	for err == nil {
		_, _, err = conn.ReadMessage()
	}
}

// connect opens a connection that uses this much.
func (u use) connect(addr string) (*websocket.Conn, error) {
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+addr+"/socket.io/?EIO=4&transport=websocket", nil)
	if err != nil || u == websocketOnly {
		return conn, err
	}
	says := []string{"40"}
	if u == inNamespaces {
		says = append(says, "40/0,", "40/1,", "40/2,")
	}
	left := len(says) + 1 // its answers and "ready"
	for _, text := range says {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			return nil, err
		}
	}
	for left > 0 {
		_, data, err := conn.ReadMessage()
		if err != nil {
			return nil, err
		}
		if bytes.HasPrefix(data, []byte("40")) || bytes.HasPrefix(data, []byte(`42["ready"]`)) {
			left--
		}
	}
	return conn, nil
}

// perConnection is what a connection costs, between a warm population and a
// larger one.
func perConnection(t *testing.T, u use) child.Memory {
	const warm, n = 100, 600
	server, err := child.Start(t.Context(), "machinery", "")
	require.NoError(t, err)
	defer server.Stop()
	var addr string
	require.NoError(t, server.Call("Start", string(u), &addr))
	var before child.Memory
	for i := range n {
		if i == warm {
			before, err = server.Memory()
			require.NoError(t, err)
		}
		conn, err := u.connect(addr)
		require.NoError(t, err)
		defer conn.Close()
	}
	after, err := server.Memory()
	require.NoError(t, err)
	per := func(a, b int64) int64 { return (b - a) / (n - warm) }
	return child.Memory{RSS: per(before.RSS, after.RSS), Heap: per(before.Heap, after.Heap), Stack: per(before.Stack, after.Stack),
		Goroutines: (after.Goroutines - before.Goroutines) / (n - warm), FDs: (after.FDs - before.FDs) / (n - warm)}
}

// weighing is for tests of 600 connections' bytes.
func weighing(t *testing.T) {
	t.Helper()
	if child.RaceDetector {
		t.Skip("the race detector has memory of its own: go test, without -race")
	}
	if err := fleet.Descriptors(600); err != nil {
		t.Skip(err)
	}
}

// S9: Socket.IO's machinery costs its 12 KB "whether you use it or not": in Go
// 19 on top of a WebSocket of the same library. Using it is cheap: ten rooms or
// ten acknowledgements add 0.8, a namespace 3, since it is a socket of its own.
func TestMemorySocketIOMachinery(t *testing.T) {
	weighing(t)
	cost := map[use]child.Memory{}
	held := func(u use) float64 { return float64(cost[u].Heap + cost[u].Stack) }
	for _, u := range []use{websocketOnly, unused, inRooms, inNamespaces, withAcks} {
		cost[u] = perConnection(t, u)
		t.Logf("%-10s %5.1f KB of heap and stacks, %5.1f resident", u, held(u)/1000, float64(cost[u].RSS)/1000)
	}
	premium := held(unused) - held(websocketOnly)
	assert.Greater(t, premium, 12_000.0, "the premium is more than the document's")
	assert.Equal(t, [2]int{1, 2}, [2]int{cost[websocketOnly].Goroutines, cost[unused].Goroutines}, "its second goroutine waits until the next ping is due")
	for _, u := range []use{inRooms, withAcks} {
		used := held(u) - held(unused)
		assert.Positive(t, used, u)
		assert.Less(t, used, premium/10, "ten %s are a fraction of what is paid anyway", u)
	}
	assert.InDelta(t, 3_070, (held(inNamespaces)-held(unused))/3, 300, "a namespace")
}

// S1, S2, S3: an idle connection of Socket.IO costs twice what a raw WebSocket
// does, and as much as an event stream. In Go more than the stream,
// which has no engine under it: some 40 % more.
func TestMemorySocketIO(t *testing.T) {
	weighing(t)
	live := func(name string) float64 {
		h, err := measure.Hold{Setup: cell(t, name), Few: 100, Many: 600, Events: feed.Trades()[:10]}.Run(t.Context())
		require.NoError(t, err)
		t.Logf("%s: %.0f B of heap and stacks, %.0f of pages, %.0f used", name, h.Live(), h.Resident(h.Idle), h.Resident(h.Used))
		return h.Live()
	}
	io := live("transport=socketio/lib=websocket/http=1.1")
	assert.InDelta(t, 2, io/live("transport=ws/lib=gorilla/http=1.1"), 0.3, "of a WebSocket, the library's own")
	assert.InDelta(t, 4.0/3, io/live("transport=sse/lib=http/http=1.1"), 0.2, "of an event stream")
}

// S1, V3: the same of Socket.IO as of the others in the main module.
func BenchmarkSocketIO(b *testing.B) {
	s := cell(b, "transport=socketio/lib=websocket/http=1.1")
	b.Run("Idle/"+s.String()+"/conns=1000", func(b *testing.B) {
		for b.Loop() {
			h, err := measure.Hold{Setup: s, Few: 100, Many: 1100, Events: feed.Trades()[:10], Times: 10}.Run(b.Context())
			require.NoError(b, err)
			reported(b, append(h.Opening(), h.Metrics(h.Used)...))
		}
	})
	b.Run("Broadcast/"+s.String()+"/conns=1000", func(b *testing.B) {
		for b.Loop() {
			broadcaster, err := measure.NewBroadcaster(b.Context())
			require.NoError(b, err)
			result, err := broadcaster.Run(b.Context(), s, 1000, 11)
			require.NoError(b, err)
			reported(b, result.Metrics())
			require.NoError(b, broadcaster.Stop())
		}
	})
}
