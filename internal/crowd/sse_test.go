package crowd

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"pushcost/internal/setup"
)

// A message is encoded once for a room, and once more for all who joined it
// after a message that refers to one before.
func TestARoomEncodesOnce(t *testing.T) {
	elsewhere := func(s setup.Setup) bool { return s.Lib != "encoded" || s.Codec == "" }
	each(t, elsewhere, func(t *testing.T, s setup.Setup) {
		server, addr := open(t, s, patient)
		guests := []*guest{come(t, s, addr), come(t, s, addr)}
		await(t, server, 2, "who came is in the room")
		server.Broadcast([]byte(text(1)))
		server.Broadcast([]byte(text(2)))
		for _, g := range guests {
			g.hears(t, text(1))
			g.hears(t, text(2))
		}
		assert.EqualValues(t, 2, server.Compressions(), "once for all")

		late := []*guest{come(t, s, addr), come(t, s, addr)}
		for _, g := range late {
			g.hears(t, text(2))
		}
		await(t, server, 4, "late, but there")
		assert.LessOrEqual(t, server.Compressions(), int64(3), "once more for all who join")
		server.Broadcast([]byte(text(3)))
		for _, g := range append(guests, late...) {
			g.hears(t, text(3))
		}
		before := server.Compressions()
		assert.Equal(t, 4, server.Beat())
		server.Broadcast([]byte(text(4)))
		for _, g := range append(guests, late...) {
			g.hears(t, text(4))
		}
		assert.LessOrEqual(t, server.Compressions(), before+2, "a heartbeat is not encoded: only the event is, once more for who was late")
	})
}

// Where every client has an encoder a message is encoded for each.
func TestEveryEncoderIsCounted(t *testing.T) {
	elsewhere := func(s setup.Setup) bool { return s.Lib != "http" || s.Transport != "sse" }
	each(t, elsewhere, func(t *testing.T, s setup.Setup) {
		server, addr := open(t, s, patient)
		guests := []*guest{come(t, s, addr), come(t, s, addr)}
		await(t, server, 2, "both are there")
		server.Broadcast([]byte(text(1)))
		for _, g := range guests {
			g.hears(t, text(1))
		}
		want := 2
		if s.Codec == "" {
			want = 0
		}
		assert.EqualValues(t, want, server.Compressions())
	})
}

// Who joins while messages are sent gets the last one and, without a gap, all
// that follow.
func TestWhoJoinsARoomMissesNothing(t *testing.T) {
	elsewhere := func(s setup.Setup) bool { return s.Lib != "encoded" || s.Codec == "" || s.TLS != "" }
	each(t, elsewhere, func(t *testing.T, s setup.Setup) {
		server, addr := open(t, s, patient)
		const last = 200
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for n := range last {
				server.Broadcast([]byte(text(n + 1)))
			}
		}()
		var guests []*guest
		for range 10 {
			guests = append(guests, come(t, s, addr))
		}
		await(t, server, 10, "all have joined")
		<-sent
		for _, g := range guests {
			var n int
			_, err := fmt.Sscanf(<-g.got, `"event %d"`, &n)
			assert.NoError(t, err)
			for n++; n <= last; n++ {
				g.hears(t, text(n))
			}
		}
	})
}
