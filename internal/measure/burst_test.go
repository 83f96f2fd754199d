package measure

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/board"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/virtual"
)

func TestInversionsArePairs(t *testing.T) {
	burst := []board.Command{{Nonce: "a"}, {Nonce: "b"}, {Nonce: "c"}, {Nonce: "d"}}
	assert.Equal(t, 0, inversions(burst, []string{"a", "b", "c", "d"}))
	assert.Equal(t, 1, inversions(burst, []string{"a", "c", "b", "d"}))
	assert.Equal(t, 3, inversions(burst, []string{"d", "a", "b", "c"}))
	assert.Equal(t, 6, inversions(burst, []string{"d", "c", "b", "a"}))
}

// However reads cut the bytes, a tap sees each nonce once, in order.
func TestATapSeesEveryNonceOnce(t *testing.T) {
	text := "POST / HTTP/1.1\r\n\r\n" + `{"id":1,"nonce":"first"}` + "\x00\x00\x1a\x00\x01\x00" + `{"id":2,"nonce":"second","seq":2}{"id":3,"nonce":"third"}`
	for size := 1; size <= len(text); size++ {
		client, server := net.Pipe()
		go func() {
			client.Write([]byte(text))
			client.Close()
		}()
		var o order
		conn := tappedConn{Conn: server, order: &o}
		for buf := make([]byte, size); ; {
			if _, err := conn.Read(buf); err != nil {
				break
			}
			assert.LessOrEqual(t, len(conn.tail), tailBytes)
		}
		require.Equal(t, []string{"first", "second", "third"}, o.take(), "read %d bytes at a time", size)
		assert.Empty(t, o.take())
	}
}

// With connections that jitter, HTTP/1.1's five race on the wire and one does
// not; what is found in virtual time is found again.
func TestBurstsOnJitteringConnections(t *testing.T) {
	burst := func(s setup.Setup) (b Bursts) {
		link := netpath.Link{Delay: 10 * time.Millisecond, Jitter: 5 * time.Millisecond, Seed: 1}
		require.NoError(t, virtual.Run(func(ctx context.Context) (err error) {
			b, err = Burst(ctx, s, BurstPlan{Path: netpath.Path{Up: link, Down: link}, Every: time.Microsecond})
			return err
		}))
		return b
	}
	h1 := burst(setup.Setup{Transport: "sse", HTTP: "1.1", Headers: "bare"})
	assert.Positive(t, h1.Wire)
	assert.Equal(t, h1.Wire, h1.Applied, "without a delay in the handler")
	for _, s := range []setup.Setup{{Transport: "sse", HTTP: "2", Headers: "bare"}, {Transport: "ws", HTTP: "1.1", Headers: "bare"}} {
		assert.Zero(t, burst(s).Wire, s)
	}
}
