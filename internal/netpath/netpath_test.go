package netpath_test

import (
	"context"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"pushcost/internal/netpath"
)

// The networks behave like net's own connections. The window is there because
// nettest wants writers that block.
func TestConn(t *testing.T) {
	link := netpath.Link{Window: 64 << 10}
	slow := netpath.Link{Window: 64 << 10, Delay: 20 * time.Microsecond, Jitter: 20 * time.Microsecond, Rate: 1 << 30}
	for name, n := range map[string]netpath.Network{
		"Memory":       netpath.Memory(netpath.Path{Up: link, Down: link}),
		"MemorySlow":   netpath.Memory(netpath.Path{Up: slow, Down: slow}),
		"Fragile":      netpath.Fragile(netpath.Path{Up: link, Down: link}, func(int) netpath.Fate { return netpath.Fate{} }),
		"Loopback":     netpath.Loopback(netpath.Path{Up: link, Down: link}),
		"LoopbackSlow": netpath.Loopback(netpath.Path{Up: slow, Down: slow}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				client, server := connect(t, n)
				return client, server, func() { client.Close(); server.Close() }, nil
			})
		})
	}
}

func TestDelayIsExactAndNeverBlocksTheWriter(t *testing.T) {
	path := netpath.Path{Up: netpath.Link{Delay: 7*time.Millisecond + 3}, Down: netpath.Link{Delay: 11*time.Millisecond + 5}}
	bubble(t, path, func(t *testing.T, n netpath.Network, client, server net.Conn) {
		for _, way := range []struct {
			from, to net.Conn
			delay    time.Duration
		}{{client, server, path.Up.Delay}, {server, client, path.Down.Delay}} {
			start := time.Now()
			write(t, way.from, "one")
			time.Sleep(time.Nanosecond)
			write(t, way.from, "two")
			assert.EqualValues(t, 1, time.Since(start), "writers should not wait for the delay")

			assert.Equal(t, "one", read(t, way.to))
			assert.Equal(t, way.delay, time.Since(start), "the first segment should arrive after the delay")
			assert.Equal(t, "two", read(t, way.to))
			assert.Equal(t, way.delay+1, time.Since(start), "the second should arrive as much later as it was written")
		}
	})
}

func TestReadNeverJoinsSegments(t *testing.T) {
	bubble(t, netpath.Path{}, func(t *testing.T, n netpath.Network, client, server net.Conn) {
		write(t, client, "first")
		write(t, client, "second")
		n0, err := server.Read(make([]byte, 2))
		require.NoError(t, err)
		assert.Equal(t, 2, n0, "a small buffer should take a part of a segment")
		assert.Equal(t, "rst", read(t, server), "the rest of a segment should come alone, although more is there")
		assert.Equal(t, "second", read(t, server))
	})
}

// jitter writes a hundred times and returns how much more than the delay each
// segment took: on the given connection of a network, upwards or downwards.
func jitter(t *testing.T, every time.Duration, seed uint64, connection int, down bool) (extra []time.Duration) {
	const delay, writes = 5 * time.Millisecond, 100
	link := netpath.Link{Delay: delay, Jitter: 10 * time.Millisecond, Seed: seed}
	bubble(t, netpath.Path{Up: link, Down: link}, func(t *testing.T, n netpath.Network, from, to net.Conn) {
		for range connection - 1 {
			from, to = connect(t, n)
			defer from.Close()
			defer to.Close()
		}
		if down {
			from, to = to, from
		}
		start := time.Now()
		var writer sync.WaitGroup
		defer writer.Wait()
		writer.Go(func() {
			for i := range writes {
				from.Write([]byte(strconv.Itoa(i)))
				time.Sleep(every)
			}
		})
		for i := range writes {
			require.Equal(t, strconv.Itoa(i), read(t, to), "jitter should not reorder")
			extra = append(extra, time.Since(start)-time.Duration(i)*every-delay)
		}
	})
	return extra
}

func TestJitterIsReproducible(t *testing.T) {
	const every = 10 * time.Millisecond
	first := jitter(t, every, 1, 1, false)
	assert.Equal(t, first, jitter(t, every, 1, 1, false), "the same seed should give the same arrivals")
	assert.NotEqual(t, first, jitter(t, every, 2, 1, false), "another seed should give others")
	assert.NotEqual(t, first, jitter(t, every, 1, 2, false), "another connection should have others")
	assert.NotEqual(t, first, jitter(t, every, 1, 1, true), "the other direction should have others")

	var sum time.Duration
	for _, d := range first { // no write waits for an earlier one: they are as far apart as jitter goes
		assert.GreaterOrEqual(t, d, time.Duration(0), "jitter should not hasten")
		assert.Less(t, d, 10*time.Millisecond, "jitter should have its bound")
		sum += d
	}
	mean, sigma := 5e6, 10e6/math.Sqrt(12*100)
	assert.InDelta(t, mean, float64(sum)/100, 3*sigma, "jitter should be uniform (the seed is fixed: this is no gamble)")
}

func TestJitterKeepsTheOrder(t *testing.T) {
	extra := jitter(t, time.Microsecond, 1, 1, false) // a thousand times closer than the jitter
	held := 0
	for i := 1; i < len(extra); i++ {
		if extra[i] == extra[i-1]-time.Microsecond {
			held++
		}
	}
	assert.Greater(t, held, 50, "most segments should arrive together with a slower one before them")
}

func TestRate(t *testing.T) {
	path := netpath.Path{Up: netpath.Link{Delay: 100 * time.Millisecond, Rate: 1000}}
	bubble(t, path, func(t *testing.T, n netpath.Network, client, server net.Conn) {
		arrives := func(size int, start time.Time, after time.Duration, message string) {
			t.Helper()
			assert.Len(t, read(t, server), size)
			assert.Equal(t, after, time.Since(start), message)
		}
		start := time.Now()
		write(t, client, strings.Repeat("x", 500))
		write(t, client, strings.Repeat("x", 250))
		assert.Equal(t, start, time.Now(), "the bottleneck should not block the writer")
		arrives(500, start, 600*time.Millisecond, "500 B at 1000 B/s should take half a second, then the delay")
		arrives(250, start, 850*time.Millisecond, "the next segment should queue for the bottleneck, not for the delay")

		time.Sleep(time.Hour)
		start = time.Now()
		write(t, client, "x")
		arrives(1, start, 101*time.Millisecond, "an idle bottleneck should not have saved anything up")

		start = time.Now()
		write(t, server, "x")
		read(t, client)
		assert.Equal(t, start, time.Now(), "the other direction should not be limited")
	})
}

func TestWindow(t *testing.T) {
	path := netpath.Path{Up: netpath.Link{Delay: time.Millisecond, Window: 100}}
	bubble(t, path, func(t *testing.T, n netpath.Network, client, server net.Conn) {
		start := time.Now()
		write(t, client, strings.Repeat("x", 60))
		write(t, client, strings.Repeat("x", 40))
		assert.Equal(t, start, time.Now(), "a Write into the window should not block")

		client.SetWriteDeadline(start.Add(5 * time.Millisecond))
		k, err := client.Write(make([]byte, 41))
		isOpError(t, err, os.ErrDeadlineExceeded, "a Write into a full window should wait until its deadline")
		assert.Zero(t, k, "what does not fit should not be cut to fit")
		assert.Equal(t, 5*time.Millisecond, time.Since(start))
		client.SetWriteDeadline(time.Time{})

		go func() {
			time.Sleep(time.Millisecond)
			server.Read(make([]byte, 59)) // 59 free of 100
			time.Sleep(time.Millisecond)
			server.Read(make([]byte, 59)) // the 60th
		}()
		write(t, client, strings.Repeat("x", 60))
		assert.Equal(t, 7*time.Millisecond, time.Since(start), "Write should return when all of it fits: 60 B read of 100")
		assert.Equal(t, netpath.Flow{Bytes: 160, Writes: 3}, n.Count().Up, "what did not fit should not be counted")
	})
}

func TestWriteLargerThanTheWindow(t *testing.T) {
	path := netpath.Path{Up: netpath.Link{Delay: time.Millisecond, Window: 100}}
	bubble(t, path, func(t *testing.T, n netpath.Network, client, server net.Conn) {
		start := time.Now()
		var writers sync.WaitGroup
		writers.Go(func() { write(t, client, strings.Repeat("a", 250)) })
		synctest.Wait()
		writers.Go(func() { write(t, client, strings.Repeat("b", 30)) })
		_, err := io.ReadFull(server, make([]byte, 40)) // room for "b", none for the next piece of "a"
		require.NoError(t, err)
		synctest.Wait()
		for _, piece := range []string{strings.Repeat("a", 60), strings.Repeat("a", 100), strings.Repeat("a", 50), strings.Repeat("b", 30)} {
			assert.Equal(t, piece, read(t, server), "pieces should be as large as the window, and two Writes should not mix")
		}
		writers.Wait()
		assert.Equal(t, 3*time.Millisecond, time.Since(start), "every piece should wait until there is room for it")
		assert.Equal(t, netpath.Flow{Bytes: 280, Writes: 2}, n.Count().Up, "a Write should count once, however many its pieces")
	})
}

func TestFINTravelsLikeData(t *testing.T) {
	path := netpath.Path{Up: netpath.Link{Delay: 7 * time.Millisecond}, Down: netpath.Link{Delay: 10 * time.Millisecond, Rate: 1000}}
	bubble(t, path, func(t *testing.T, n netpath.Network, client, server net.Conn) {
		start := time.Now()
		require.NoError(t, client.(closeWriter).CloseWrite())
		_, err := client.Write([]byte("x"))
		isOpError(t, err, syscall.EPIPE, "a Write after CloseWrite should fail")
		_, err = server.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err, "the end should be a bare EOF")
		assert.Equal(t, 7*time.Millisecond, time.Since(start), "CloseWrite should arrive after the delay")

		start = time.Now()
		write(t, server, "20 bytes of answer..")
		require.NoError(t, server.Close(), "the other direction should be open until here")
		assert.Equal(t, start, time.Now(), "Close should not wait for what was written")
		assert.Equal(t, "20 bytes of answer..", read(t, client), "Close should not lose what was written")
		for range 2 {
			_, err = client.Read(make([]byte, 1))
			assert.Equal(t, io.EOF, err, "the end should stay the end")
			assert.Equal(t, 30*time.Millisecond, time.Since(start), "FIN should come right after the last data")
		}
	})
}

func TestFINAloneIsDelayed(t *testing.T) {
	bubble(t, netpath.Symmetric(25*time.Millisecond), func(t *testing.T, n netpath.Network, client, server net.Conn) {
		start := time.Now()
		server.Close()
		_, err := client.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, 25*time.Millisecond, time.Since(start))
	})
}

func TestErrors(t *testing.T) {
	path := netpath.Path{Up: netpath.Link{Delay: time.Millisecond, Window: 10}, Down: netpath.Link{Delay: time.Millisecond}}
	buf := make([]byte, 10)

	t.Run("deadline", func(t *testing.T) {
		bubble(t, path, func(t *testing.T, n netpath.Network, client, server net.Conn) {
			start := time.Now()
			write(t, server, "x")
			client.SetReadDeadline(start.Add(time.Microsecond))
			_, err := client.Read(buf)
			isOpError(t, err, os.ErrDeadlineExceeded, "a deadline should end the waiting for data in flight")
			assert.Equal(t, time.Microsecond, time.Since(start))
			client.SetReadDeadline(start.Add(time.Millisecond))
			_, err = client.Read(buf)
			isOpError(t, err, os.ErrDeadlineExceeded, "a deadline should beat data that arrives at the same instant")
			assert.True(t, err.(net.Error).Timeout())
			assert.Equal(t, time.Millisecond, time.Since(start))
			client.SetReadDeadline(time.Time{})
			assert.Equal(t, "x", read(t, client), "a deadline should lose no data")

			go func() {
				time.Sleep(time.Millisecond)
				client.SetReadDeadline(time.Now().Add(time.Millisecond))
			}()
			_, err = client.Read(buf)
			isOpError(t, err, os.ErrDeadlineExceeded, "a deadline should reach a Read that waits")
			assert.Equal(t, 3*time.Millisecond, time.Since(start))

			client.SetWriteDeadline(time.Now().Add(time.Millisecond))
			k, err := client.Write(make([]byte, 25))
			isOpError(t, err, os.ErrDeadlineExceeded, "a deadline should reach a Write between its pieces")
			assert.Equal(t, 10, k, "and Write should say how far it came")
			client.SetWriteDeadline(time.Time{})
			assert.Len(t, read(t, server), 10)
			write(t, client, "go on")
		})
	})
	t.Run("own close", func(t *testing.T) {
		bubble(t, path, func(t *testing.T, n netpath.Network, client, server net.Conn) {
			write(t, client, "the window")
			write(t, server, "arrives, and is never read")
			time.Sleep(time.Second)
			read(t, client)
			var waiting sync.WaitGroup
			waiting.Go(func() {
				_, err := client.Read(buf)
				isOpError(t, err, net.ErrClosed, "Close should end a Read that waits")
			})
			waiting.Go(func() {
				_, err := client.Write(buf)
				isOpError(t, err, net.ErrClosed, "Close should end a Write that waits")
			})
			synctest.Wait()
			require.NoError(t, client.Close())
			waiting.Wait()

			_, err := client.Read(buf)
			isOpError(t, err, net.ErrClosed, "Read after Close")
			_, err = client.Write(buf)
			isOpError(t, err, net.ErrClosed, "Write after Close")
			isOpError(t, client.SetDeadline(time.Now()), net.ErrClosed, "SetDeadline after Close")
			isOpError(t, client.(closeWriter).CloseWrite(), net.ErrClosed, "CloseWrite after Close")
			isOpError(t, client.Close(), net.ErrClosed, "Close after Close")
		})
	})
	t.Run("the peer's close", func(t *testing.T) {
		bubble(t, path, func(t *testing.T, n netpath.Network, client, server net.Conn) {
			var waiting sync.WaitGroup
			waiting.Go(func() {
				k, err := client.Write(make([]byte, 25))
				isOpError(t, err, syscall.EPIPE, "a Write that waits should fail when its peer closes")
				assert.Equal(t, 10, k, "the piece before that was written")
			})
			synctest.Wait()
			start := time.Now()
			server.Close()
			waiting.Wait()
			_, err := client.Write(buf)
			isOpError(t, err, syscall.EPIPE, "a Write nobody will read should fail")
			assert.Equal(t, start, time.Now(), "at once")
			assert.Equal(t, netpath.Flow{Bytes: 10, Writes: 1}, n.Count().Up, "what failed should not be counted")
		})
	})
}

func TestCount(t *testing.T) {
	bubble(t, netpath.Symmetric(time.Millisecond), func(t *testing.T, n netpath.Network, client, server net.Conn) {
		write(t, client, "12345")
		write(t, client, "")
		assert.Equal(t, netpath.Count{Conns: 1, Up: netpath.Flow{Bytes: 5, Writes: 1}}, n.Count(), "Write should count at once, unless it is empty")
		before := n.Count()

		other, _ := connect(t, n)
		write(t, other, "123")
		write(t, server, "1")
		write(t, server, "12")
		assert.Equal(t, netpath.Count{Conns: 1, Up: netpath.Flow{Bytes: 3, Writes: 1}, Down: netpath.Flow{Bytes: 3, Writes: 2}}, n.Count().Sub(before),
			"Sub should be what all connections did since, each direction by itself")
	})
}

func TestDialCostsOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := netpath.Path{Up: netpath.Link{Delay: 30 * time.Millisecond}, Down: netpath.Link{Delay: 20 * time.Millisecond}}
		assert.Equal(t, 50*time.Millisecond, path.RTT())
		n := netpath.Memory(path)
		ln := listen(t, n)
		start := time.Now()
		client, err := n.Dial(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		assert.Equal(t, path.RTT(), time.Since(start), "Dial should return when the answer is here")
		write(t, client, "x")
		server, err := ln.Accept()
		require.NoError(t, err)
		assert.Equal(t, path.RTT()+path.Up.Delay, time.Since(start), "Accept should return when the ACK lands")
		read(t, server)
		assert.Equal(t, path.RTT()+path.Up.Delay, time.Since(start), "and data sent with the ACK should be there by then")
		assert.Equal(t, client.LocalAddr().String(), server.RemoteAddr().String())
		assert.Equal(t, server.LocalAddr().String(), client.RemoteAddr().String())

		start = time.Now()
		ln.Close()
		_, err = n.Dial(t.Context(), "tcp", ln.Addr().String())
		isOpError(t, err, syscall.ECONNREFUSED, "where nobody listens anymore")
		assert.ErrorContains(t, err, ln.Addr().String(), "the error should name the address")
		assert.Equal(t, path.RTT(), time.Since(start), "a refusal should take a round trip, too")
		assert.Equal(t, 1, n.Count().Conns, "a refused connection should not count")
	})
}

func TestDialGivenUpLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := netpath.Memory(netpath.Symmetric(25 * time.Millisecond))
		ln := listen(t, n)
		for _, timeout := range []time.Duration{0, 10 * time.Millisecond, 40 * time.Millisecond} { // before, SYN, SYN+ACK
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			_, err := n.Dial(ctx, "tcp", ln.Addr().String())
			isOpError(t, err, context.DeadlineExceeded, "Dial should give up with its context")
			assert.Equal(t, timeout, time.Since(start))
			cancel()
		}
		time.AfterFunc(time.Hour, func() { ln.Close() })
		_, err := ln.Accept()
		isOpError(t, err, net.ErrClosed, "no connection should ever come to Accept")
		assert.Zero(t, n.Count())

		n = netpath.Memory(netpath.Path{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = n.Dial(ctx, "tcp", listen(t, n).Addr().String())
		isOpError(t, err, context.Canceled, "Dial should look at its context although it takes no time")
	})
}

func TestListen(t *testing.T) {
	n := netpath.Memory(netpath.Path{})
	for _, addr := range []string{"127.0.0.1:1", "127.0.0.1:3"} {
		_, err := n.Listen(addr)
		require.NoError(t, err)
	}
	a, b := listen(t, n), listen(t, n)
	assert.NotEqual(t, a.Addr(), b.Addr(), "port 0 should pick a free port")
	_, err := n.Listen(a.Addr().String())
	isOpError(t, err, syscall.EADDRINUSE, "an address should have one listener")
	require.NoError(t, a.Close())
	isOpError(t, a.Close(), net.ErrClosed, "Close after Close")
	_, err = n.Listen(a.Addr().String())
	assert.NoError(t, err, "Close should free the address")
	for _, name := range []string{"localhost:80", ":80", "127.0.0.1"} {
		_, err = n.Listen(name)
		assert.ErrorContains(t, err, name, "no name should ever be looked up")
		_, err = n.Dial(t.Context(), "tcp", name)
		assert.ErrorContains(t, err, name, "no name should ever be looked up")
	}
}

func TestListenerClosesWhatWasNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := netpath.Memory(netpath.Symmetric(25 * time.Millisecond))
		ln := listen(t, n)
		waiting, err := n.Dial(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		landing, err := n.Dial(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		start := time.Now()
		ln.Close() // waiting is in the backlog, landing's ACK in flight

		_, err = waiting.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, 25*time.Millisecond, time.Since(start), "a connection nobody accepted should be closed with its listener")
		_, err = landing.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, 50*time.Millisecond, time.Since(start), "one that lands afterwards should be closed as it lands")
	})
}

func TestAcceptInOrderOfDialing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := netpath.Memory(netpath.Symmetric(time.Millisecond))
		ln := listen(t, n)
		for range 3 {
			_, err := n.Dial(t.Context(), "tcp", ln.Addr().String())
			require.NoError(t, err)
		}
		remotes := map[string]bool{}
		for i := range 3 {
			c, err := ln.Accept()
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(c.RemoteAddr().String(), "10.0.0."+strconv.Itoa(i+1)+":"), "got %s", c.RemoteAddr())
			remotes[c.RemoteAddr().String()] = true
		}
		assert.Len(t, remotes, 3, "every client should have an address of its own")
	})
}

// pingPong is what both networks can count alike down to the single write: the
// proxy of Loopback sees a server's writes only as far as they are apart.
func pingPong(t *testing.T, n netpath.Network) netpath.Count {
	client, server := connect(t, n)
	defer server.Close()
	defer client.Close()
	for i := range 100 {
		write(t, client, strings.Repeat("q", 1+i))
		write(t, client, "?")
		_, err := io.ReadFull(server, make([]byte, 2+i))
		require.NoError(t, err)
		write(t, server, strings.Repeat("a", 1+10*i))
		_, err = io.ReadFull(client, make([]byte, 1+10*i))
		require.NoError(t, err)
	}
	return n.Count()
}

func TestLoopbackCountsAsMemoryDoes(t *testing.T) {
	memory := pingPong(t, netpath.Memory(netpath.Path{}))
	assert.Equal(t, netpath.Count{Conns: 1, Up: netpath.Flow{Bytes: 5150, Writes: 200}, Down: netpath.Flow{Bytes: 49600, Writes: 100}}, memory)
	assert.Equal(t, memory, pingPong(t, netpath.Loopback(netpath.Path{})))
}

func TestLoopbackDelays(t *testing.T) {
	path := netpath.Path{Up: netpath.Link{Delay: 10 * time.Millisecond}, Down: netpath.Link{Delay: 20 * time.Millisecond}}
	n := netpath.Loopback(path)
	start := time.Now()
	client, server := connect(t, n)
	defer client.Close()
	assert.GreaterOrEqual(t, time.Since(start), path.RTT(), "Dial should cost a round trip")

	start = time.Now()
	write(t, client, "x")
	read(t, server)
	assert.GreaterOrEqual(t, time.Since(start), path.Up.Delay, "the way up should take its delay")

	start = time.Now()
	write(t, server, "answer")
	read(t, client)
	assert.GreaterOrEqual(t, time.Since(start), path.Down.Delay, "the way down should take its delay")

	start = time.Now()
	server.Close()
	_, err := client.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
	assert.GreaterOrEqual(t, time.Since(start), path.Down.Delay, "the server's close should take its delay")
}

func TestLoopbackDialErrors(t *testing.T) {
	n := netpath.Loopback(netpath.Symmetric(time.Millisecond))
	ln := listen(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.Dial(ctx, "tcp", ln.Addr().String())
	isOpError(t, err, context.Canceled, "Dial should give up with its context")
	_, err = n.Dial(t.Context(), "tcp", "localhost:80")
	assert.ErrorContains(t, err, "localhost", "no name should ever be looked up")

	ln.Close()
	_, err = n.Dial(t.Context(), "tcp", ln.Addr().String())
	isOpError(t, err, syscall.ECONNREFUSED, "where nobody listens anymore")
	assert.ErrorContains(t, err, ln.Addr().String(), "the error should name the address")
	assert.Zero(t, n.Count())
}

func TestLoopbackDeliversWhatWasWrittenBeforeClose(t *testing.T) {
	client, server := connect(t, netpath.Loopback(netpath.Symmetric(10*time.Millisecond)))
	defer server.Close()
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() {
		n, err := io.Copy(io.Discard, server)
		assert.NoError(t, err)
		assert.EqualValues(t, 1<<20, n, "all of it should arrive, then EOF")
	})
	write(t, client, strings.Repeat("x", 1<<20))
	client.Close()
}

func TestLoopbackWaitsForASlowServer(t *testing.T) {
	const size = 8 << 20 // more than the socket buffers hold
	client, server := connect(t, netpath.Loopback(netpath.Path{}))
	defer server.Close()
	defer client.Close()
	write(t, client, strings.Repeat("x", size))
	time.Sleep(300 * time.Millisecond) // longer than the proxy would wait for the server if the client were gone
	_, err := io.ReadFull(server, make([]byte, size))
	assert.NoError(t, err, "a client that is there should not be given up")
}

func TestLoopbackLeavesNothing(t *testing.T) {
	open := func() (client, server net.Conn) {
		require.Eventually(t, func() bool { return splices() == 0 }, 10*time.Second, time.Millisecond, "earlier tests closed their connections")
		client, server = connect(t, netpath.Loopback(netpath.Path{Down: netpath.Link{Window: 1000}}))
		require.NotZero(t, splices(), "this test should know what a goroutine of the proxy looks like")
		return client, server
	}
	gone := func(message string) {
		require.Eventually(t, func() bool { return splices() == 0 }, 10*time.Second, time.Millisecond, message)
	}
	fill := func(c net.Conn) (wait func()) { // write as long as it goes
		var writing sync.WaitGroup
		writing.Go(func() {
			for err := error(nil); err == nil; {
				_, err = c.Write(make([]byte, 1<<20))
			}
		})
		return writing.Wait
	}

	client, server := open()
	client.Close()
	gone("a client's Close should end the proxy although the server is silent")
	_, err := server.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err, "and look like a client's Close to it")
	server.Close()

	client, server = open()
	client.(closeWriter).CloseWrite()
	_, err = server.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err, "CloseWrite should reach the server")
	write(t, server, "answer")
	assert.Equal(t, "answer", read(t, client), "and leave the way down open")
	client.Close()
	gone("Close after CloseWrite should end the proxy although the server is silent")
	server.Close()

	client, server = open()
	wait := fill(server)
	read(t, client)
	client.Close()
	gone("Close should end the proxy although the server goes on writing into a full window")
	wait()
	server.Close()

	client, server = open()
	server.(*net.TCPConn).SetReadBuffer(4096) // or else it grows meanwhile
	write(t, client, strings.Repeat("x", 16<<20))
	client.Close()
	gone("Close should end the proxy although the server never reads")
	_, err = io.Copy(io.Discard, server)
	isOpError(t, err, syscall.ECONNRESET, "a server that did not get all should get an error, not EOF")
	server.Close()

	client, server = open()
	server.Close()
	_, err = client.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
	fill(client)()
	gone("a server's Close should end the proxy of a client that goes on writing, and its writing")
	client.Close()
}

// splices counts Loopback's proxies. The one goroutine that Dial creates waits
// for the other one and closes the socket.
func splices() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "created by pushcost/internal/netpath.(*loopback).Dial")
}

type closeWriter interface{ CloseWrite() error }

// bubble calls f in a bubble, with a connection over path. A goroutine that
// is left behind fails the test.
func bubble(t *testing.T, path netpath.Path, f func(t *testing.T, n netpath.Network, client, server net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := netpath.Memory(path)
		client, server := connect(t, n)
		defer client.Close()
		defer server.Close()
		f(t, n, client, server)
	})
}

func listen(t *testing.T, n netpath.Network) net.Listener {
	t.Helper()
	ln, err := n.Listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	return ln
}

func connect(t *testing.T, n netpath.Network) (client, server net.Conn) {
	t.Helper()
	ln := listen(t, n)
	client, err := n.Dial(t.Context(), "tcp", ln.Addr().String())
	require.NoError(t, err)
	server, err = ln.Accept()
	require.NoError(t, err)
	return client, server
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	n, err := c.Write([]byte(s))
	assert.NoError(t, err)
	assert.Equal(t, len(s), n)
}

// read is one Read.
func read(t *testing.T, c net.Conn) string {
	t.Helper()
	buf := make([]byte, 1<<16)
	n, err := c.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

func isOpError(t *testing.T, err, target error, message string) {
	t.Helper()
	var op *net.OpError
	assert.ErrorAs(t, err, &op, message)
	assert.ErrorIs(t, err, target, message)
}
