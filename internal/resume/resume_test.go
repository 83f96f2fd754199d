package resume

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/hub"
	"pushcost/internal/transport"
)

func TestTheWaitDoublesUpToTheCap(t *testing.T) {
	b := Backoff{Base: 100 * time.Millisecond, Cap: time.Second}
	for try, want := range []time.Duration{100e6, 200e6, 400e6, 800e6, 1e9, 1e9} {
		assert.Equal(t, want, b.wait(try))
	}
	assert.Equal(t, time.Second, b.wait(1000), "it does not overflow")
}

func TestJitterIsFull(t *testing.T) {
	b := Backoff{Base: time.Second, Cap: time.Minute, Rand: rand.New(rand.NewPCG(1, 0))}
	tenths := make([]int, 10)
	for range 1000 {
		d := b.wait(2)
		require.Less(t, d, 4*time.Second)
		tenths[d/(400*time.Millisecond)]++
	}
	for _, n := range tenths {
		assert.InDelta(t, 100, n, 40, "from nothing to the bound, each tenth alike")
	}
	assert.Zero(t, Backoff{Rand: b.Rand}.wait(0), "no wait can be had too")
}

// A flaky transport has a function for every attempt to open it.
type flaky struct {
	opens []func(after uint64) (transport.Stream, error)
	at    []time.Duration // when each was tried
}

func (f *flaky) subscribe(ctx context.Context, b Backoff) *Subscription {
	begin := time.Now()
	return Subscribe(ctx, transport.Transport{Open: func(_ context.Context, _ *transport.Client, after uint64) (transport.Stream, error) {
		f.at = append(f.at, time.Since(begin))
		return f.opens[len(f.at)-1](after)
	}}, nil, 0, b)
}

// events is a stream of these ids, which then ends.
type events struct {
	transport.Stream
	ids    []uint64
	retry  time.Duration // negative: none
	closed bool
}

func (e *events) Next() (hub.Event, error) {
	if len(e.ids) == 0 {
		return hub.Event{}, errors.New("cut")
	}
	id := e.ids[0]
	e.ids = e.ids[1:]
	return hub.Event{ID: id}, nil
}

func (e *events) Retry() (time.Duration, bool) { return e.retry, e.retry >= 0 }
func (e *events) Close() error                 { e.closed = true; return nil }

func refuse(status int) func(uint64) (transport.Stream, error) {
	return func(uint64) (transport.Stream, error) { return nil, &transport.StatusError{Status: status} }
}

func TestASubscriptionGoesOnAfterItsCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &events{ids: []uint64{1, 2}, retry: -1}
		f := &flaky{opens: []func(uint64) (transport.Stream, error){
			func(after uint64) (transport.Stream, error) {
				assert.Zero(t, after)
				return first, nil
			},
			refuse(503),
			refuse(429),
			func(after uint64) (transport.Stream, error) {
				assert.True(t, first.closed, "one connection at a time")
				assert.EqualValues(t, 2, after)
				return &events{ids: []uint64{3}, retry: -1}, nil
			},
			refuse(403),
		}}
		sub := f.subscribe(t.Context(), Backoff{Base: time.Second, Cap: time.Minute})
		for id := uint64(1); id <= 3; id++ {
			e, err := sub.Next()
			require.NoError(t, err)
			assert.Equal(t, id, e.ID)
		}
		_, err := sub.Next()
		assert.ErrorContains(t, err, "403", "who is refused does not insist")
		assert.Equal(t, []time.Duration{0, 1e9, 3e9, 7e9, 8e9}, f.at, "after an event the waits begin anew")
	})
}

func TestASubscriptionObeysRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{opens: []func(uint64) (transport.Stream, error){
			func(uint64) (transport.Stream, error) { return &events{retry: 5 * time.Second}, nil },
			refuse(503),
			refuse(410),
		}}
		_, err := f.subscribe(t.Context(), Backoff{Base: time.Second, Cap: time.Minute}).Next()
		assert.ErrorIs(t, err, hub.ErrGone)
		assert.Equal(t, []time.Duration{0, 5e9, 12e9}, f.at, "first as told, then with the client's own wait on top")
	})
}

func TestASubscriptionEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{opens: []func(uint64) (transport.Stream, error){refuse(503), refuse(503), refuse(503)}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := f.subscribe(ctx, Backoff{Base: time.Second, Cap: time.Minute}).Next()
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestWatchGivesASilentConnectionUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		dial := Watch(func(context.Context, string, string) (net.Conn, error) { return near, nil }, 3*time.Second)
		conn, err := dial(t.Context(), "tcp", "")
		require.NoError(t, err)
		defer conn.Close()
		go func() {
			for range 5 {
				time.Sleep(2 * time.Second)
				far.Write([]byte("beat"))
			}
		}()
		begin := time.Now()
		for err == nil {
			_, err = conn.Read(make([]byte, 10))
		}
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, 13*time.Second, time.Since(begin), "three seconds after the last sign of life")
	})
}

func TestAJournalKnowsWhatItAppliedAndSavesItsCursorLessOften(t *testing.T) {
	j := Journal{Every: 3}
	for id := uint64(1); id <= 8; id++ {
		assert.True(t, j.Take(hub.Event{ID: id}))
	}
	assert.EqualValues(t, 6, j.Cursor)
	for id := j.Cursor + 1; id <= 8; id++ {
		assert.False(t, j.Take(hub.Event{ID: id}), "event %d was applied", id)
	}
	assert.True(t, j.Take(hub.Event{ID: 9}))
	assert.Equal(t, Journal{Every: 3, Applied: 9, Cursor: 9}, j)
}
