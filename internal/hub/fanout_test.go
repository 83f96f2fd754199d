package hub

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kept is a sink that keeps what it is sent, until it has enough.
type kept struct {
	got    []int
	enough int // 0: never
}

func (k *kept) Send(m int) error {
	if k.enough > 0 && len(k.got) == k.enough {
		return errors.New("enough")
	}
	k.got = append(k.got, m)
	return nil
}

func TestEverySinkGetsEveryBroadcastInOrder(t *testing.T) {
	var f Fanout[int]
	sinks := make([]kept, 10)
	for i := range sinks {
		f.Add(&sinks[i])
	}
	for m := range 5 {
		sent, dropped := f.Broadcast(m)
		assert.Equal(t, []int{10, 0}, []int{sent, dropped})
	}
	for i := range sinks {
		assert.Equal(t, []int{0, 1, 2, 3, 4}, sinks[i].got)
	}
}

func TestASinkThatFailsIsRemoved(t *testing.T) {
	var f Fanout[int]
	sinks := []*kept{{}, {enough: 1}, {}}
	for _, s := range sinks {
		f.Add(s)
	}
	var all [][2]int
	for m := range 3 {
		sent, dropped := f.Broadcast(m)
		all = append(all, [2]int{sent, dropped})
	}
	assert.Equal(t, [][2]int{{3, 0}, {2, 1}, {2, 0}}, all, "it is dropped once")
	assert.Equal(t, 2, f.Len())
	assert.Equal(t, []int{0}, sinks[1].got)
	assert.Equal(t, []int{0, 1, 2}, sinks[2].got, "and the others notice nothing")
}

func TestARemovedSinkGetsNothing(t *testing.T) {
	var f Fanout[int]
	sinks := make([]kept, 4)
	var removes []func()
	for i := range sinks {
		removes = append(removes, f.Add(&sinks[i]))
	}
	removes[0]()
	removes[3]()
	removes[0]() // again, which does nothing
	f.Broadcast(7)
	assert.Equal(t, 2, f.Len())
	for i, want := range []int{0, 1, 1, 0} {
		assert.Len(t, sinks[i].got, want, "sink %d", i)
	}
}

func TestARemovedSinkIsForgotten(t *testing.T) {
	var f Fanout[int]
	f.Add(new(kept))
	gone := func() weak.Pointer[kept] {
		sink := new(kept)
		remove := f.Add(sink)
		f.Broadcast(1)
		remove()
		return weak.Make(sink)
	}()
	runtime.GC()
	assert.Nil(t, gone.Value(), "the registry keeps nobody's memory")
	runtime.KeepAlive(&f)
}

// remover removes another sink when it is sent something: a registry that held
// its lock meanwhile would never return.
type remover struct{ remove func() }

func (r remover) Send(int) error { r.remove(); return nil }

func TestASinkMayRemoveAnother(t *testing.T) {
	var f Fanout[int]
	remove := f.Add(&kept{})
	f.Add(remover{remove})
	f.Broadcast(1)
	assert.Equal(t, 1, f.Len())
}

func TestSinksComeAndGoDuringBroadcasts(t *testing.T) {
	var f Fanout[int]
	stays := new(kept)
	f.Add(stays)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				remove := f.Add(new(kept))
				remove()
			}
		})
	}
	for m := range 200 {
		f.Broadcast(m)
	}
	wg.Wait()
	assert.Equal(t, 1, f.Len())
	require.Len(t, stays.got, 200)
	assert.True(t, slices.IsSorted(stays.got))
}

func TestACountCanBeAwaited(t *testing.T) {
	var c Count
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { assert.NoError(t, c.Await(t.Context(), 7)) })
	}
	for range 7 {
		c.Add(1)
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.EqualError(t, c.Await(ctx, 8), "waited for 8, there are 7: context canceled")
	assert.NoError(t, c.Await(ctx, 7), "what is the case need not be waited for")
}
