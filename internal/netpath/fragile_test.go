package netpath_test

import (
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"pushcost/internal/netpath"
)

// doomed is a bubble whose only connection has this fate, and tells its end.
func doomed(t *testing.T, fate netpath.Fate, f func(t *testing.T, client, server net.Conn, end *netpath.End)) {
	synctest.Test(t, func(t *testing.T) {
		var end netpath.End
		fate.Ended = func(e netpath.End) {
			assert.Zero(t, end, "a connection ends once")
			end = e
		}
		n := netpath.Fragile(netpath.Symmetric(time.Millisecond), func(n int) netpath.Fate {
			assert.Equal(t, 1, n)
			return fate
		})
		client, server := connect(t, n)
		f(t, client, server, &end)
		client.Close()
		server.Close()
	})
}

func TestAResetWithinAWrite(t *testing.T) {
	doomed(t, netpath.Fate{Write: 2, Part: 0.5, After: time.Hour}, func(t *testing.T, client, server net.Conn, end *netpath.End) {
		write(t, client, "first")
		assert.Equal(t, "first", read(t, server))
		n, err := client.Write([]byte("second"))
		assert.Equal(t, 3, n, "half of it should pass")
		isOpError(t, err, syscall.ECONNRESET, "a Write that is cut should fail")
		_, err = client.Read(make([]byte, 1))
		isOpError(t, err, syscall.ECONNRESET, "and so should a Read")
		_, err = server.Read(make([]byte, 1))
		isOpError(t, err, syscall.ECONNRESET, "a reset should overtake what is under way")
		_, err = server.Write([]byte("x"))
		isOpError(t, err, syscall.ECONNRESET, "the server should be told too")
		assert.Equal(t, netpath.End{Cut: true, Sent: []byte("firstsec")}, *end)
		assert.NoError(t, client.Close(), "what is reset can be closed")
		isOpError(t, client.Close(), net.ErrClosed, "once")
	})
}

func TestAResetWithinARead(t *testing.T) {
	doomed(t, netpath.Fate{Read: 2, Part: 0.5}, func(t *testing.T, client, server net.Conn, end *netpath.End) {
		write(t, server, "first")
		write(t, server, "second")
		assert.Equal(t, "first", read(t, client))
		assert.Equal(t, "sec", read(t, client), "half of it should come through")
		_, err := client.Read(make([]byte, 1))
		isOpError(t, err, syscall.ECONNRESET, "the rest should not")
		assert.Equal(t, netpath.End{Cut: true, Received: []byte("firstsec")}, *end)
	})
}

func TestACutBetweenTwoReads(t *testing.T) {
	doomed(t, netpath.Fate{Read: 2}, func(t *testing.T, client, server net.Conn, end *netpath.End) {
		write(t, server, "first")
		write(t, server, "second")
		assert.Equal(t, "first", read(t, client))
		_, err := client.Read(make([]byte, 1))
		isOpError(t, err, syscall.ECONNRESET, "nothing of the second should come through")
		assert.Equal(t, "first", string(end.Received))
	})
}

func TestAConnectionFallsSilent(t *testing.T) {
	doomed(t, netpath.Fate{After: 2 * time.Second, Silent: 20 * time.Second}, func(t *testing.T, client, server net.Conn, end *netpath.End) {
		start := time.Now().Add(-time.Millisecond) // of Dial's return: what the server accepts has come one way
		time.Sleep(time.Until(start.Add(2*time.Second - time.Nanosecond)))
		write(t, client, "under way up")
		write(t, server, "under way down")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, netpath.End{Cut: true, Sent: []byte("under way up")}, *end)
		write(t, client, "lost")
		write(t, server, "lost")
		assert.Equal(t, "under way up", read(t, server), "what was under way should land")
		_, err := server.Read(make([]byte, 1))
		isOpError(t, err, syscall.ECONNRESET, "the server should give up")
		assert.Equal(t, 22*time.Second, time.Since(start), "when it should")
		_, err = server.Write([]byte("x"))
		isOpError(t, err, syscall.ECONNRESET, "in both directions")
		client.SetReadDeadline(start.Add(time.Hour))
		_, err = client.Read(make([]byte, 1))
		isOpError(t, err, os.ErrDeadlineExceeded, "the client should hear of nothing")
	})
}

func TestAClientThatLeavesASilentConnection(t *testing.T) {
	doomed(t, netpath.Fate{After: time.Second, Silent: 20 * time.Second}, func(t *testing.T, client, server net.Conn, end *netpath.End) {
		start := time.Now().Add(-time.Millisecond)
		time.Sleep(2 * time.Second)
		assert.NoError(t, client.Close())
		_, err := server.Read(make([]byte, 1))
		isOpError(t, err, syscall.ECONNRESET, "the server should not see the FIN")
		assert.Equal(t, 21*time.Second, time.Since(start), "but give up in the end")
	})
}

func TestAWriteThatFallsSilent(t *testing.T) {
	doomed(t, netpath.Fate{Write: 1, Part: 0.5, Silent: 20 * time.Second}, func(t *testing.T, client, server net.Conn, end *netpath.End) {
		write(t, client, "second")
		assert.Equal(t, "sec", read(t, server), "half of it should arrive")
		assert.Equal(t, "sec", string(end.Sent))
	})
}

func TestAConnectionThatIsClosedBeforeItsFate(t *testing.T) {
	doomed(t, netpath.Fate{After: time.Second}, func(t *testing.T, client, server net.Conn, end *netpath.End) {
		write(t, client, "bye")
		assert.NoError(t, client.Close())
		assert.Equal(t, netpath.End{Sent: []byte("bye")}, *end)
		time.Sleep(time.Minute)
	})
}
