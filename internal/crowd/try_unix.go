//go:build unix

package crowd

import (
	"sync"
	"syscall"
)

// A trial is one write(2), as far as the kernel takes it: what package net,
// which waits for the rest, cannot be asked for.
type trial struct {
	data  []byte
	n     int
	err   error
	write func(fd uintptr) (done bool)
}

var trials = sync.Pool{New: func() any {
	t := new(trial)
	t.write = func(fd uintptr) bool {
		for {
			if t.n, t.err = syscall.Write(int(fd), t.data); t.err != syscall.EINTR {
				return true
			}
		}
	}
	return t
}}

// try writes as much of p as the socket has room for.
func (c *conn) try(p []byte) (int, error) {
	c.door.writes.Add(1)
	if c.raw == nil {
		return c.Conn.Write(p) // which a stub always has room for
	}
	t := trials.Get().(*trial)
	defer trials.Put(t)
	t.data = p
	err := c.raw.Write(t.write)
	t.data = nil
	if err == nil {
		err = t.err
	}
	if err == syscall.EAGAIN {
		return 0, nil
	}
	return max(0, t.n), err
}
