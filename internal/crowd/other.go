//go:build !linux

package crowd

import (
	"errors"
	"syscall"
)

// There is no epoll here.
var epolls []Contestant

func reusePort(_, _ string, _ syscall.RawConn) error {
	return errors.New("crowd: several processes share a port on Linux only")
}
