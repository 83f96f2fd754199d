package crowd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pushcost/internal/codec"
	"pushcost/internal/setup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs a test for every setup that there is.
func each(t *testing.T, skip func(setup.Setup) bool, f func(*testing.T, setup.Setup)) {
	for _, c := range All {
		for _, s := range c.Setups() {
			if !skip(s) {
				t.Run(s.String(), func(t *testing.T) { f(t, s) })
			}
		}
	}
}

// open serves a setup, until the end of the test.
func open(t *testing.T, s setup.Setup, terms terms, sndbuf int) (Server, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := serve(narrow{ln, sndbuf}, s, terms)
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() }) // where the test has not
	return server, ln.Addr().String()
}

// narrow lets in connections whose socket holds little; 0: as it is.
type narrow struct {
	net.Listener
	sndbuf int
}

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil && n.sndbuf > 0 {
		err = c.(*net.TCPConn).SetWriteBuffer(n.sndbuf)
	}
	return c, err
}

func await(t *testing.T, s Server, n int, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, s.Await(ctx, n), why)
}

var patient = terms{behind: 64 << 20, patience: time.Hour}

func text(i int) string { return fmt.Sprintf(`"event %d"`, i) }

func payload(s setup.Setup, text string) []byte {
	if s.Transport == "floor" {
		text += "\n"
	}
	return []byte(text)
}

// unaware are those that do not notice who leaves before they write.
func unaware(s setup.Setup) bool { return s.Lib == "hijack-deaf" || s.Lib == "fd" || s.Lib == "leaky" }

// unreadable is what no client here understands: gorilla's has no takeover.
func unreadable(s setup.Setup) bool { return s.Codec == codec.Deflate }

func TestEveryContestantServes(t *testing.T) {
	each(t, unreadable, func(t *testing.T, s setup.Setup) {
		before := descriptorsOpen(t)
		server, addr := open(t, s, patient, 0)
		guests := []*guest{come(t, s, addr), come(t, s, addr), come(t, s, addr)}
		await(t, server, 3, "who came is in the registry")
		for i := range 100 {
			sent, dropped := server.Broadcast(payload(s, text(i)))
			assert.Zero(t, dropped, "nobody is behind")
			if s.Transport != "poll" { // between two polls there is nobody
				assert.Equal(t, 3, sent, "a message is for everybody")
			}
		}
		for _, g := range guests {
			for i := range 100 {
				g.hears(t, text(i))
			}
		}
		await(t, server, 3, "all are still here")
		if s.Transport != "floor" {
			assert.Equal(t, 3, server.Beat(), "a heartbeat is for everybody")
			for _, g := range guests {
				g.hears(t, "beat")
			}
		}
		if ws := guests[0].ws; ws != nil {
			heard := server.Heard()
			require.NoError(t, ws.WriteControl(websocket.PingMessage, []byte("who's there?"), time.Time{}))
			guests[0].hears(t, "pong who's there?")
			assert.Equal(t, heard+1, server.Heard(), "a ping is heard, and answered in kind")
			require.NoError(t, ws.WriteMessage(websocket.TextMessage, []byte(strings.Repeat("up and away ", 10_000))))
			require.NoError(t, ws.WriteControl(websocket.PingMessage, nil, time.Time{}))
			guests[0].hears(t, "pong ")
			assert.Equal(t, heard+3, server.Heard(), "what a client sends is heard")
		}
		if !unaware(s) {
			await(t, server, 3, "all are still here")
			guests[0].leave(false)
			await(t, server, 2, "who left in peace is gone")
			guests[1].leave(true)
			await(t, server, 1, "who left abruptly is gone")
			server.Broadcast(payload(s, text(100)))
			guests[2].hears(t, text(100))
		}
		guests[2].leave(true)
		if !unaware(s) {
			await(t, server, 0, "nobody is left")
		}
		server.Close()
		for _, g := range guests[:2] {
			select {
			case <-g.tcp.end:
			default:
				g.leave(true)
			}
		}
		assert.Equal(t, before, descriptorsOpen(t), "nor is a descriptor")
	})
}

func descriptorsOpen(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	if os.IsNotExist(err) {
		return 0 // not Linux: not counted
	}
	require.NoError(t, err)
	return len(all)
}

// Whoever is still here when a server closes is sent away.
func TestCloseSendsEverybodyAway(t *testing.T) {
	each(t, unreadable, func(t *testing.T, s setup.Setup) {
		server, addr := open(t, s, patient, 0)
		g := come(t, s, addr)
		await(t, server, 1, "the guest is there")
		server.Close()
		for range g.got { // ends
		}
	})
}

// A client that stops reading neither holds up the others nor a broadcast, and
// leaves the registry when it is too far behind.
func TestAStalledClientIsCutOffWhenItIsTooFarBehind(t *testing.T) {
	stalled(t, terms{behind: 256 << 10, patience: time.Hour})
}

// It leaves the registry, too, when it takes nothing for too long.
func TestAStalledClientIsCutOffWhenItTakesNothing(t *testing.T) {
	stalled(t, terms{behind: 64 << 20, patience: 200 * time.Millisecond})
}

func stalled(t *testing.T, terms terms) {
	// A poll has no backlog: who does not read does not ask. A floor has no policy.
	skip := func(s setup.Setup) bool {
		return unreadable(s) || s.Codec != "" || s.Transport == "poll" || s.Transport == "floor" || s.Lib == "leaky"
	}
	each(t, skip, func(t *testing.T, s setup.Setup) {
		server, addr := open(t, s, terms, 16<<10)
		sleeper, awake := come(t, s, addr), []*guest{come(t, s, addr), come(t, s, addr)}
		await(t, server, 3, "all are there")
		sleeper.tcp.turn(false)
		for i := range 600 {
			message := text(i) + strings.Repeat(".", 4<<10)
			server.Broadcast([]byte(message))
			for _, g := range awake {
				g.hears(t, message)
			}
		}
		if s.Lib == "hijack-deaf" {
			for server.Len() == 3 { // it takes a write to notice
				server.Beat()
			}
		}
		await(t, server, 2, "who takes nothing is no longer there")
		server.Broadcast([]byte(`"last"`))
		for _, g := range awake {
			for got := range g.got {
				if got != "beat" {
					require.Equal(t, `"last"`, got, "and nobody else noticed")
					break
				}
			}
		}
	})
}

// Messages of any size through sockets with hardly any room, to clients that
// dawdle: what is written in pieces arrives whole.
func TestABacklogKeepsMessagesWhole(t *testing.T) {
	skip := func(s setup.Setup) bool { return unreadable(s) || s.Transport == "floor" || s.Lib == "leaky" }
	each(t, skip, func(t *testing.T, s setup.Setup) {
		server, addr := open(t, s, patient, 1)
		const n = 3
		var guests []*guest
		for range n {
			guests = append(guests, come(t, s, addr))
		}
		await(t, server, n, "all are there")
		random := rand.New(rand.NewPCG(1, 2))
		var messages []string
		for i := range 120 {
			for _, g := range guests {
				g.tcp.turn(random.IntN(3) > 0)
			}
			m := fmt.Sprintf(`"%d %s"`, i, strings.Repeat(fmt.Sprint(i%10), random.IntN(20_000)))
			messages = append(messages, m)
			_, dropped := server.Broadcast([]byte(m))
			require.Zero(t, dropped)
		}
		for _, g := range guests {
			g.tcp.turn(true)
			for _, m := range messages {
				g.hears(t, m)
			}
		}
		await(t, server, n, "all are still there")
	})
}
