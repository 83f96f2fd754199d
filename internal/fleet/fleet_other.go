//go:build !linux

package fleet

import (
	"errors"

	"pushcost/internal/setup"
)

var errSystem = errors.New("fleet: its clients need epoll: run this on Linux")

// A Fleet needs Linux.
type Fleet struct{}

func Descriptors(int) error                    { return errSystem }
func Opening(setup.Setup) ([]byte, error)      { return nil, errSystem }
func (*Fleet) Dial(DialArgs, *Dialed) error    { return errSystem }
func (*Fleet) Expect(ExpectArgs, *int) error   { return errSystem }
func (*Fleet) Await(AwaitArgs, *Awaited) error { return errSystem }
func (*Fleet) Send(SendArgs, *int) error       { return errSystem }
func (*Fleet) Ping(PingArgs, *int) error       { return errSystem }
func (*Fleet) Stall(int, *int) error           { return errSystem }
func (*Fleet) Cut(CutArgs, *int) error         { return errSystem }
func (*Fleet) Close(int, *int) error           { return errSystem }
func (*Fleet) Counts(int, *Counts) error       { return errSystem }
