package crowd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/rpc"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pushcost/internal/codec"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs a test for every setup that there is.
func each(t *testing.T, skip func(setup.Setup) bool, f func(*testing.T, setup.Setup)) {
	for _, c := range All {
		for _, s := range c.setups() {
			if !skip(s) {
				t.Run(s.String(), func(t *testing.T) { f(t, s) })
			}
		}
	}
}

// open serves a setup, until the end of the test. The sockets of the first to come
// hold no more than these, in bytes.
func open(t *testing.T, s setup.Setup, terms terms, sndbufs ...int) (Server, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := serve(&narrow{ln, sndbufs}, s, terms)
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() }) // where the test has not
	return server, ln.Addr().String()
}

// narrow lets in connections of which the first have sockets that hold little.
type narrow struct {
	net.Listener
	sndbufs []int
}

func (n *narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil && len(n.sndbufs) > 0 {
		err = c.(*net.TCPConn).SetWriteBuffer(n.sndbufs[0])
		n.sndbufs = n.sndbufs[1:]
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

// silent is with whom no heartbeat is seen: a floor has none, a room's decode to
// nothing, and the client that knows deflate with takeover does not tell.
func silent(s setup.Setup) bool {
	return s.Transport == "floor" || s.Codec == codec.Deflate || s.Lib == "encoded" && s.Codec != codec.Identity
}

func nothing(setup.Setup) bool { return false }

func TestEveryContestantServes(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // with the first socket Go's poller opens descriptors of its own
	require.NoError(t, err)
	ln.Close()
	each(t, nothing, func(t *testing.T, s setup.Setup) {
		before := descriptorsOpen(t)
		server, addr := open(t, s, patient)
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
		if !silent(s) {
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
	each(t, nothing, func(t *testing.T, s setup.Setup) {
		server, addr := open(t, s, patient)
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

// It leaves the registry, too, when it takes nothing for too long. Of the others
// nothing waits, however slow they are: a message fits into their sockets, and
// the next one is sent when they have it.
func TestAStalledClientIsCutOffWhenItTakesNothing(t *testing.T) {
	stalled(t, terms{behind: 64 << 20, patience: 200 * time.Millisecond})
}

func stalled(t *testing.T, terms terms) {
	// A poll has no backlog: who does not read does not ask. A floor has no policy.
	skip := func(s setup.Setup) bool {
		return s.Codec != "" || s.Transport == "poll" || s.Transport == "floor" || s.Lib == "leaky"
	}
	each(t, skip, func(t *testing.T, s setup.Setup) {
		t.Parallel() // mostly it waits
		server, addr := open(t, s, terms, 16<<10)
		sleeper, awake := come(t, s, addr), []*guest{come(t, s, addr), come(t, s, addr)} // only the first socket is small
		await(t, server, 3, "all are there")
		sleeper.tcp.turn(false)
		for i := range 150 {
			message := text(i) + strings.Repeat(".", 16<<10)
			server.Broadcast([]byte(message))
			for _, g := range awake {
				g.hears(t, message)
			}
		}
		if s.Lib == "hijack-deaf" {
			for server.Len() == 3 { // it takes a write to notice
				server.Beat()
				for _, g := range awake {
					g.hears(t, "beat")
				}
			}
		}
		await(t, server, 2, "who takes nothing is no longer there")
		server.Broadcast([]byte(`"last"`))
		for _, g := range awake {
			g.hears(t, `"last"`) // and has not noticed
		}
	})
}

// Messages of any size through sockets with hardly any room, to clients that
// dawdle: what is written in pieces arrives whole.
func TestABacklogKeepsMessagesWhole(t *testing.T) {
	skip := func(s setup.Setup) bool {
		// The backlog lies below TLS, but for the loop's.
		return s.Codec != "" || s.Transport == "floor" || s.Lib == "leaky" || s.TLS != "" && s.Lib != "epoll" && s.Lib != "http"
	}
	each(t, skip, func(t *testing.T, s setup.Setup) {
		t.Parallel() // mostly it waits
		server, addr := open(t, s, patient, 1, 1)
		const n = 2
		var guests []*guest
		for range n {
			guests = append(guests, come(t, s, addr))
		}
		await(t, server, n, "all are there")
		random := rand.New(rand.NewPCG(1, 2))
		var messages []string
		for i := range 60 {
			for _, g := range guests {
				g.tcp.turn(i >= 30 && random.IntN(3) > 0) // at first nobody reads
			}
			size := random.IntN(1 << (8 + random.IntN(11))) // the kernel takes some 64 KB whole or not at all
			m := fmt.Sprintf(`"%d %s"`, i, strings.Repeat(fmt.Sprint(i%10), size))
			messages = append(messages, m)
			_, dropped := server.Broadcast([]byte(m))
			require.Zero(t, dropped)
			if i == 29 {
				require.Less(t, server.Writes(), int64(n*30), "there is a backlog")
			}
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

// What a message costs the kernel: one write for each client, whoever encodes
// it. net/http's HTTP/2 takes one for the frame's head and data together, too.
func TestAMessageIsOneWriteForEachClient(t *testing.T) {
	skip := func(s setup.Setup) bool { return s.Codec != "" || s.Lib == "leaky" || s.Transport == "poll" }
	each(t, skip, func(t *testing.T, s setup.Setup) {
		server, addr := open(t, s, patient)
		guests := []*guest{come(t, s, addr), come(t, s, addr)}
		await(t, server, 2, "both are there")
		server.Broadcast(payload(s, text(0))) // HTTP/2 has acknowledged the settings before it is read
		for _, g := range guests {
			g.hears(t, text(0))
		}
		before := server.Writes()
		for i := range 50 {
			server.Broadcast(payload(s, text(i)))
			for _, g := range guests {
				g.hears(t, text(i))
			}
		}
		assert.EqualValues(t, 2*50, server.Writes()-before)
	})
}

// The leaky twin sends to who is gone, for ever.
func TestTheLeakyTwinKeepsWhoIsGone(t *testing.T) {
	s := setup.Setup{Transport: "ws", Lib: "leaky", HTTP: "1.1"}
	server, addr := open(t, s, patient)
	stays := come(t, s, addr)
	for range 5 {
		come(t, s, addr).leave(true)
	}
	await(t, server, 6, "all who came")
	for i := range 10 {
		sent, dropped := server.Broadcast([]byte(text(i)))
		assert.Equal(t, []int{6, 0}, []int{sent, dropped}, "are still sent to")
		stays.hears(t, text(i))
	}
}

// Over HTTP/2 a stream can stall while its connection is read: what is not
// taken out of the body is not asked for. Then the stream is cut off alone.
func TestAStalledStreamIsCutOff(t *testing.T) {
	s := setup.Setup{Transport: "sse", Lib: "http", HTTP: "2"}
	server, addr := open(t, s, terms{behind: 64 << 10, patience: time.Hour})
	client := &http.Client{Transport: &http.Transport{Protocols: transport.Protocols(s.HTTP)}}
	defer client.CloseIdleConnections()
	var bodies []io.ReadCloser
	for range 2 {
		resp, err := client.Get("http://" + addr)
		require.NoError(t, err)
		defer resp.Body.Close()
		bodies = append(bodies, resp.Body)
	}
	await(t, server, 2, "two streams of one connection")
	message := strings.Repeat("x", 32<<10)
	event := make([]byte, len("data: \n\n")+len(message))
	for server.Len() == 2 {
		server.Broadcast([]byte(message))
		_, err := io.ReadFull(bodies[1], event)
		require.NoError(t, err)
	}
	server.Broadcast([]byte(message))
	_, err := io.ReadFull(bodies[1], event)
	assert.NoError(t, err, "the other stream goes on")
	_, err = io.Copy(io.Discard, bodies[0])
	assert.ErrorContains(t, err, "stream ID 1; INTERNAL_ERROR")
}

// A frame may come in pieces of any size, and many at once.
func TestFramesComeInPieces(t *testing.T) {
	for _, lib := range []string{"gobwas", "epoll"} {
		s := setup.Setup{Transport: "ws", Lib: lib, HTTP: "1.1"}
		if !slices.ContainsFunc(All, func(c Contestant) bool { return c.fits(s) }) {
			continue // no epoll here
		}
		server, addr := open(t, s, patient)
		g := come(t, s, addr)
		await(t, server, 1, "the guest is there")
		frame := func(h ws.Header, text string) []byte {
			h.Masked, h.Mask, h.Length = true, [4]byte{1, 2, 3, 4}, int64(len(text))
			var b bytes.Buffer
			require.NoError(t, ws.WriteHeader(&b, h))
			payload := []byte(text)
			ws.Cipher(payload, h.Mask, 0)
			return append(b.Bytes(), payload...)
		}
		stream := slices.Concat(
			frame(ws.Header{OpCode: ws.OpText}, "in "),
			frame(ws.Header{Fin: true, OpCode: ws.OpPing}, "one"),
			frame(ws.Header{OpCode: ws.OpContinuation}, strings.Repeat("many ", 100)),
			frame(ws.Header{Fin: true, OpCode: ws.OpContinuation}, "pieces"),
			frame(ws.Header{Fin: true, OpCode: ws.OpBinary}, strings.Repeat("x", 200_000)),
			frame(ws.Header{Fin: true, OpCode: ws.OpPing}, "two"),
		)
		for size := 1; size < 1<<20; size *= 7 {
			heard := server.Heard()
			for at := 0; at < len(stream); {
				n := size
				if at > 2_000 && at < 200_000 {
					n = max(size, 20_000) // the large frame in haste
				}
				n = min(n, len(stream)-at)
				_, err := g.tcp.Conn.Write(stream[at : at+n])
				require.NoError(t, err)
				at += n
			}
			g.hears(t, "pong one")
			g.hears(t, "pong two")
			assert.Equal(t, heard+4, server.Heard(), "%s, %d bytes at a time: two messages and two pings", lib, size)
		}
		_, err := g.tcp.Conn.Write(frame(ws.Header{Fin: true, OpCode: 3}, ""))
		require.NoError(t, err)
		await(t, server, 0, "a frame that is none ends the connection")
	}
}

func TestAServiceDoesWhatItIsTold(t *testing.T) {
	here, there := net.Pipe()
	rpcs := rpc.NewServer()
	require.NoError(t, rpcs.Register(new(Service)))
	served := make(chan struct{})
	go func() {
		defer close(served)
		rpcs.ServeConn(there)
	}()
	client := rpc.NewClient(here)
	s := setup.Setup{Transport: "ws", Lib: "gobwas", HTTP: "1.1"}
	var addr string
	err := client.Call("Service.Start", StartArgs{Setup: setup.Setup{Transport: "pigeon"}}, &addr)
	assert.EqualError(t, err, "crowd: there is no transport=pigeon here")
	require.NoError(t, client.Call("Service.Start", StartArgs{Setup: s, State: 1 << 10}, &addr))
	g := come(t, s, addr)
	var n int
	require.NoError(t, client.Call("Service.AwaitLen", AwaitArgs{N: 1, Timeout: time.Minute}, &n))
	assert.Equal(t, 1, n)
	assert.EqualError(t, client.Call("Service.AwaitLen", AwaitArgs{N: 2}, &n), "waited for 2, there are 1: context deadline exceeded")
	var b Broadcasted
	require.NoError(t, client.Call("Service.Broadcast", BroadcastArgs{Data: []byte(text(7)), Times: 3}, &b))
	assert.Equal(t, []int{3, 0}, []int{b.Sent, b.Dropped})
	assert.False(t, b.Issued.Before(b.Began))
	for range 3 {
		g.hears(t, text(7))
	}
	require.NoError(t, client.Call("Service.Beat", 0, &n))
	assert.Equal(t, 1, n)
	g.hears(t, "beat")
	var total int64
	require.NoError(t, client.Call("Service.Writes", 0, &total))
	assert.EqualValues(t, 1+3+1, total, "the upgrade, three messages, a ping")
	require.NoError(t, client.Call("Service.Heard", 0, &total))
	assert.Zero(t, total)
	require.NoError(t, client.Call("Service.Len", 0, &n))
	assert.Equal(t, 1, n)
	require.NoError(t, client.Call("Service.Close", 0, &n))
	client.Close()
	<-served
}

// setups are all of which a contestant can be served.
func (c Contestant) setups() (all []setup.Setup) {
	security := []string{""}
	if c.TLS {
		security = append(security, "1.3")
	}
	for _, version := range c.Over {
		for _, tls := range security {
			for _, coding := range append([]codec.Name{codec.Identity}, c.Codecs...) {
				all = append(all, setup.Setup{Transport: c.Transport, Lib: c.Lib, HTTP: version, TLS: tls, Codec: coding})
			}
		}
	}
	return all
}
