package fleet

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a server may take to accept, to answer a request, or to
// read what a client writes.
var patience = 10 * time.Second

// A socket is a TCP connection as the kernel knows it. It blocks, for
// [patience] at most, until unblock.
type socket int

// connect dials from a local address (the zero Addr: any) with this SO_RCVBUF
// (0: the system's).
func connect(from netip.Addr, to netip.AddrPort, window int) (s socket, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	limit := unix.NsecToTimeval(int64(patience))
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
	)
	if window > 0 {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, window))
	}
	if from.IsValid() { // the port is chosen by connect, which knows that it may serve for several servers
		err = errors.Join(err,
			unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
			unix.Bind(fd, &unix.SockaddrInet4{Addr: from.As4()}))
	}
	if err != nil {
		return -1, os.NewSyscallError("setsockopt", err)
	}
	for {
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
		switch err {
		case unix.EINTR: // and goes on meanwhile
			continue
		case unix.EADDRNOTAVAIL:
			err = errors.New("no local port is left: dial from another address (From: 127.0.0.2)")
		case unix.EINPROGRESS:
			err = fmt.Errorf("not accepted within %s", patience)
		}
		return socket(fd), err
	}
}

func (s socket) unblock() error { return unix.SetNonblock(int(s), true) }

// Read is one read(2). EAGAIN, as a [unix.Errno], is a temporary net.Error.
func (s socket) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(s), b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write writes all of b. A client writes little, so that it seldom waits.
func (s socket) Write(b []byte) (n int, err error) {
	for n < len(b) {
		k, err := unix.Write(int(s), b[n:])
		switch err {
		case nil:
			n += k
		case unix.EINTR:
		case unix.EAGAIN:
			if err := s.writable(); err != nil {
				return n, err
			}
		default:
			return n, err
		}
	}
	return n, nil
}

// writable waits until the server has read some of what was written.
func (s socket) writable() error {
	for deadline := time.Now().Add(patience); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("the server has read nothing for %s", patience)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s), Events: unix.POLLOUT}}, int(left.Milliseconds())+1)
		if n > 0 {
			return nil
		}
		if err != nil && err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
	}
}

// close sends a FIN, or a RST, which leaves no port behind in TIME_WAIT. A FIN
// becomes a RST where the client has not read all there was.
func (s socket) close(reset bool) {
	if reset { // its failure, like close's, would tell of a descriptor that is none
		unix.SetsockoptLinger(int(s), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	unix.Close(int(s))
}

// gone says that an error of Read or Write is the server's leaving, in the
// middle of a TLS record or not.
func gone(err error) bool {
	return err == io.EOF || err == io.ErrUnexpectedEOF || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// A poller is an epoll set and an eventfd in it, to end the wait.
type poller struct {
	epoll, stop int
	ready       [512]unix.EpollEvent
}

func newPoller() (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create", err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	p := &poller{epoll: epoll, stop: stop}
	if err := p.add(socket(stop)); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) add(s socket) error {
	return p.control(unix.EPOLL_CTL_ADD, s, unix.EPOLLIN)
}

// deafen leaves only the connection's end to be told.
func (p *poller) deafen(s socket) error {
	return p.control(unix.EPOLL_CTL_MOD, s, unix.EPOLLRDHUP)
}

func (p *poller) control(op int, s socket, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.epoll, op, int(s), &unix.EpollEvent{Events: events, Fd: int32(s)}))
}

// wait returns the sockets that are ready. They are valid until the next call.
func (p *poller) wait() ([]unix.EpollEvent, error) {
	for {
		n, err := unix.EpollWait(p.epoll, p.ready[:], -1)
		if err != unix.EINTR {
			return p.ready[:max(n, 0)], os.NewSyscallError("epoll_wait", err)
		}
	}
}

func (p *poller) wake() error {
	_, err := unix.Write(p.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return os.NewSyscallError("eventfd", err)
}

func (p *poller) close() {
	unix.Close(p.epoll)
	unix.Close(p.stop)
}

// spare are the descriptors that a process needs beside its clients'.
const spare = 64

// Descriptors tells whether a process like this one can hold n connections. Go
// itself has raised the soft limit to the hard one.
func Descriptors(n int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if need := uint64(n + spare); need > limit.Max {
		return fmt.Errorf("fleet: too few file descriptors: %d connections need %d, the limit is %d: ulimit -n %[2]d", n, need, limit.Max)
	}
	return nil
}
