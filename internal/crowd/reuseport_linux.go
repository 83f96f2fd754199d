package crowd

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// reusePort lets several processes listen on one port, between which the kernel
// divides the clients.
func reusePort(_, _ string, raw syscall.RawConn) (err error) {
	gone := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if err == nil {
		err = gone
	}
	return err
}
