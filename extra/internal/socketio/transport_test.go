package socketio

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pushcost/internal/feed"
	"pushcost/internal/hub"
	"pushcost/internal/measure"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
	"pushcost/internal/virtual"
)

func TestMain(m *testing.M) {
	transport.All = append(transport.All, Transports...)
	goleak.VerifyTestMain(m)
}

// every calls f with both transports, with TLS and without.
func every(t *testing.T, f func(t *testing.T, s setup.Setup)) {
	cells, err := setup.Cross("transport=socketio/lib=websocket|polling/http=1.1/tls=|1.3/headers=chrome")
	require.NoError(t, err)
	for _, s := range cells {
		t.Run(s.String(), func(t *testing.T) { f(t, s) })
	}
}

func TestBothTransportsDeliver(t *testing.T) {
	every(t, func(t *testing.T, s setup.Setup) {
		require.NoError(t, virtual.Run(func(ctx context.Context) error {
			d, err := measure.Deliver(ctx, s, measure.Paced(feed.Trades()[:100]))
			assert.Positive(t, d.Open.Up.Bytes, "the opening is counted")
			assert.Positive(t, d.Steady.Down.Bytes, "and what follows")
			return err
		}))
	})
}

func TestBothTransportsLiveOnHeartbeats(t *testing.T) {
	every(t, func(t *testing.T, s setup.Setup) {
		require.NoError(t, virtual.Run(func(ctx context.Context) error {
			c, err := measure.Idle(ctx, s)
			assert.GreaterOrEqual(t, c.Down.Writes, int64(239), "one every 15 seconds")
			return err
		}))
	})
}

// What does not survive the library's JSON encoder goes as a binary attachment.
func TestAnythingArrivesUnchanged(t *testing.T) {
	events := [][]byte{[]byte(`{"a": 1}`), []byte(`"<b>"`), []byte("not JSON"), {0, 255, 0x1e}, []byte(`"plain"`), {}}
	every(t, func(t *testing.T, s setup.Setup) {
		require.NoError(t, virtual.Run(func(ctx context.Context) error {
			_, err := measure.Deliver(ctx, s, measure.Paced(events))
			return err
		}))
	})
}

// serving runs f in virtual time with a client of a server.
func serving(c transport.Transport, h func() *hub.Hub, o func() transport.Options, f func(ctx context.Context, client *transport.Client) error) error {
	return virtual.Run(func(ctx context.Context) (err error) {
		network := netpath.Memory(netpath.Symmetric(time.Millisecond))
		ln, err := network.Listen("127.0.0.1:0")
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		served := make(chan error, 1)
		go func() { served <- c.Serve(ctx, ln, h(), o()) }()
		client := &transport.Client{URL: "http://localhost", Header: http.Header{}, HTTP: &http.Transport{
			DialContext: func(ctx context.Context, kind, _ string) (net.Conn, error) {
				return network.Dial(ctx, kind, ln.Addr().String())
			},
		}}
		defer func() {
			cancel()
			err = errors.Join(err, <-served)
			client.HTTP.CloseIdleConnections()
		}()
		return f(ctx, client)
	})
}

// full is a hub of one room whose log has had a hundred events and kept n. It is
// made where it is used: a channel from outside a bubble would stop its clock.
func full(room string, n int) func() *hub.Hub {
	return func() *hub.Hub {
		h := hub.NewHub(n, room)
		for _, event := range feed.Trades()[:100] {
			h.Room(room).Publish(event)
		}
		return h
	}
}

func anybody() transport.Options { return transport.Options{HTTP: transport.HTTP1} }

func TestBothTransportsResume(t *testing.T) {
	events := feed.Trades()
	for _, c := range Transports {
		require.NoError(t, serving(c, full("hall", 100), anybody, func(ctx context.Context, client *transport.Client) error {
			client.Room = "hall"
			s, err := c.Open(ctx, client, 40)
			if err != nil {
				return err
			}
			defer s.Close()
			for id := uint64(41); id <= 100; id++ {
				e, err := s.Next()
				if err != nil {
					return err
				}
				assert.Equal(t, hub.Event{ID: id, Data: events[id-1]}, e, c.Lib)
			}
			return nil
		}), c.Lib)
	}
}

func TestARefusedClientIsToldWhy(t *testing.T) {
	nobody := func() transport.Options {
		return transport.Options{HTTP: transport.HTTP1, Admit: func(*http.Request) *transport.Refusal {
			return &transport.Refusal{Status: 403, Text: "no ticket"}
		}}
	}
	for _, c := range Transports {
		for want, open := range map[string]struct {
			room   string
			after  uint64
			option func() transport.Options
		}{
			"410: event 40: cursor is not in the log": {"", 40, anybody},
			`404: there is no room "cellar"`:          {"cellar", 0, anybody},
			"403: no ticket":                          {"", 0, nobody},
		} {
			err := serving(c, full("", 10), open.option, func(ctx context.Context, client *transport.Client) error {
				client.Room = open.room
				_, err := c.Open(ctx, client, open.after)
				return err
			})
			assert.ErrorContains(t, err, want, c.Lib)
		}
	}
}

func TestAMessageUpIsHeardAndMayBeRefused(t *testing.T) {
	for _, c := range Transports {
		var heard []string
		choosy := func() transport.Options {
			return transport.Options{HTTP: transport.HTTP1, Message: func(_ *http.Request, data []byte) *transport.Refusal {
				heard = append(heard, string(data))
				if string(data) == "buy" {
					return nil
				}
				return &transport.Refusal{Status: 422, Text: "what?"}
			}}
		}
		require.NoError(t, serving(c, full("", 100), choosy, func(ctx context.Context, client *transport.Client) error {
			s, err := c.Open(ctx, client, 100)
			if err != nil {
				return err
			}
			defer s.Close()
			for _, text := range []string{"buy", `"s\ell"`} {
				if _, err := s.Send([]byte(text)); err != nil {
					return err
				}
			}
			_, err = s.Next()
			assert.ErrorContains(t, err, "refused: 422: what?", c.Lib)
			return nil
		}), c.Lib)
		assert.Equal(t, []string{"buy", `"s\ell"`}, heard, c.Lib)
	}
}
