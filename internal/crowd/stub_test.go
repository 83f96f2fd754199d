package crowd

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/setup"
)

// What each kind of client sends first.
var openings = map[string]string{
	"ws": "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
	"sse": "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}

// A server does not know that its clients have no sockets.
func TestStubsAreServed(t *testing.T) {
	for name, framing := range map[string]int{"transport=ws/lib=gorilla/http=1.1": 2, "transport=ws/lib=gorilla-tuned/http=1.1": 2, "transport=sse/lib=http/http=1.1": 14} {
		s, err := setup.Parse(name)
		require.NoError(t, err)
		var service Service
		require.NoError(t, service.Start(StartArgs{Setup: s, Stubs: true}, new(string)))
		require.NoError(t, service.Admit(AdmitArgs{Opening: []byte(openings[s.Transport]), N: 3}, new(int)))
		require.NoError(t, service.AwaitLen(AwaitArgs{N: 3, Timeout: time.Minute}, new(int)))
		var before, after int64
		require.NoError(t, service.Taken(0, &before))
		assert.Positive(t, before, "each has an answer to its opening")
		event := []byte(text(1) + " of sixteen bytes and more")
		var b Broadcasted
		require.NoError(t, service.Broadcast(BroadcastArgs{Data: event, Times: 1}, &b))
		assert.Equal(t, Broadcasted{Began: b.Began, Issued: b.Issued, Sent: 3}, b)
		require.Eventually(t, func() bool {
			require.NoError(t, service.Taken(0, &after))
			return after-before == int64(3*(len(event)+framing))
		}, time.Minute, time.Millisecond, "each gets the event")
		require.NoError(t, service.Close(0, new(int)), "and all are sent away")
		assert.Error(t, service.Admit(AdmitArgs{N: 1}, new(int)), "nobody comes any more")
	}
}

func TestAPortHasNoStubs(t *testing.T) {
	var service Service
	require.NoError(t, service.Start(StartArgs{Setup: setup.Setup{Transport: "floor", HTTP: "1.1"}}, new(string)))
	assert.ErrorIs(t, service.Admit(AdmitArgs{N: 1}, new(int)), errNoStubs)
	assert.ErrorIs(t, service.Taken(0, new(int64)), errNoStubs)
	require.NoError(t, service.Close(0, new(int)))
}

// A stuck server takes its time for the first broadcast, and none for others.
type stuck struct {
	Server
	done bool
}

func (s *stuck) Broadcast([]byte) (sent, dropped int) {
	if !s.done {
		time.Sleep(25 * time.Millisecond)
	}
	s.done = true
	return 1, 0
}

// The instants of broadcasts are fixed when they begin: what is late delays
// nothing but itself.
func TestBroadcastsAreDueWhateverTheOnesBeforeTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := Service{server: &stuck{}}
		var b Broadcasted
		require.NoError(t, service.Broadcast(BroadcastArgs{Times: 4, Every: 10 * time.Millisecond}, &b))
		assert.Equal(t, 30*time.Millisecond, b.Issued.Sub(b.Began))
		assert.Equal(t, 4, b.Sent)
	})
}
