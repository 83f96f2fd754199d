package socketio

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/hub"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

func TestACrowdGetsEveryBroadcastAndIsLetGo(t *testing.T) {
	const clients, times = 20, 50
	for i, contestant := range Transports {
		t.Run(contestant.Lib, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			crowd, err := Crowds[i].Serve(ln, setup.Setup{})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var streams []transport.Stream
			for range clients {
				client := &transport.Client{URL: "http://" + ln.Addr().String(), Header: http.Header{}, HTTP: &http.Transport{DialContext: new(net.Dialer).DialContext}}
				defer client.HTTP.CloseIdleConnections()
				s, err := contestant.Open(ctx, client, 0)
				require.NoError(t, err)
				defer s.Close()
				streams = append(streams, s)
			}
			require.NoError(t, crowd.Await(ctx, clients))
			before := crowd.Writes()
			for i := range times {
				sent, dropped := crowd.Broadcast(fmt.Append(nil, i))
				assert.Equal(t, clients, sent)
				assert.Zero(t, dropped)
			}
			for _, s := range streams {
				for i := range times {
					e, err := s.Next()
					require.NoError(t, err)
					require.Equal(t, hub.Event{ID: uint64(i + 1), Data: fmt.Append(nil, i)}, e)
				}
				_, err := s.Send([]byte("heard?"))
				require.NoError(t, err)
			}
			if contestant.Lib == "websocket" {
				assert.EqualValues(t, clients*times, crowd.Writes()-before, "one write per connection and message")
			}
			assert.Eventually(t, func() bool { return crowd.Heard() == clients }, time.Minute, time.Millisecond, "every message up is heard")
			streams[0].Close()
			if contestant.Lib == "websocket" {
				assert.NoError(t, crowd.Await(ctx, clients-1), "who left is let go")
			}
			assert.NoError(t, crowd.Close())
			assert.NoError(t, crowd.Await(ctx, 0), "and so are all")
		})
	}
}
