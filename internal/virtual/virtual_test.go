package virtual

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnHourTakesNoTime(t *testing.T) {
	var slept time.Duration
	begin := time.Now()
	require.NoError(t, Run(func(context.Context) error {
		start := time.Now()
		time.Sleep(time.Hour)
		slept = time.Since(start)
		return nil
	}))
	assert.Equal(t, time.Hour, slept, "the virtual clock is exact")
	assert.Less(t, time.Since(begin), time.Minute, "and nobody waits for it")
}

func TestItRunsInABenchmark(t *testing.T) {
	var slept time.Duration
	r := testing.Benchmark(func(b *testing.B) {
		err := Run(func(context.Context) error {
			start := time.Now()
			time.Sleep(time.Hour)
			slept = time.Since(start)
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	})
	assert.Positive(t, r.N, "the benchmark passed")
	assert.Equal(t, time.Hour, slept)
}

func TestWhatGoesWrongIsAnError(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		f    func(context.Context) error
		want string
	}{
		"an error":                      {func(context.Context) error { return boom }, "boom"},
		"a panic":                       {func(context.Context) error { panic("ouch") }, "panic: ouch"},
		"FailNow of the test outside":   {func(context.Context) error { new(testing.T).FailNow(); return nil }, "left without returning"},
		"a wait that heeds the context": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "deadline exceeded"},
		"a wait that does not":          {func(context.Context) error { <-make(chan int); return nil }, "all goroutines in bubble are blocked"},
		"a goroutine left behind":       {func(context.Context) error { go func() { <-make(chan int) }(); return nil }, "blocked goroutines remain"},
		"a ticker left behind": {func(context.Context) error {
			go func() {
				for range time.Tick(time.Second) {
				}
			}()
			return nil
		}, "blocked goroutines remain"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, Run(c.f), c.want)
			assert.NoError(t, Run(func(context.Context) error { return nil }), "the next run is not affected")
		})
	}
}

func TestRandomnessIsTheSameInEveryRun(t *testing.T) {
	draw := func() (b [16]byte) {
		require.NoError(t, Run(func(context.Context) error { _, err := rand.Read(b[:]); return err }))
		return b
	}
	first := draw()
	assert.Equal(t, first, draw(), "two runs draw the same bytes")
	var outside [16]byte
	rand.Read(outside[:])
	assert.NotEqual(t, first, outside, "outside a run randomness is random")
}
