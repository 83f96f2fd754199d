// Package virtual runs a function in virtual time: in a [synctest] bubble,
// where the clock moves only when everybody waits, so that an hour of
// heartbeats takes milliseconds and a delay is exact to the nanosecond.
//
// CPU time costs nothing there. What is measured is the network's share.
package virtual

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

// Limit is how long f may take by the virtual clock. It turns a wait that
// would never end into an error.
const Limit = 24 * time.Hour

// landing is granted after f for what is still in flight (FINs, timers of
// connections being closed): when the bubble's clock stops, all must be over.
const landing = time.Minute

var (
	errUnfinished = errors.New("virtual: the function left without returning (runtime.Goexit or FailNow inside a bubble)")
	errRace       = errors.New("virtual: the race detector has found what it has printed")
)

// Run calls f in a bubble of its own and returns its error. A panic of f, a
// FailNow inside it, a goroutine it leaves behind, a wait past [Limit] and a
// data race are errors as well. Its context ends at [Limit] or when f returns.
//
// Cryptographic randomness is the same in every run, so that handshakes,
// masks and keys are. That source is the process's, so Runs are not to be
// concurrent.
func Run(f func(ctx context.Context) error) error {
	result := make(chan error)
	go bubble(f, result) // a goroutine, since a zero T does not survive a race: it calls runtime.Goexit
	return <-result
}

func bubble(f func(ctx context.Context) error, result chan<- error) {
	var err error
	raced := true
	random := rand.Reader
	defer func() {
		rand.Reader = random          // a bubble that deadlocks runs no clean-ups
		if r := recover(); r != nil { // synctest found a deadlock
			err = errors.Join(err, fmt.Errorf("virtual: %v", r))
		} else if raced {
			err = errors.Join(err, errRace)
		}
		result <- err
	}()
	// synctest wants a *testing.T, which a Benchmark or a child process lacks.
	// It gets a zero one: of it Go 1.26 uses the failure flag, the name and the
	// clean-ups. A zero T drops what it is told, hence errors only.
	synctest.Test(new(testing.T), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, 1)
		returned := make(chan error, 1)
		go call(f, returned) // likewise
		err = <-returned
		time.Sleep(landing)
		synctest.Wait() // orders what those goroutines did before the clean-ups, for the race detector
	})
	raced = false
}

func call(f func(ctx context.Context) error, returned chan<- error) {
	err := errUnfinished
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("virtual: panic: %v\n%s", r, debug.Stack())
		}
		returned <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	err = f(ctx)
}
