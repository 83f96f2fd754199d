package bridge

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pushcost/extra/internal/broker"
	"pushcost/internal/hub"
	"pushcost/internal/netpath"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What cannot be a copy of the stream any more fails: it would go on with a
// gap, or with the ids of other events.
func TestRunFailsWhereTheStreamIsAnother(t *testing.T) {
	b := broker.New(t.TempDir())
	require.NoError(t, b.Start())
	t.Cleanup(b.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := func(o ...nats.Option) (*nats.Conn, error) { return nats.Connect(b.URL(), o...) }
	again := make(chan struct{}, 1)
	again <- struct{}{}
	first := &Bridge{Connect: func(o ...nats.Option) (*nats.Conn, error) { <-again; return connect(o...) }, Stream: "events", Log: hub.NewLog(10)}
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	for range 3 {
		err := ErrOffline // it is not connected yet
		for errors.Is(err, ErrOffline) && netpath.Sleep(ctx, time.Millisecond) == nil {
			err = first.Publish(ctx, "", []byte("data"))
		}
		require.NoError(t, err)
	}
	for last, more := first.Log.Last(); last < 3; last, more = first.Log.Last() {
		<-more // what is stored is not in the log yet
	}
	conn, err := connect()
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	stream, err := js.Stream(ctx, "events")
	require.NoError(t, err)

	ahead := hub.NewLog(10)
	for range 4 { // it was copied from a stream that has since lost its end
		ahead.Publish([]byte("data"))
	}
	assertGone(t, (&Bridge{Connect: connect, Stream: "events", Log: ahead}).Run(ctx), "event 4: .* ends at 3$")

	require.NoError(t, stream.Purge(ctx, jetstream.WithPurgeSequence(2)))
	assertGone(t, (&Bridge{Connect: connect, Stream: "events", Log: hub.NewLog(10)}).Run(ctx), "event 0: .* the next in the stream is 2$")

	require.NoError(t, js.DeleteStream(ctx, "events")) // and made anew, as long as it was
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "events", Subjects: []string{"events"}})
	require.NoError(t, err)
	for range 3 {
		_, err = js.Publish(ctx, "events", []byte("another"))
		require.NoError(t, err)
	}
	close(again)
	assertGone(t, <-ended, "event 3: .* ends at 3$")
}

func assertGone(t *testing.T, err error, why string) {
	t.Helper()
	require.ErrorIs(t, err, hub.ErrGone)
	assert.Regexp(t, why, err.Error())
}
