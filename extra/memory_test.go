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

// S9: Socket.IO's machinery costs its 12 KB "whether you use it or not": in Go
// 19 on top of a WebSocket of the same library. Using it is cheap: ten rooms or
// ten acknowledgements add 0.8, a namespace 3, since it is a socket of its own.
func TestMemorySocketIOMachinery(t *testing.T) {
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
