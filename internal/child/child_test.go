package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Main(map[string]any{
		"greeter": Once(func(name string) (map[string]string, error) {
			fmt.Println("what a child prints is no answer")
			return map[string]string{"hello": name, "env": os.Getenv("GODEBUG"), "pid": fmt.Sprint(os.Getpid())}, nil
		}),
		"broken":  Once(func(int) (int, error) { return 0, errors.New("out of order") }),
		"patient": Once(hold),
		"mortal":  Once(func(int) (int, error) { panic("too much") }),
		"hoarder": new(hoarder),
		"parent":  Once(haveAChild),
	})
	os.Exit(m.Run())
}

// A hoarder keeps what it is told to.
type hoarder struct{ kept [][]byte }

// Block has n goroutines that keep a thread each.
func (h *hoarder) Block(n int, _ *int) error {
	var ready sync.WaitGroup
	for range n {
		ready.Add(1)
		go func() {
			runtime.LockOSThread()
			ready.Done()
			select {}
		}()
	}
	ready.Wait()
	return nil
}

func (h *hoarder) Keep(n int, have *int) error {
	h.kept = append(h.kept, make([]byte, n))
	for i := range h.kept {
		*have += len(h.kept[i])
	}
	return nil
}

func (h *hoarder) Burn(n int, sum *int) error {
	for i := range n {
		*sum += i ^ *sum
	}
	return nil
}

func start(t *testing.T, role string) *Child {
	c, err := Start(t.Context(), role, "")
	require.NoError(t, err)
	return c
}

func TestAChildAnswersFromAProcessOfItsOwn(t *testing.T) {
	var out map[string]string
	t.Setenv("GODEBUG", "http2debug=0")
	require.NoError(t, Run(t.Context(), "greeter", "panicnil=1", "you", &out))
	assert.Equal(t, "you", out["hello"])
	assert.Equal(t, "http2debug=0,panicnil=1", out["env"], "the child's settings are added to those of its parent")
	assert.NotEqual(t, fmt.Sprint(os.Getpid()), out["pid"])
}

func TestAChildKeepsItsStateBetweenCalls(t *testing.T) {
	c := start(t, "hoarder")
	for i := 1; i <= 3; i++ {
		var have int
		require.NoError(t, c.Call("Keep", 10, &have))
		assert.Equal(t, 10*i, have)
	}
	assert.EqualError(t, c.Call("Give", 10, new(int)), "child hoarder: rpc: can't find method hoarder.Give")
	assert.NoError(t, c.Stop())
	assert.NoError(t, c.Stop(), "stopping twice is stopping once")
}

func TestAChildKnowsWhatItHolds(t *testing.T) {
	c := start(t, "hoarder")
	defer c.Stop()
	before, err := c.Memory()
	require.NoError(t, err)
	cpu, err := c.CPU()
	require.NoError(t, err)
	const n = 64 << 20
	require.NoError(t, c.Call("Keep", n, new(int)))
	after, err := c.Memory()
	require.NoError(t, err)
	assert.InDelta(t, n, after.Heap-before.Heap, n/100, "the heap is what is live")
	assert.Less(t, after.RSS-before.RSS, int64(n/10), "pages that nobody wrote to are not resident")
	assert.Equal(t, before.Goroutines, after.Goroutines)
	assert.Equal(t, before.FDs, after.FDs)
	require.NoError(t, c.Call("Burn", 10_000_000, new(int)))
	later, err := c.CPU()
	require.NoError(t, err)
	assert.Greater(t, later, cpu, "work takes time on a processor")
	allocs, err := c.Allocs()
	require.NoError(t, err)
	require.NoError(t, c.Call("Keep", n, new(int)))
	more, err := c.Allocs()
	require.NoError(t, err)
	assert.Greater(t, more, allocs, "what it keeps is an object")
	const threads = 100
	require.NoError(t, c.Call("Block", threads, new(int)))
	blocked, err := c.Memory()
	require.NoError(t, err)
	assert.Equal(t, threads, blocked.Goroutines-after.Goroutines)
	assert.GreaterOrEqual(t, blocked.Threads-after.Threads, threads/2, "but for those that were idle")
	assert.Less(t, blocked.Stack-after.Stack, int64(threads*8<<10), "a thread's signal stack is no goroutine's")
}

func TestWhatAChildSaysOfItsFailureIsKept(t *testing.T) {
	assert.EqualError(t, Run(t.Context(), "broken", "", 0, new(int)), "child broken: out of order")
	assert.EqualError(t, Run(t.Context(), "juggler", "", 0, new(int)), "child juggler: exit status 1: nobody plays this role")
	err := Run(t.Context(), "mortal", "", 0, new(int))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "child mortal: exit status 2: panic: too much", "a panic's text comes along")
}

func TestAChildThatHangsShowsItsGoroutines(t *testing.T) {
	c := start(t, "hoarder")
	require.NoError(t, c.Call("Block", 1, new(int)))
	defer func(before time.Duration) { patience = before }(patience)
	patience = 10 * time.Millisecond
	err := c.Call("Burn", math.MaxInt, new(int))
	require.ErrorContains(t, err, "hoarder.Burn took longer than 10ms: child hoarder: exit status 2: SIGQUIT: quit")
	assert.ErrorContains(t, err, "(*hoarder).Block")
}

// hold is busy for ever, with a connection that ends with the process.
func hold(addr string) (int, error) {
	if _, err := net.Dial("tcp", addr); err != nil {
		return 0, err
	}
	select {}
}

// haveAChild does the same in a child of its own.
func haveAChild(addr string) (out int, err error) {
	return out, Run(context.Background(), "patient", "", addr, &out)
}

func TestAChildIsNoOrphan(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	ctx, kill := context.WithCancel(t.Context())
	parent := make(chan error)
	go func() { parent <- Run(ctx, "parent", "", ln.Addr().String(), new(int)) }()
	child, err := ln.Accept()
	require.NoError(t, err)
	defer child.Close()
	kill()
	assert.ErrorIs(t, <-parent, context.Canceled)
	child.SetReadDeadline(time.Now().Add(time.Minute))
	_, err = child.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF, "a child ends when its parent is killed, though it was busy")
}
