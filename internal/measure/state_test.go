package measure

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/net/http2"

	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// Every prefix of what a client received is in the state it should be in.
func TestStateOfEveryPrefix(t *testing.T) {
	request := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		transport string
		within    State    // a piece, the first apart
		pieces    []string // after each of which nothing is in part
	}{
		{"ws", midFrame, []string{"HTTP/1.1 101 Switching Protocols\r\n\r\n", "\x81\x03abc", "\x81\x7e\x01\x2c" + long, "\x89\x00"}},
		{"sse", midChunk, []string{"HTTP/1.1 200 OK\r\n\r\n", "b\r\ndata: abc\n\n\r\n", "2\r\n:\n\r\n"}},
	} {
		s := setup.Setup{Transport: c.transport, HTTP: transport.HTTP1}
		received, ends := strings.Join(c.pieces, ""), []int{}
		for n := range c.pieces {
			ends = append(ends, len(strings.Join(c.pieces[:n+1], "")))
		}
		for n := range len(received) + 1 {
			want := c.within
			switch {
			case n < ends[0]:
				want = handshake
			case slices.Contains(ends, n):
				want = waiting
			}
			assert.Equal(t, want, stateOf(s, []byte(request), []byte(received[:n])), "%s: %q", c.transport, received[:n])
		}
	}
}

func TestStateOfPolls(t *testing.T) {
	s := setup.Setup{Transport: "poll", HTTP: transport.HTTP1}
	request, answer := "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]"
	for n := range len(request) {
		assert.Equal(t, handshake, stateOf(s, []byte(request[:n]), nil))
		assert.Equal(t, betweenPolls, stateOf(s, []byte(request+request[:n]), []byte(answer)), "of the next request %d bytes are out", n)
	}
	for n := 1; n < len(answer); n++ {
		assert.Equal(t, midAnswer, stateOf(s, []byte(request), []byte(answer[:n])), "%q", answer[:n])
	}
	assert.Equal(t, waiting, stateOf(s, []byte(request), nil), "parked")
	assert.Equal(t, waiting, stateOf(s, []byte(request+request), []byte(answer)), "parked again")
	assert.Equal(t, betweenPolls, stateOf(s, []byte(request+request), []byte(answer+answer)))
}

func TestStateOverHTTP2(t *testing.T) {
	frames := func(write func(*http2.Framer)) []byte {
		var b bytes.Buffer
		write(http2.NewFramer(&b, nil))
		return b.Bytes()
	}
	request := func(f *http2.Framer) {
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true})
	}
	head := func(f *http2.Framer) { f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true}) }
	preface := http2.ClientPreface + string(frames(func(f *http2.Framer) { f.WriteSettings() }))
	settings, sent := frames(func(f *http2.Framer) { f.WriteSettings() }), []byte(preface+string(frames(request)))
	part := frames(func(f *http2.Framer) { head(f); f.WriteData(1, false, []byte("abc")) })
	all := frames(func(f *http2.Framer) { head(f); f.WriteData(1, true, []byte("abc")) })

	sse, poll := setup.Setup{Transport: "sse", HTTP: transport.HTTP2}, setup.Setup{Transport: "poll", HTTP: transport.HTTP2}
	for _, s := range []setup.Setup{sse, poll} {
		assert.Equal(t, handshake, stateOf(s, []byte(preface), settings), "no request is out")
		assert.Equal(t, midFrame, stateOf(s, sent, part[:len(part)-1]))
	}
	assert.Equal(t, handshake, stateOf(sse, sent, settings), "no answer is there")
	assert.Equal(t, waiting, stateOf(sse, sent, part))
	assert.Equal(t, waiting, stateOf(poll, sent, settings), "parked")
	assert.Equal(t, midFrame, stateOf(poll, sent, part), "the answer is not complete")
	assert.Equal(t, betweenPolls, stateOf(poll, sent, all))
}
