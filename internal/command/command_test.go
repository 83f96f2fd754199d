package command

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACommandIsReadAsItWasWritten(t *testing.T) {
	for text, want := range map[string]Command{
		`{"id":12,"nonce":"0badcafe"}`:         {ID: 12, Nonce: "0badcafe"},
		`{"id":12,"nonce":"0badcafe","seq":3}`: {ID: 12, Nonce: "0badcafe", Seq: 3},
	} {
		assert.Equal(t, text, string(want.Encode()))
		got, err := Decode([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		``:                                "EOF",
		`{"id":1,"nonce":"a"`:             "unexpected EOF",
		`{"id":1,"nonce":"a"} {}`:         "something behind it",
		`{"id":1,"nonce":"a"}]`:           "something behind it",
		`{"id":1}`:                        "no nonce",
		`{"id":"1","nonce":"a"}`:          "cannot unmarshal string",
		`{"id":1,"nonce":"a","seq":-1}`:   "cannot unmarshal number -1",
		`{"id":1,"nonce":"a","user":"b"}`: `unknown field "user"`,
	} {
		_, err := Decode([]byte(text))
		assert.ErrorContains(t, err, want, text)
	}
}

// A client sends its commands to an order, at once and in this sequence;
// what is applied, and what becomes of each, is known once all have ended.
type client struct {
	order   *Order
	applied []uint64 // not locked: the order is to be enough
	mu      sync.Mutex
	ended   map[uint64]string // the error, and when
}

func alice() *client { return &client{order: NewOrder(4, time.Second), ended: map[uint64]string{}} }

func (c *client) send(begin time.Time, seqs ...uint64) {
	for _, seq := range seqs {
		go func() {
			err := c.order.Do(context.Background(), "alice", seq, func() error {
				c.applied = append(c.applied, seq)
				return nil
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ended[seq] = fmt.Sprintf("%v after %v", err, time.Since(begin))
		}()
		synctest.Wait()
	}
}

func TestAnOrderAppliesInSequence(t *testing.T) {
	for name, c := range map[string]struct {
		sent, applied []uint64
		ended         map[uint64]string
	}{
		"in order":                     {[]uint64{1, 2, 3}, []uint64{1, 2, 3}, map[uint64]string{1: "<nil> after 0s", 2: "<nil> after 0s", 3: "<nil> after 0s"}},
		"reversed":                     {[]uint64{3, 2, 1}, []uint64{1, 2, 3}, map[uint64]string{1: "<nil> after 0s", 2: "<nil> after 0s", 3: "<nil> after 0s"}},
		"a gap is given up":            {[]uint64{1, 4, 3}, []uint64{1, 3, 4}, map[uint64]string{1: "<nil> after 0s", 3: "<nil> after 1s", 4: "<nil> after 1s"}},
		"each gap has its patience":    {[]uint64{5, 3}, []uint64{3, 5}, map[uint64]string{3: "<nil> after 1s", 5: "<nil> after 2s"}},
		"a full window has none":       {[]uint64{6, 5, 4, 3, 2}, []uint64{3, 4, 5, 6}, map[uint64]string{2: "refused: 409: the turn of command 2 is over or taken after 0s", 3: "<nil> after 0s", 4: "<nil> after 0s", 5: "<nil> after 0s", 6: "<nil> after 0s"}},
		"a straggler is refused":       {[]uint64{2, 3, 4, 5, 1}, []uint64{2, 3, 4, 5}, map[uint64]string{1: "refused: 409: the turn of command 1 is over or taken after 0s", 2: "<nil> after 0s", 3: "<nil> after 0s", 4: "<nil> after 0s", 5: "<nil> after 0s"}},
		"a gap that is filled in time": {[]uint64{2, 1, 4}, []uint64{1, 2, 4}, map[uint64]string{1: "<nil> after 0s", 2: "<nil> after 0s", 4: "<nil> after 1s"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			alice := alice()
			alice.send(time.Now(), c.sent...)
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Equal(t, c.applied, alice.applied, name)
			assert.Equal(t, c.ended, alice.ended, name)
		})
	}
}

func TestACommandWithoutANumberDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alice := alice()
		alice.send(time.Now(), 2)
		applied := false
		assert.NoError(t, alice.order.Do(context.Background(), "alice", 0, func() error { applied = true; return nil }))
		assert.True(t, applied)
		assert.Empty(t, alice.applied, "the one before it still waits")
		alice.send(time.Now(), 1)
	})
}

func TestAStragglerIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alice := alice()
		begin := time.Now()
		alice.send(begin, 2)
		time.Sleep(2 * time.Second)
		alice.send(begin, 1)
		alice.send(begin, 2)
		assert.Equal(t, []uint64{2}, alice.applied, "neither late nor twice")
		assert.Equal(t, map[uint64]string{1: "refused: 409: the turn of command 1 is over or taken after 2s", 2: "refused: 409: the turn of command 2 is over or taken after 2s"}, alice.ended)
		assert.Equal(t, 2, alice.order.Late())
	})
}

// The patience with one gap must not end the next one early.
func TestAFilledGapLeavesNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alice := alice()
		begin := time.Now()
		alice.send(begin, 2)
		time.Sleep(900 * time.Millisecond)
		alice.send(begin, 1, 4)
		time.Sleep(900 * time.Millisecond)
		alice.send(begin, 3)
		assert.Equal(t, []uint64{1, 2, 3, 4}, alice.applied)
	})
}

func TestASlowHandlerFillsTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrder(4, time.Second)
		errs := make(chan error, 7)
		for seq := uint64(1); seq <= 6; seq++ {
			go func() {
				errs <- o.Do(context.Background(), "alice", seq, func() error { time.Sleep(time.Hour); return nil })
			}()
			synctest.Wait()
		}
		assert.EqualError(t, <-errs, "refused: 429: 4 commands wait already")
		assert.EqualError(t, o.Do(context.Background(), "alice", 1, nil), "refused: 409: the turn of command 1 is over or taken", "nor is what runs repeated")
		assert.EqualError(t, o.Do(context.Background(), "alice", 3, nil), "refused: 409: the turn of command 3 is over or taken", "nor what waits")
		assert.NoError(t, o.Do(context.Background(), "bob", 1, func() error { return nil }), "another client does not wait")
		begin := time.Now()
		for range 5 {
			assert.NoError(t, <-errs)
		}
		assert.Equal(t, 5*time.Hour, time.Since(begin), "one after the other, and no gap among them")
	})
}

func TestAPanicInAHandlerPassesTheTurnOn(t *testing.T) {
	o := NewOrder(4, time.Hour)
	assert.Panics(t, func() { o.Do(context.Background(), "alice", 1, func() error { panic("handler") }) })
	assert.NoError(t, o.Do(context.Background(), "alice", 2, func() error { return nil }))
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := NewRate(1, 2), NewOrder(4, time.Second)
		for i := range Clients {
			_, refusal := r.take(fmt.Sprint(i))
			require.Nil(t, refusal)
			require.NoError(t, o.Do(context.Background(), fmt.Sprint(i), 1, func() error { return nil }))
		}
		after, refusal := r.take("another")
		require.NotNil(t, refusal, "nobody can be forgotten")
		assert.Equal(t, 503, refusal.Status)
		assert.Equal(t, 1, after)
		time.Sleep(time.Second)
		_, refusal = r.take("another")
		assert.Nil(t, refusal, "a bucket that is full again can")
		assert.NoError(t, o.Do(context.Background(), "another", 1, func() error { return nil }), "as can a client who does not wait")
		assert.Len(t, r.buckets.clients, Clients)
		assert.Len(t, o.queues.clients, Clients)
	})
}

func TestARateIsEachClientsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRate(0.4, 2) // one in 2.5 s
		for _, want := range []int{0, 0, 3, 3} {
			after, refusal := r.take("alice")
			assert.Equal(t, want, after, "rounded up, and a refused command does not count")
			assert.Equal(t, want > 0, refusal != nil)
		}
		_, refusal := r.take("bob")
		assert.Nil(t, refusal)
		time.Sleep(2500 * time.Millisecond)
		_, refusal = r.take("alice")
		assert.Nil(t, refusal)
	})
}

func TestOrderLetsAClientLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrder(4, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- o.Do(ctx, "alice", 2, func() error { panic("its turn has not come") }) }()
		synctest.Wait()
		cancel()
		assert.EqualError(t, <-done, "refused: 503: command 2 was not applied: context canceled", "it does not wait for number 1")
		assert.NoError(t, o.Do(t.Context(), "alice", 1, func() error { return nil }), "which finds its turn")
		assert.NoError(t, o.Do(t.Context(), "alice", 2, func() error { return nil }), "and so does the next try")
	})
}
