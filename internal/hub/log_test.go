package hub

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func publish(l *Log, from, to int) {
	for i := from; i <= to; i++ {
		l.Publish(fmt.Append(nil, i))
	}
}

func TestSinceReturnsWhatFollowsTheCursor(t *testing.T) {
	l := NewLog(10)
	publish(l, 1, 5)
	for after := range uint64(6) {
		events, _, err := l.Since(after)
		require.NoError(t, err)
		require.Len(t, events, int(5-after), "a cursor at %d has the rest before it", after)
		for i, e := range events {
			assert.Equal(t, after+uint64(i)+1, e.ID, "ids have no gaps")
			assert.Equal(t, fmt.Sprint(e.ID), string(e.Data), "an event carries its payload")
		}
	}
}

func TestACursorOutsideTheLogIsGone(t *testing.T) {
	l := NewLog(3)
	publish(l, 1, 5)
	events, _, err := l.Since(2)
	require.NoError(t, err)
	assert.Len(t, events, 3, "the ring keeps its last three")
	_, _, err = l.Since(1)
	assert.ErrorIs(t, err, ErrGone, "event 2 was overwritten: a subscriber must not skip it in silence")
	_, _, err = l.Since(6)
	assert.ErrorIs(t, err, ErrGone, "a cursor past the end belongs to another log")
}

func TestMoreIsClosedByTheNextPublish(t *testing.T) {
	l := NewLog(3)
	_, more, err := l.Since(0)
	require.NoError(t, err)
	select {
	case <-more:
		t.Fatal("nothing was published")
	default:
	}
	publish(l, 1, 1)
	<-more
}

func TestLastIsTheNewestEvent(t *testing.T) {
	l := NewLog(3)
	last, more := l.Last()
	assert.Zero(t, last, "nothing was published")
	publish(l, 1, 5)
	<-more
	last, _ = l.Last()
	assert.Equal(t, uint64(5), last)
}

func TestParkedMeansSubscribedAndCaughtUp(t *testing.T) {
	l := NewLog(3)
	publish(l, 1, 1)
	l.Since(0)
	select {
	case <-l.Parked():
		t.Fatal("a subscriber with events to send is not parked")
	default:
	}
	l.Since(1)
	<-l.Parked()
}

func TestConcurrentSubscribersSeeEveryEventOnce(t *testing.T) {
	const n = 1000
	l := NewLog(n)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for seen := uint64(0); seen < n; {
				events, more, err := l.Since(seen)
				if !assert.NoError(t, err) {
					return
				}
				for _, e := range events {
					assert.Equal(t, seen+1, e.ID, "in order, without gaps")
					seen = e.ID
				}
				if len(events) == 0 {
					<-more
				}
			}
		})
	}
	publish(l, 1, n)
	wg.Wait()
}
