package fleet

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"

	"pushcost/internal/codec"
	"pushcost/internal/feed"
	"pushcost/internal/transport"
)

// A line is a client's connection without a server: what it receives is
// fed, what it writes is kept.
type line struct {
	*conn
	t    *testing.T
	peer socket
}

// newLine returns one whose client has the number 7.
func newLine(t *testing.T, name string) *line {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	l := &line{t: t, peer: socket(pair[1]), conn: &conn{fleet: new(Fleet), socket: socket(pair[0]), opening: 1}}
	l.clients = []*client{{conn: l.conn, id: 7}}
	o := &opener{DialArgs: DialArgs{Setup: cell(t, name)}}
	d, err := o.newDialect()
	require.NoError(t, err)
	l.decoder = d.decoder(l.conn)
	_, err = l.conn.Write(d.request(l.conn))
	require.NoError(t, err)
	if d.parked {
		l.opening = 0
	}
	return l
}

// written is what the client has written since it was last asked.
func (l *line) written() string {
	b := make([]byte, 1<<16)
	n, err := l.peer.Read(b)
	if err != unix.EAGAIN {
		require.NoError(l.t, err)
	}
	return string(b[:n])
}

func (l *line) close() {
	l.conn.close(false)
	l.peer.close(false)
}

// expect opens the client's ears.
func (l *line) expect(events ...string) {
	require.Zero(l.t, l.opening, "the answer's head has been seen")
	l.clients[0].open = true
	l.clients[0].place = l.fleet.script.end()
	l.fleet.listening = 1
	for _, e := range events {
		require.NoError(l.t, l.fleet.Expect(ExpectArgs{Data: []byte(e), Times: 1}, nil))
	}
}

// pieces feeds text in pieces of n bytes; 0: whole.
func (l *line) pieces(text string, n int) error {
	if n == 0 {
		n = max(len(text), 1)
	}
	for len(text) > 0 {
		n = min(n, len(text))
		if err := l.opens([]byte(text[:n])); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

const (
	streamHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// socketHead answers an upgrade.
func socketHead(t *testing.T, request string) string {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
	require.NoError(t, err)
	return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		transport.AcceptKey(r.Header.Get("Sec-Websocket-Key")) + "\r\n\r\n"
}

// http2Text is HTTP/2 frames.
func http2Text(write func(*http2.Framer)) string {
	var b bytes.Buffer
	write(http2.NewFramer(&b, nil))
	return b.String()
}

func headers(fields ...string) (block []byte) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

var http2Head = http2Text(func(f *http2.Framer) {
	f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 250})
	f.WriteSettingsAck()
	f.WriteWindowUpdate(0, 1<<20)
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true,
		BlockFragment: headers(":status", "200", "content-type", "text/event-stream; charset=utf-8")})
})

func answered(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nDate: now\r\nCONTENT-LENGTH: %d\r\n\r\n%s", len(body), body)
}

const (
	overWebSocket = "transport=ws/http=1.1"
	overDeflate   = overWebSocket + "/codec=deflate"
	overSSE       = "transport=sse/http=1.1"
	overGzip      = overSSE + "/codec=gzip"
	overHTTP2     = "transport=sse/http=2"
	overPoll      = "transport=poll/http=1.1"
	overSocketIO  = "transport=socketio/http=1.1"
	overPolling   = "transport=socketio/lib=polling/http=1.1"
)

// openings are what a server sends until a client is open.
func openings(t *testing.T, name, request string) string {
	switch name {
	case overWebSocket:
		return socketHead(t, request)
	case overDeflate:
		return strings.Replace(socketHead(t, request), "\r\n\r\n", "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n", 1)
	case overSSE:
		return chunkedHead
	case overGzip:
		return strings.Replace(streamHead, "\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n", 1)
	case overHTTP2:
		return http2Head
	case overSocketIO:
		return socketHead(t, request) + text(`0{"sid":"s"}`) + text(`40{"sid":"t"}`)
	case overPolling:
		return answered(`0{"sid":"s"}`) + answered("ok") + answered(`40{"sid":"t"}`)
	case overPoll:
		return ""
	}
	return "HTTP/1.1 200 OK\r\n\r\n"
}

// text is a server's short message on a WebSocket.
func text(s string) string { return "\x81" + string(rune(len(s))) + s }

func TestItDoesNotMatterHowBytesAreCut(t *testing.T) {
	long := strings.Repeat("0", 1<<16)
	for _, test := range []struct {
		name, body string
		events     []string
		pings      int64
		written    string // after the opening
	}{
		{name: "transport=floor", body: "abcabcd", events: []string{"abc", "abcd"}},
		{name: overWebSocket, body: text("abc") + text("") + text("d"), events: []string{"abc", "", "d"}},
		{name: overWebSocket, body: "\x82\x7e\x00\x7e" + long[:126] + "\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00" + long, events: []string{long[:126], long}},
		{name: overWebSocket, body: "\x01\x02ab" + "\x89\x02hi" + "\x00\x00" + "\x8a\x00" + "\x80\x01c" + "\x89\x00", events: []string{"abc"},
			pings: 2, written: string(appendFrame(appendFrame(nil, opPong, []byte("hi")), opPong, nil))},
		{name: overDeflate, body: deflated("abcabcabc", "abcabcabcabc") + text("plain"), events: []string{"abcabcabc", "abcabcabcabc", "plain"}},
		{name: overSSE, body: "b\r\ndata: abc\n\n\r\n" + "2\r\n:\n\r\n" + "00B\r\nid: 7\ndata:\r\n" + "4\r\nx\n\n:\r\n" + "1f\r\n hi\n\ndata: 1\ndata: 2\nevent: e\n\n\r\n",
			events: []string{"abc", "x", "1\n2"}, pings: 2},
		{name: overGzip, body: gzipped("data: abc\n\n:\nda", "ta: d\n\n"), events: []string{"abc", "d"}, pings: 1},
		{name: overHTTP2, events: []string{"abc", "1\n2"}, pings: 2,
			body: http2Text(func(f *http2.Framer) {
				f.WriteData(1, false, []byte("data: abc\n\n:\nda"))
				f.WritePing(false, [8]byte{1, 2, 3})
				f.WriteData(1, false, nil)
				f.WriteData(1, false, []byte("ta: 1\ndata: 2\n\n"))
			}),
			written: http2Text(func(f *http2.Framer) { f.WritePing(true, [8]byte{1, 2, 3}) })},
		{name: overPoll, body: answered("[1,22]") + answered("[]") + answered(`["]"]`), events: []string{"1", "22", `"]"`}, pings: 1,
			written: asked("/poll?cursor=2") + asked("/poll?cursor=2") + asked("/poll?cursor=3")},
		{name: overPoll, body: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n3\r\n,2]\r\n0\r\n\r\n" + answered("[3]"), events: []string{"1", "2", "3"},
			written: asked("/poll?cursor=2") + asked("/poll?cursor=3")},
		{name: overSocketIO, body: text(`42["e","a\"b"]`) + text("2") + text("6") + text(`42["e",{"c":1}]`), events: []string{`a"b`, `{"c":1}`}, pings: 1,
			written: string(appendFrame(nil, opText, []byte("3")))},
		{name: overPolling, body: answered("42[\"e\",\"a\"]\x1e2\x1e42[\"e\",\"b\"]") + answered("ok") + answered("6"), events: []string{"a", "b"}, pings: 1,
			written: posted("3") + asked("/socket.io/?EIO=4&transport=polling&sid=s") + asked("/socket.io/?EIO=4&transport=polling&sid=s")},
	} {
		for _, n := range []int{0, 1, 2, 3, 5, 100} {
			t.Run(fmt.Sprintf("%s/n=%d", test.name, n), func(t *testing.T) {
				l := newLine(t, test.name)
				defer l.close()
				require.NoError(t, l.pieces(openings(t, test.name, l.written()), n))
				if opening := l.written(); test.name == overHTTP2 {
					assert.Equal(t, http2Text(func(f *http2.Framer) { f.WriteSettingsAck() }), opening)
				}
				l.expect(test.events...)
				require.NoError(t, l.pieces(test.body, n))
				assert.Equal(t, len(test.events), l.clients[0].place, "every event has come")
				assert.Zero(t, l.fleet.owed)
				assert.Equal(t, test.pings, l.fleet.counts.Pings)
				assert.Equal(t, test.written, l.written())
			})
		}
	}
}

// deflated are a server's compressed messages, each of which refers to those before.
func deflated(messages ...string) (frames string) {
	var b bytes.Buffer
	w, err := codec.NewWriter(codec.Deflate, &b)
	if err != nil {
		panic(err) // there is such a coding
	}
	for _, m := range messages {
		b.Reset()
		io.WriteString(w, m)
		w.Flush()
		frames += "\xc1" + string(rune(b.Len())) + b.String()
	}
	return frames
}

// gzipped is a stream flushed after each part.
func gzipped(parts ...string) string {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	for _, part := range parts {
		io.WriteString(w, part)
		w.Flush()
	}
	return b.String()
}

// asked is a client's request with the headers of a browser.
func asked(path string) string {
	h, err := feed.Headers("chrome")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(get(path, h))
}

func posted(body string) string {
	h, err := feed.Headers("chrome")
	if err != nil {
		panic(err)
	}
	return string(post("/socket.io/?EIO=4&transport=polling&sid=s", h, body))
}

func TestWhatIsWrongIsAnErrorThatNamesTheClient(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"transport=floor", "abd", `client 7: event 1, byte 0: got "abd", want "abc"`},
		{"transport=floor", "abcx", `client 7: nothing is expected after event 1: got "x"`},
		{overWebSocket, text("abd"), `client 7: event 1, byte 0: got "abd", want "abc"`},
		{overWebSocket, text("ab"), `client 7: event 1 ends after 2 bytes, want "c" more`},
		{overWebSocket, text("abcd"), `client 7: event 1, byte 0: got "abcd", want "abc"`},
		{overWebSocket, text("abc") + text("abc"), `client 7: nothing is expected after event 1: got "abc"`},
		{overWebSocket, text("abc") + text(""), `client 7: nothing is expected after event 1: got ""`},
		{overWebSocket, "\x81\x83", `client 7: a masked frame from a server: "\x81\x83"`},
		{overWebSocket, "\xc1\x03", `client 7: a frame with reserved bits`},
		{overWebSocket, "\x83\x03", `client 7: an unknown opcode`},
		{overWebSocket, "\x8b\x03", `client 7: an unknown opcode`},
		{overWebSocket, "\x80\x00", `client 7: a continuation of nothing`},
		{overWebSocket, "\x01\x01a\x81\x02", `client 7: a message within a message`},
		{overWebSocket, "\x09\x00", `client 7: a control frame in fragments, or too long`},
		{overWebSocket, "\x89\x7e", `client 7: a control frame in fragments, or too long`},
		{overWebSocket, "\x81\x7e\x00\x7d", `client 7: a length that has a shorter form`},
		{overWebSocket, "\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff", `client 7: a length that has a shorter form`},
		{overDeflate, deflated("abd"), `client 7: event 1, byte 0: got "abd", want "abc"`},
		{overDeflate, "\xc1\x02\xff\xff", `client 7: inflating a message: `},
		{overSSE, "x", `client 7: a chunk is broken, at "x"`},
		{overSSE, "\r", `client 7: a chunk is broken`},
		{overSSE, "b;a=1", `client 7: a chunk is broken, at ";a=1"`},
		{overSSE, "b\ndata", `client 7: a chunk is broken, at "\ndata"`},
		{overSSE, "b\r\ndata: abc\n\nx", `client 7: a chunk is broken, at "x"`},
		{overSSE, "b\r\ndata: abd\n\n\r\n", `client 7: event 1, byte 0: got "abd", want "abc"`},
		{overSSE, "b\r\ndata: ab\n\n\r\n", `client 7: event 1 ends after 2 bytes, want "c" more`},
		{overSSE, "20\r\ndata: abc\ndata: d\n\n", `client 7: event 1, byte 3: got "\n", want ""`},
		{overSSE, "20\r\ndata: abc\n\ndata: d\n\n", `client 7: nothing is expected after event 1: got "d"`},
		{overSSE, "20\r\ndate: abc", `client 7: a line begins "date:": want a field of an event stream`},
		{overSSE, "20\r\ndata\n", `client 7: a line begins "data\n": want a field of an event stream`},
		{overGzip, "no gzip, but long enough\n\n", `client 7: decoding gzip: gzip: invalid header`},
		{overGzip, gzipped("data: abd\n\n"), `client 7: event 1, byte 0: got "abd", want "abc"`},
		{overSSE, "20\r\n\r\n", `client 7: a line begins "\r\n": want a field of an event stream`},
		{overSSE, "20\r\nretry-", `client 7: a line begins "retry-": want a field of an event stream`},
		{overHTTP2, http2Text(func(f *http2.Framer) { f.WriteDataPadded(1, false, []byte("x"), []byte{0}) }), `client 7: a frame with padding or a priority`},
		{overHTTP2, http2Text(func(f *http2.Framer) { f.WriteData(3, false, nil) }), `client 7: a frame of a stream that was not opened`},
		{overHTTP2, http2Text(func(f *http2.Framer) { f.WriteContinuation(1, true, nil) }), `client 7: a frame that no server sends here`},
		{overHTTP2, http2Text(func(f *http2.Framer) { f.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, []byte("calm")) }), `client 7: the server ends the connection: ENHANCE_YOUR_CALM: "calm"`},
		{overHTTP2, "\x00\x40\x01\x00\x00\x00\x00\x00\x01", `client 7: a frame larger than was allowed`},
		{overHTTP2, http2Text(func(f *http2.Framer) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: headers(":status", "200")})
		}), `client 7: a second head, or one in several frames`},
		{overHTTP2, http2Text(func(f *http2.Framer) { f.WriteData(1, false, []byte("data: abd")) }), `client 7: event 1, byte 0: got "abd", want "abc"`},
		{overPoll, "HTTP/1.1 410 Gone\r\n\r\n", `client 7: the answer begins "HTTP/1.1 410 Gone", want HTTP/1.1 200`},
		{overPoll, "HTTP/1.1 200 OK\r\n\r\n", `client 7: strconv.ParseUint: parsing ""`},
		{overPoll, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", `client 7: strconv.ParseUint: parsing "-1"`},
		{overPoll, answered("{}"), `client 7: the answer is no array of events: "{}"`},
		{overPoll, answered("[abc"), `client 7: the answer's array does not end`},
		{overPoll, answered(""), `client 7: the answer's array does not end`},
		{overPoll, answered("[abc] "), `client 7: the answer is no array of events: " "`},
		{overPoll, answered("[abc ]"), `client 7: the answer is no array of events: " ]"`},
		{overPoll, answered("[abc,]"), `client 7: nothing is expected after event 1: got "]"`},
		{overPoll, answered("[abd]"), `client 7: event 1, byte 0: got "abd", want "abc"`},
		{overPoll, answered("[abc]") + "x" + strings.Repeat("x", largestHead), `client 7: the answer's head has more than 16384 bytes`},
		{overSocketIO, text("7"), `client 7: not a packet that may come now: "7"`},
		{overSocketIO, text("40{}"), `client 7: not a packet that may come now: "40{}"`},
		{overSocketIO, text(`42["e","a","b"]`), `client 7: not a name and one value: "42[`},
		{overSocketIO, text(`42["e"`), `client 7: unexpected end of JSON input: "42[`},
		{overSocketIO, text(`42["e","abd"]`), `client 7: event 1, byte 0: got "abd", want "abc"`},
		{overSocketIO, text(`42["e","abc"]`) + text(`42["e","abc"]`), `client 7: nothing is expected after event 1: got "abc"`},
		{overPolling, answered("ok"), `client 7: not a packet that may come now: "ok"`},
		{overPolling, answered("2") + answered("no"), `client 7: what was sent up is answered with "no"`},
	} {
		l := newLine(t, test.name)
		require.NoError(t, l.pieces(openings(t, test.name, l.written()), 0))
		l.expect("abc")
		err := l.pieces(test.body, 0)
		if assert.Error(t, err, "%s: %q", test.name, test.body) {
			assert.Contains(t, err.Error(), test.want, "%s: %q", test.name, test.body)
		}
		l.close()

		l = newLine(t, test.name)
		require.NoError(t, l.pieces(openings(t, test.name, l.written()), 1))
		l.expect("abc")
		assert.ErrorContains(t, l.pieces(test.body, 1), "client 7: ", "byte by byte, %s: %q", test.name, test.body)
		l.close()
	}
}

func TestAnAnswerThatWasNotAskedForOpensNothing(t *testing.T) {
	status := func(code string) string {
		return http2Text(func(f *http2.Framer) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: headers(":status", code)})
		})
	}
	for _, test := range []struct{ name, answer, want string }{
		{overWebSocket, "HTTP/1.1 403 Forbidden\r\n\r\n", `the answer begins "HTTP/1.1 403 Forbidden", want HTTP/1.1 101`},
		{overWebSocket, "HTTP/1.1 101 OK\r\nSec-WebSocket-Accept: x\r\n\r\n", `the answer accepts "x", not the key sent`},
		{overSSE, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", `the answer is "text/html", not text/event-stream`},
		{overSSE, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n", `asked for coding "", got "gzip"`},
		{overSSE + "/codec=br24", streamHead, `asked for coding "br", got ""`},
		{overSSE, strings.Replace(streamHead, "1.1", "1.0", 1), `the answer begins "HTTP/1.0 200 OK", want HTTP/1.1 200`},
		{overHTTP2, status("404"), `client 7: the answer's status is "404", want 200`},
		{overHTTP2, status("200"), `client 7: the answer is "", not text/event-stream`},
		{overHTTP2, http2Text(func(f *http2.Framer) { f.WriteData(1, false, []byte("x")) }), `client 7: data before the answer's head`},
		{overHTTP2, http2Text(func(f *http2.Framer) { f.WriteRSTStream(1, http2.ErrCodeRefusedStream) }), `client 7: stream 1 of 1 is ended by a RST_STREAM 00000007`},
		{overPolling, answered("0{}"), `client 7: it is opened without a session id: "0{}"`},
		{overDeflate, "", `asked for compression "deflate", got "" ()`},
	} {
		l := newLine(t, test.name)
		if test.answer == "" {
			test.answer = socketHead(t, l.written())
		}
		assert.EqualError(t, l.pieces(test.answer, 0), test.want, test.name)
		l.close()
	}
}

func TestAStreamHasNoNeedOfChunks(t *testing.T) {
	l := newLine(t, overSSE)
	defer l.close()
	require.NoError(t, l.pieces(streamHead, 1))
	l.expect("a", "b")
	require.NoError(t, l.pieces("data: a\n\ndata: b\n\n", 1))
	assert.Zero(t, l.fleet.owed)
}

func TestTheServersEndIsNoError(t *testing.T) {
	for name, body := range map[string]string{
		overWebSocket: "\x88\x02\x03\xe8",
		overSSE:       "0\r\n\r\n",
		overHTTP2:     http2Text(func(f *http2.Framer) { f.WriteGoAway(1, http2.ErrCodeNo, nil) }),
		overSocketIO:  text("1"),
	} {
		l := newLine(t, name)
		require.NoError(t, l.pieces(openings(t, name, l.written()), 0))
		l.expect()
		l.written()
		assert.Equal(t, errLeft, l.pieces(body, 1), name)
		if name == overWebSocket {
			assert.Equal(t, string(appendFrame(nil, opClose, []byte("\x03\xe8"))), l.written(), "a close is answered in kind")
		}
		l.close()
	}
	l := newLine(t, overHTTP2)
	defer l.close()
	require.NoError(t, l.pieces(http2Head, 0))
	l.expect("abc")
	require.NoError(t, l.pieces(http2Text(func(f *http2.Framer) { f.WriteData(1, true, nil) }), 1))
	assert.Equal(t, Counts{Open: -1, Closed: 1}, l.fleet.counts, "a stream may end alone")
	assert.Equal(t, 1, l.fleet.lost)
}

func TestAnEventIsReceivedWithoutAllocating(t *testing.T) {
	for name, body := range map[string]string{
		"transport=floor": "abc",
		overWebSocket:     text("abc"),
		overSSE:           "b\r\ndata: abc\n\n\r\n",
		overHTTP2:         http2Text(func(f *http2.Framer) { f.WriteData(1, false, []byte("data: abc\n\n")) }),
		overPoll:          answered("[abc]"),
		overSocketIO:      text(`42["e","abc"]`),
	} {
		l := newLine(t, name)
		require.NoError(t, l.pieces(openings(t, name, l.written()), 0))
		l.expect()
		require.NoError(t, l.fleet.Expect(ExpectArgs{Data: []byte("abc"), Times: 102}, nil))
		if name == overSocketIO { // the first client finds out what an event's packet is
			for _, e := range l.fleet.script.events {
				e.packet = []byte(`42["e","abc"]`)
			}
		}
		feed := []byte(body)
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			if err := l.opens(feed); err != nil {
				panic(err)
			}
		}), name)
		assert.Equal(t, 1, l.fleet.owed)
		l.close()
	}
}

func TestNothingIsExpectedOfWhoIsStillDialing(t *testing.T) {
	l := newLine(t, overSSE)
	defer l.close()
	require.NoError(t, l.fleet.Expect(ExpectArgs{Data: []byte("x"), Times: 1}, nil))
	assert.EqualError(t, l.pieces(streamHead+"data: x\n\n", 0), `client 7: nothing is expected after event 0: got "x"`)
}

// A client that is greeted is open when it has its greeting. One that is
// encoded compares bytes, whatever they would decode to.
func TestAGreetingComesBeforeAClientIsOpen(t *testing.T) {
	overTwo := func(parts ...string) string {
		return http2Text(func(f *http2.Framer) {
			for _, part := range parts {
				f.WriteData(1, false, []byte(part))
			}
		})
	}
	for _, test := range []struct {
		name, greeting, body string
		encoded              bool
	}{
		{name: overSSE, greeting: "d\r\ndata: hello\n\n\r\n", body: "a\r\ndata: ab\n\n\r\n"},
		{name: overSSE, greeting: "5\r\nhello\r\n", body: "1\r\na\r\n1\r\nb\r\n", encoded: true},
		{name: overGzip, greeting: "hello", body: "ab", encoded: true},
		{name: overHTTP2, greeting: overTwo("data: hello\n\n"), body: overTwo("data: a", "b\n\n")},
		{name: overHTTP2, greeting: overTwo("he", "llo"), body: overTwo("ab"), encoded: true},
	} {
		greeted := func(t *testing.T, n int) *line {
			l := newLine(t, test.name)
			l.clients[0].encoded = test.encoded
			g := Greeting{Data: []byte("hello"), Wire: []byte("never")}
			if test.encoded {
				g = Greeting{Data: []byte("never"), Wire: []byte("hello")}
			}
			l.clients[0].greet(g)
			head := openings(t, test.name, l.written())
			require.NoError(t, l.pieces(head, n))
			require.Equal(t, 1, l.opening, "its greeting has not come")
			require.NoError(t, l.pieces(test.greeting, n))
			require.Zero(t, l.opening)
			return l
		}
		for _, n := range []int{0, 1, 2, 3, 5} {
			t.Run(fmt.Sprintf("%s/encoded=%v/n=%d", test.name, test.encoded, n), func(t *testing.T) {
				l := greeted(t, n)
				defer l.close()
				l.expect()
				a := ExpectArgs{Data: []byte("ab"), Wire: []byte("never"), Times: 1}
				if test.encoded {
					a = ExpectArgs{Data: []byte("never"), Wire: []byte("ab"), Times: 1}
				}
				require.NoError(t, l.fleet.Expect(a, nil))
				require.NoError(t, l.pieces(test.body, n))
				assert.Zero(t, l.fleet.owed)
				assert.Equal(t, 1, l.clients[0].place, "a greeting is no event of the script")
				assert.ErrorContains(t, l.pieces(test.body, n), "client 7: nothing is expected after event 1")
			})
		}
		l := greeted(t, 0)
		assert.ErrorContains(t, l.pieces(test.greeting, 0), "client 7: nothing is expected after event 0", "one greeting is enough")
		l.close()
	}
}

func TestAPongCountsThatAnswersThePing(t *testing.T) {
	l := newLine(t, overWebSocket)
	defer l.close()
	require.NoError(t, l.pieces(openings(t, overWebSocket, l.written()), 0))
	l.expect()
	l.clients[0].pinged, l.fleet.pinged, l.fleet.ping = true, 1, []byte("now")
	require.NoError(t, l.pieces("\x8a\x04then", 0))
	assert.Zero(t, l.fleet.ponged)
	require.NoError(t, l.pieces("\x8a\x03now"+"\x8a\x03now", 0))
	assert.Equal(t, 1, l.fleet.ponged)
	assert.Zero(t, l.fleet.pinged)
}
