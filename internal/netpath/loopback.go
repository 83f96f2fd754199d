package netpath

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Loopback is a network of real TCP sockets, with the path spliced in between
// each client and its socket: the delaying, counting proxy. Servers are
// untouched, they may even run in another process.
//
// It differs from [Memory] where a proxy must: Dial returns as the server can
// accept, not Up.Delay earlier. Down is counted as the bytes come out of the
// socket, so that Down.Writes is the proxy's reads: several writes of the server
// that the proxy finds together are one, and one of more than 32 KiB is several.
// The kernel's socket buffers add to the Windows. A reset by the server reaches
// the client as EOF, after the data before it.
//
// Closing a client ends its connection whatever the server does: what was
// written before is still delivered, but if the server's kernel stops taking it
// for a quarter of a second, the connection is reset.
func Loopback(path Path) Network {
	return &loopback{meter{path: path}}
}

type loopback struct{ meter }

func (l *loopback) Listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

func (l *loopback) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	to, err := parse("dial", network, addr)
	if err != nil {
		return nil, err
	}
	// The round trip comes first: a Dial given up has no socket that a server could see.
	if err := Sleep(ctx, l.path.RTT()); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	var d net.Dialer
	socket, err := d.DialTCP(ctx, network, netip.AddrPort{}, to)
	if err != nil {
		return nil, err
	}
	c, far := l.conns(l.opened(), socket.LocalAddr(), socket.RemoteAddr())
	s := &spliced{conn: c, far: far, socket: socket}
	go s.splice()
	return s, nil
}

// A spliced is a client's end whose far end is tied to a socket.
type spliced struct {
	*conn
	far    *conn
	socket *net.TCPConn
	gone   atomic.Bool // the client
}

func (s *spliced) Close() error {
	err := s.conn.Close()
	s.gone.Store(true)
	s.socket.SetReadDeadline(time.Unix(0, 0)) // there is nothing to carry down anymore
	return err
}

// splice ends when both directions have.
func (s *spliced) splice() {
	var up sync.WaitGroup
	up.Go(s.carryUp)
	io.Copy(s.far, s.socket)
	s.far.CloseWrite()
	up.Wait()
	s.socket.Close()
}

func (s *spliced) carryUp() {
	buf := make([]byte, 32<<10)
	for {
		n, err := s.far.Read(buf)
		if err == nil {
			err = s.flush(buf[:n])
		}
		switch err {
		case nil:
			continue
		case io.EOF:
			s.socket.CloseWrite()
		default:
			s.socket.SetLinger(0) // the server must not take what it got for all there was
			s.far.in.closeRead()  // the client's next Write fails
		}
		return
	}
}

// flush writes to the socket, for as long as it takes while the client is
// there, and else only what the server's kernel takes soon.
func (s *spliced) flush(data []byte) error {
	for {
		s.socket.SetWriteDeadline(time.Now().Add(250 * time.Millisecond))
		n, err := s.socket.Write(data)
		data = data[n:]
		if !errors.Is(err, os.ErrDeadlineExceeded) || s.gone.Load() {
			return err
		}
	}
}
