package fleet

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"pushcost/internal/codec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryEventReachesEveryClient(t *testing.T) {
	for _, name := range []string{
		"transport=floor",
		"transport=ws/http=1.1",
		"transport=ws/http=1.1/tls=1.3",
		"transport=ws/http=1.1/codec=deflate-no-takeover",
		"transport=sse/http=1.1",
		"transport=sse/http=1.1/tls=1.3",
		"transport=sse/http=1.1/codec=gzip",
		"transport=sse/http=1.1/codec=zstd",
		"transport=sse/http=2",
		"transport=sse/http=2/tls=1.3",
		"transport=sse/http=2/codec=br",
		"transport=sse/http=2/tls=1.3/codec=gzip",
		"transport=poll/http=1.1",
		"transport=poll/http=1.1/tls=1.3",
		"transport=socketio/http=1.1",
		"transport=socketio/lib=polling/http=1.1",
	} {
		t.Run(name, func(t *testing.T) {
			const n = 4
			s := cell(t, name)
			f, srv := fleetOf(t, s, DialArgs{N: n})
			for i, size := range []int{2, 20, 125, 126, 5000, 70000} {
				data := fmt.Sprintf("%d%s", i+1, strings.Repeat("0", size-1))
				require.NoError(t, f.Expect(ExpectArgs{Data: []byte(data), Times: 2}, nil))
				if size < 200 { // both come at once: with TLS, in one read
					f.mu.Lock()
				}
				srv.broadcast(data)
				srv.broadcast(data)
				if size < 200 {
					f.mu.Unlock()
				}
				got := await(t, f)
				require.Len(t, got.Each, 2)
				for _, e := range got.Each {
					assert.False(t, e.First.After(e.P50) || e.P50.After(e.P99) || e.P99.After(e.Last), "half come after the first, and before most")
				}
				assert.Equal(t, got.Each[0].First, got.First)
				assert.Equal(t, got.Each[1].Last, got.Last)
			}
			var c Counts
			require.NoError(t, f.Counts(0, &c))
			assert.Equal(t, int64(12*n), c.Events)
			assert.Equal(t, n, c.Open)
			assert.Zero(t, c.Closed)
			if s.Codec == codec.Identity {
				assert.Greater(t, c.Bytes, int64(2*n*75273), "they are made of bytes")
			}
		})
	}
}

func TestStreamsShareConnections(t *testing.T) {
	for _, name := range []string{"transport=sse/http=2", "transport=sse/http=2/tls=1.3"} {
		t.Run(name, func(t *testing.T) {
			f, srv := fleetOf(t, cell(t, name), DialArgs{N: 25, Streams: 10})
			assert.Len(t, f.conns, 3)
			require.NoError(t, f.Expect(ExpectArgs{Data: []byte("1"), Times: 1}, nil))
			srv.broadcast("1")
			await(t, f)
		})
	}
}

func TestWindowsAreOpenedAgain(t *testing.T) {
	f, srv := fleetOf(t, cell(t, "transport=sse/http=2"), DialArgs{N: 3, Streams: 3})
	data := strings.Repeat("0", 1<<20)
	for range streamWindow>>20 + 1 { // three times that is more than the connection's window
		require.NoError(t, f.Expect(ExpectArgs{Data: []byte(data), Times: 1}, nil))
		srv.broadcast(data)
		await(t, f)
	}
}

func TestSignsOfLifeAreAnsweredAndCounted(t *testing.T) {
	for _, name := range []string{"transport=ws/http=1.1", "transport=sse/http=1.1", "transport=sse/http=2", "transport=socketio/http=1.1", "transport=socketio/lib=polling/http=1.1"} {
		t.Run(name, func(t *testing.T) {
			f, srv := fleetOf(t, cell(t, name), DialArgs{N: 3})
			for _, k := range srv.all() {
				require.NoError(t, k.beat([]byte("are you there")))
			}
			require.NoError(t, f.Expect(ExpectArgs{Data: []byte("1"), Times: 1}, nil))
			srv.broadcast("1") // comes after the beats
			await(t, f)
			var c Counts
			require.NoError(t, f.Counts(0, &c))
			assert.Equal(t, int64(3), c.Pings)
			switch s := cell(t, name); s.Transport {
			case "ws":
				for range 3 {
					assert.Equal(t, "pong are you there", <-srv.heard)
				}
			case "socketio":
				for range 3 {
					assert.Equal(t, "3", <-srv.heard)
				}
			}
		})
	}
}

func TestClientsSendAndPing(t *testing.T) {
	for _, name := range []string{"transport=ws/http=1.1", "transport=ws/http=1.1/tls=1.3", "transport=ws/http=1.1/codec=deflate-no-takeover"} {
		t.Run(name, func(t *testing.T) {
			f, srv := fleetOf(t, cell(t, name), DialArgs{N: 5})
			for _, size := range []int{0, 125, 126, 70000} {
				var sent int
				require.NoError(t, f.Send(SendArgs{bytes.Repeat([]byte("x"), size)}, &sent))
				assert.Equal(t, 5, sent)
				for range 5 {
					assert.Len(t, <-srv.heard, size)
				}
			}
			for range 2 {
				var ponged int
				require.NoError(t, f.Ping(PingArgs{long}, &ponged))
				assert.Equal(t, 5, ponged)
			}
		})
	}
	f, srv := fleetOf(t, cell(t, "transport=socketio/http=1.1"), DialArgs{N: 1})
	var sent int
	require.NoError(t, f.Send(SendArgs{[]byte(`say "hi"`)}, &sent))
	assert.Equal(t, `42["message","say \"hi\""]`, <-srv.heard)
	f, _ = fleetOf(t, cell(t, "transport=sse/http=1.1"), DialArgs{N: 1})
	require.NoError(t, f.Send(SendArgs{[]byte("hi")}, &sent))
	require.NoError(t, f.Ping(PingArgs{long}, &sent))
	assert.Zero(t, sent, "an event stream has no way up")
}

func TestAServerThatLeavesOwesNoPong(t *testing.T) {
	f, srv := fleetOf(t, cell(t, "transport=ws/http=1.1"), DialArgs{N: 2})
	srv.hangUp.Store(true)
	began := time.Now()
	var ponged int
	require.NoError(t, f.Ping(PingArgs{long}, &ponged))
	assert.Zero(t, ponged)
	assert.Less(t, time.Since(began), long, "nobody is waited for")
}

func TestOthersGoOnWhileSomeStall(t *testing.T) {
	for _, name := range []string{"transport=ws/http=1.1", "transport=ws/http=1.1/tls=1.3", "transport=sse/http=1.1"} {
		t.Run(name, func(t *testing.T) {
			f, srv := fleetOf(t, cell(t, name), DialArgs{N: 10, Window: 4 << 10})
			var stalled int
			require.NoError(t, f.Stall(3, &stalled))
			assert.Equal(t, 3, stalled)
			require.NoError(t, f.Expect(ExpectArgs{Data: []byte("1"), Times: 1}, nil))
			srv.broadcast("1")
			got := await(t, f)
			assert.Equal(t, got.Last, got.Each[0].P99)
			var c Counts
			require.NoError(t, f.Counts(0, &c))
			assert.Equal(t, int64(7), c.Events, "who stalls gets nothing")
			assert.Equal(t, 10, c.Open, "but stays")
			var ponged int
			require.NoError(t, f.Ping(PingArgs{long}, &ponged))
			if cell(t, name).Transport == "ws" {
				assert.Equal(t, 7, ponged)
			}
		})
	}
}

func TestEventsWaitUntilTheyAreAwaited(t *testing.T) {
	f, srv := fleetOf(t, cell(t, "transport=sse/http=1.1"), DialArgs{N: 10})
	bytes := func() int64 {
		var c Counts
		require.NoError(t, f.Counts(0, &c))
		return c.Bytes
	}
	before := bytes()
	require.NoError(t, f.Expect(ExpectArgs{Data: []byte("1"), Times: 1, Later: true}, nil))
	srv.broadcast("1")
	assert.Equal(t, before, bytes(), "nobody has read")
	await(t, f)
	assert.Greater(t, bytes(), before)
	require.NoError(t, f.Expect(ExpectArgs{Data: []byte("2"), Times: 1, Later: true}, nil))
	require.NoError(t, f.Close(0, nil), "who waits can leave")
}

func TestTheNewestAreCut(t *testing.T) {
	for reset, want := range map[bool]error{true: unix.ECONNRESET, false: io.EOF} {
		f, srv := fleetOf(t, cell(t, "transport=floor"), DialArgs{N: 10})
		oldest := slices.Clone(f.conns[:6])
		var cut int
		require.NoError(t, f.Cut(CutArgs{4, reset}, &cut))
		assert.Equal(t, 4, cut)
		for range 4 {
			assert.ErrorIs(t, <-srv.ends, want)
		}
		srv.await(6)
		require.NoError(t, f.Expect(ExpectArgs{Data: []byte("1"), Times: 1}, nil))
		srv.broadcast("1")
		await(t, f)
		var c Counts
		require.NoError(t, f.Counts(0, &c))
		assert.Equal(t, 6, c.Open)
		assert.Zero(t, c.Closed, "the server closed none")
		assert.Equal(t, oldest, f.open())
	}
}

func TestWhoTheServerClosesIsMissed(t *testing.T) {
	for _, name := range []string{"transport=floor", "transport=ws/http=1.1", "transport=socketio/http=1.1"} {
		t.Run(name, func(t *testing.T) {
			f, srv := fleetOf(t, cell(t, name), DialArgs{N: 5})
			require.NoError(t, f.Expect(ExpectArgs{Data: []byte("1"), Times: 1}, nil))
			for _, k := range srv.all()[:2] {
				require.NoError(t, k.conn.Close())
			}
			srv.await(3)
			srv.broadcast("1")
			var got Awaited
			require.NoError(t, f.Await(AwaitArgs{long}, &got))
			assert.Equal(t, 2, got.Missing)
			var c Counts
			require.NoError(t, f.Counts(0, &c))
			assert.Equal(t, Counts{Open: 3, Closed: 2, Events: 3, Bytes: c.Bytes}, c)
			require.NoError(t, f.Expect(ExpectArgs{Data: []byte("2"), Times: 1}, nil))
			srv.broadcast("2")
			await(t, f)
		})
	}
}

func TestAStalledClientThatIsClosedIsCounted(t *testing.T) {
	f, srv := fleetOf(t, cell(t, "transport=floor"), DialArgs{N: 2})
	var stalled int
	require.NoError(t, f.Stall(2, &stalled))
	for _, k := range srv.all() {
		require.NoError(t, k.conn.Close())
	}
	require.Eventually(t, func() bool {
		var c Counts
		return f.Counts(0, &c) == nil && c.Closed == 2 && c.Open == 0
	}, long, time.Millisecond)
}

func TestTimeIsUpForWhatDoesNotCome(t *testing.T) {
	f, srv := fleetOf(t, cell(t, "transport=floor"), DialArgs{N: 5})
	require.NoError(t, f.Expect(ExpectArgs{Data: []byte("12"), Times: 1}, nil))
	srv.broadcast("1")
	var got Awaited
	require.NoError(t, f.Await(AwaitArgs{time.Millisecond}, &got))
	assert.Equal(t, 5, got.Missing)
	srv.broadcast("2")
	await(t, f)
}

func TestWhatWasNotExpectedIsAnError(t *testing.T) {
	for data, want := range map[string]string{
		"13":  `fleet: client 0: event 1, byte 0: got "13", want "12"`,
		"123": `fleet: client 0: nothing is expected after event 1: got "3"`,
	} {
		f := new(Fleet)
		srv := serve(t, cell(t, "transport=floor"))
		require.NoError(t, f.Dial(DialArgs{Setup: cell(t, "transport=floor"), Addr: srv.addr, N: 1}, new(Dialed)))
		srv.await(1)
		require.NoError(t, f.Expect(ExpectArgs{Data: []byte("12"), Times: 2}, nil))
		f.mu.Lock() // so that the bytes come at once
		srv.broadcast(data[:2])
		f.mu.Unlock()
		if len(data) > 2 {
			srv.broadcast("12")
			srv.broadcast(data[2:])
			want = strings.Replace(want, "event 1", "event 2", 1)
		}
		require.Eventually(t, func() bool { return f.Counts(0, new(Counts)) != nil }, long, time.Millisecond)
		assert.EqualError(t, f.Await(AwaitArgs{long}, new(Awaited)), want)
		assert.EqualError(t, f.Close(0, nil), want)
	}
}

func TestALaterClientGetsWhatComesAfterIt(t *testing.T) {
	s := cell(t, "transport=floor")
	f, srv := fleetOf(t, s, DialArgs{N: 1})
	for _, data := range []string{"1", "2"} {
		require.NoError(t, f.Expect(ExpectArgs{Data: []byte(data), Times: 1}, nil))
		srv.broadcast(data)
		await(t, f)
		var d Dialed
		require.NoError(t, f.Dial(DialArgs{Setup: s, Addr: srv.addr, N: 1}, &d))
		srv.await(d.Open)
	}
}
