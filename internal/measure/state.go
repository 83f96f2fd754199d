package measure

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strconv"

	"golang.org/x/net/http2"

	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A State is what a connection was about when it ended, by what its client had
// sent and received.
type State string

const (
	handshake    State = "handshake"      // no request is out yet or, of a stream, its answer's head is not complete
	midFrame     State = "mid-frame"      // a frame has come in part; over HTTP/2, a poll's answer
	midChunk     State = "mid-chunk"      // a chunk of an event stream over HTTP/1.1
	midAnswer    State = "mid-answer"     // a poll's answer over HTTP/1.1
	betweenPolls State = "between-polls"  // every answer is there, and no further request is out
	waiting      State = "idle"           // nothing has come in part: the client waits, a poll is parked
	restarted    State = "server-restart" // any of these; it was the server that ended
)

// States are those that a setup's connections can be in.
func States(s setup.Setup) []State {
	switch {
	case s.Transport == "poll" && s.HTTP == transport.HTTP2:
		return []State{handshake, midFrame, betweenPolls, waiting, restarted}
	case s.Transport == "poll":
		return []State{handshake, midAnswer, betweenPolls, waiting, restarted}
	case s.Transport == "sse" && s.HTTP == transport.HTTP1:
		return []State{handshake, midChunk, waiting, restarted}
	}
	return []State{handshake, midFrame, waiting, restarted}
}

// stateOf judges a connection without TLS.
func stateOf(s setup.Setup, sent, received []byte) State {
	switch {
	case s.HTTP == transport.HTTP2:
		return http2State(s, sent, received)
	case s.Transport == "poll":
		return pollState(sent, received)
	}
	_, body, begun := bytes.Cut(received, headEnd)
	switch {
	case !begun:
		return handshake
	case s.Transport == "sse" && !whole(body, chunk):
		return midChunk
	case s.Transport == "ws" && !whole(body, frame):
		return midFrame
	}
	return waiting
}

var headEnd = []byte("\r\n\r\n")

// whole says whether data is a sequence of whole elements. The length of the
// first is 0 if it cannot be told yet.
func whole(data []byte, length func([]byte) int) bool {
	for len(data) > 0 {
		n := length(data)
		if n == 0 || n > len(data) {
			return false
		}
		data = data[n:]
	}
	return true
}

// chunk is the length of a chunk (RFC 9112, section 7.1).
func chunk(data []byte) int {
	size, _, ok := bytes.Cut(data, []byte("\r\n"))
	n, err := strconv.ParseUint(string(size), 16, 31)
	if !ok || err != nil {
		return 0
	}
	return len(size) + 2 + int(n) + 2
}

// frame is the length of a server's frame (RFC 6455, section 5.2).
func frame(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	switch n := int(data[1]); {
	case n < 126:
		return 2 + n
	case n == 126 && len(data) >= 4:
		return 4 + int(binary.BigEndian.Uint16(data[2:]))
	}
	return 0 // no event of ours takes 64 KiB
}

// answer is the length of a poll's answer.
func answer(data []byte) int {
	head, _, ok := bytes.Cut(data, headEnd)
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
	if !ok || err != nil {
		return 0
	}
	return len(head) + len(headEnd) + int(resp.ContentLength)
}

func pollState(sent, received []byte) State {
	requests, answers := bytes.Count(sent, headEnd), 0
	complete := whole(received, func(data []byte) int {
		answers++
		return answer(data)
	})
	switch {
	case requests == 0:
		return handshake
	case !complete:
		return midAnswer
	case answers == requests:
		return betweenPolls
	}
	return waiting
}

func http2State(s setup.Setup, sent, received []byte) State {
	requests, _, _ := streams(bytes.TrimPrefix(sent, []byte(http2.ClientPreface)))
	answers, ended, complete := streams(received)
	switch poll := s.Transport == "poll"; {
	case requests == 0, !poll && answers == 0:
		return handshake
	case !complete, poll && answers > ended:
		return midFrame
	case poll && answers == requests:
		return betweenPolls
	}
	return waiting
}

// streams counts the streams of HTTP/2 that frames begin and end, and says
// whether all frames are complete.
func streams(frames []byte) (begun, ended int, complete bool) {
	framer := http2.NewFramer(nil, bytes.NewReader(frames))
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return begun, ended, errors.Is(err, io.EOF)
		}
		if f.Header().Type == http2.FrameHeaders {
			begun++
		}
		if t := f.Header().Type; (t == http2.FrameHeaders || t == http2.FrameData) && f.Header().Flags.Has(http2.FlagDataEndStream) {
			ended++
		}
	}
}
