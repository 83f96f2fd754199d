package fleet

import (
	"io"
	"net"
	"net/rpc"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBadArgumentsAreNamed(t *testing.T) {
	good := DialArgs{Setup: cell(t, overSSE), Addr: "127.0.0.1:1", N: 1}
	for want, change := range map[string]func(*DialArgs){
		`fleet: transport=sse/http=1.1: "localhost:1" is not an IPv4 address and a port`:      func(a *DialArgs) { a.Addr = "localhost:1" },
		`fleet: transport=sse/http=1.1: "[::1]:1" is not an IPv4 address and a port`:          func(a *DialArgs) { a.Addr = "[::1]:1" },
		`fleet: transport=sse/http=1.1: "eth0" is not an IPv4 address to dial from`:           func(a *DialArgs) { a.From = "eth0" },
		`fleet: transport=sse/http=1.1: only HTTP/2 has streams`:                              func(a *DialArgs) { a.Streams = 2 },
		`fleet: transport=ws/http=2: a fleet has no such clients`:                             func(a *DialArgs) { a.Setup = cell(t, "transport=ws/http=2") },
		`fleet: transport=poll/http=1.1/codec=gzip: a fleet has no such clients with a codec`: func(a *DialArgs) { a.Setup = cell(t, "transport=poll/http=1.1/codec=gzip") },
		`fleet: transport=ws/http=1.1/codec=br: a WebSocket has no br`:                        func(a *DialArgs) { a.Setup = cell(t, "transport=ws/http=1.1/codec=br") },
		`fleet: transport=ws/http=1.1: only clients of an event stream are encoded, or greeted`: func(a *DialArgs) {
			a.Setup, a.Encoded = cell(t, "transport=ws/http=1.1"), true
		},
		`fleet: transport=floor: only clients of an event stream are encoded, or greeted`: func(a *DialArgs) {
			a.Setup, a.Greeting.Wire = cell(t, "transport=floor"), []byte("x")
		},
		`fleet: transport=sse/http=1.1: client 0: dial 127.0.0.1:1: connection refused`: func(*DialArgs) {},
	} {
		a := good
		change(&a)
		f := new(Fleet)
		assert.EqualError(t, f.Dial(a, new(Dialed)), want)
		assert.NoError(t, f.Close(0, nil))
	}
}

func TestTooFewDescriptorsAreToldBefore(t *testing.T) {
	assert.NoError(t, Descriptors(10))
	err := new(Fleet).Dial(DialArgs{Setup: cell(t, overSSE), Addr: "127.0.0.1:1", N: 1 << 40}, nil)
	require.Error(t, err)
	assert.Regexp(t, `^fleet: too few file descriptors: 1099511627776 connections need 1099511627840, the limit is \d+: ulimit -n 1099511627840$`, err.Error())
}

func TestADialDoesNotWaitForEver(t *testing.T) {
	defer func(was time.Duration) { patience = was }(patience)
	patience = 500 * time.Millisecond           // a busy kernel takes its time to accept
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts, as far as the kernel is concerned
	require.NoError(t, err)
	defer ln.Close()
	for name, want := range map[string]string{
		overSSE:              "fleet: transport=sse/http=1.1: client 0: waiting for the answer: not done within 500ms",
		overSSE + "/tls=1.3": "fleet: transport=sse/http=1.1/tls=1.3: client 0: shaking hands for TLS: not done within 500ms",
	} {
		f := new(Fleet)
		assert.EqualError(t, f.Dial(DialArgs{Setup: cell(t, name), Addr: ln.Addr().String(), N: 1}, new(Dialed)), want)
		assert.NoError(t, f.Close(0, nil))
	}
}

func TestADialFailsWithItsServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if assert.NoError(t, err) {
			c.(*net.TCPConn).CloseWrite() // not Close, which could be a RST
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	f := new(Fleet)
	assert.EqualError(t, f.Dial(DialArgs{Setup: cell(t, overSSE), Addr: ln.Addr().String(), N: 1}, new(Dialed)),
		"fleet: transport=sse/http=1.1: client 0: waiting for the answer: EOF")
	assert.NoError(t, f.Close(0, nil))
	ln.Close()
	<-done
}

func TestLocalAddressesTakeTurns(t *testing.T) {
	srv := serve(t, cell(t, "transport=floor"))
	f := new(Fleet)
	defer f.Close(0, nil)
	for i, a := range []DialArgs{{N: 1}, {N: 1, From: "127.0.0.9"}, {N: 1, From: "127.0.0.255"}} {
		a.Setup, a.Addr = cell(t, "transport=floor"), srv.addr
		f.dialed = i * perAddress
		require.NoError(t, f.Dial(a, new(Dialed)))
	}
	srv.await(3)
	got := map[string]bool{}
	for _, k := range srv.all() {
		host, _, err := net.SplitHostPort(k.conn.RemoteAddr().String())
		require.NoError(t, err)
		got[host] = true
	}
	assert.Equal(t, map[string]bool{"127.0.0.1": true, "127.0.0.10": true, "127.0.1.1": true}, got)
}

func TestAFleetIsCommandedFromAfar(t *testing.T) {
	srv := serve(t, cell(t, "transport=floor"))
	receiver := rpc.NewServer()
	require.NoError(t, receiver.Register(new(Fleet)))
	here, there := net.Pipe()
	go receiver.ServeConn(there)
	c := rpc.NewClient(here)
	defer c.Close()
	var d Dialed
	require.NoError(t, c.Call("Fleet.Dial", DialArgs{Setup: cell(t, "transport=floor"), Addr: srv.addr, N: 2}, &d))
	assert.Equal(t, 2, d.Open)
	assert.Positive(t, d.Took)
	srv.await(2)
	var none int
	require.NoError(t, c.Call("Fleet.Expect", ExpectArgs{Data: []byte("1"), Times: 1}, &none))
	before := time.Now()
	srv.broadcast("1")
	var a Awaited
	require.NoError(t, c.Call("Fleet.Await", AwaitArgs{long}, &a))
	assert.Zero(t, a.Missing)
	assert.True(t, a.First.After(before), "both read the same clock")
	require.NoError(t, c.Call("Fleet.Close", 0, &none))
}
