package extra

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/extra/internal/browser"
	"pushcost/extra/internal/site"
	"pushcost/internal/child"
	"pushcost/internal/codec"
	"pushcost/internal/eventstream"
	"pushcost/internal/feed"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// What only a browser can show: the project's servers, and Chromium at the
// other end. Nothing here waits for time to pass but where the browser does:
// that something waits is seen by what is seen before it.

// E8: over HTTP/1.1 an origin has six connections, over all tabs, for
// EventSources and fetches alike. A seventh EventSource is not even asked for
// until one is closed, nor is a fetch; what a page asks of another origin
// after them is answered before.
func TestBrowserSixConnectionsPerOrigin(t *testing.T) {
	s, elsewhere := serve(t, "transport=sse/http=1.1", transport.Options{}, nil), serve(t, "transport=sse/http=1.1", transport.Options{}, nil)
	one, other := open(t, s.Page()), open(t, s.Page())
	for i := range 3 {
		for _, tab := range []page{one, other} {
			tab.run(`listen('%d', '/events')`, i)
			tab.sees(fmt.Sprint(i), "open")
		}
	}

	one.run(`listen('seventh', '/events'); get('elsewhere', %q, { mode: 'no-cors' })`, elsewhere.Page())
	one.sees("elsewhere", "answer")
	assert.Len(t, s.Asked("/events"), 6, "the seventh waits in the browser")
	other.run(`streams[0].close()`)
	one.sees("seventh", "open")
	assert.Len(t, s.Asked("/events"), 7, "the seventh comes when one is closed, in whichever tab")

	other.run(`get('fetch', '/nowhere/fetch'); get('elsewhere', %q, { mode: 'no-cors' })`, elsewhere.Page())
	other.sees("elsewhere", "answer")
	assert.Empty(t, s.Asked("/nowhere/fetch"), "a fetch waits as well")
	one.run(`streams.seventh.close()`)
	other.sees("fetch", "answer")
}

// E8: over HTTP/2 a hundred of a hundred EventSources are open, from two tabs,
// over one connection, and a fetch goes between them.
func TestBrowserHundredStreamsOverHTTP2(t *testing.T) {
	s := serve(t, "transport=sse/http=2/tls=1.3", transport.Options{}, nil)
	one, other := open(t, s.Page()), open(t, s.Page())
	for _, tab := range []page{one, other} {
		tab.run(`for (let i = 0; i < 50; i++) listen(i, '/events')`)
		for range 50 {
			require.Equal(t, "open", tab.next().Saw)
		}
	}
	one.run(`get('fetch', '/nowhere/fetch')`)
	one.sees("fetch", "answer")
	connections := map[string]bool{}
	for _, r := range append(s.Asked("/events"), s.Asked("/nowhere/fetch")...) {
		connections[r.From] = true
	}
	assert.Len(t, s.Asked("/events"), 100)
	assert.Len(t, connections, 1, "all of them share a connection")
}

// E15: an EventSource resumes by itself, with Last-Event-ID, after the time
// that retry says: fifty times, whichever byte its connection is cut at, of
// the TLS handshake, the head or an event. None is lost, none comes twice.
// (At Chromium's own three seconds fifty would outlast the tab.)
func TestBrowserResumesAfterCuts(t *testing.T) {
	for name, fate := range map[string]struct {
		most int  // bytes a connection lives for
		fin  bool // half of them end as if all was said
	}{
		"transport=sse/http=1.1/ids=on":         {600, false}, // see the next test
		"transport=sse/http=1.1/tls=1.3/ids=on": {3000, true},
		"transport=sse/http=2/tls=1.3/ids=on":   {3000, true},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(8, 15))
			cutter := &site.Cutter{Next: func() (int, bool) { return random.IntN(fate.most), !fate.fin || random.IntN(2) == 0 }}
			s := serve(t, name, transport.Options{Retry: in(time.Millisecond)}, cutter)
			p := open(t, s.Page())
			p.run(`listen('stream', '/events')`)
			p.sees("stream", "open")
			cutter.Arm()
			for n := 0; cutter.Cuts() < 50; n++ {
				want := s.Log.Publish(feed.Trades()[n])
				require.Equal(t, browser.Note{Stream: "stream", Saw: "message", ID: fmt.Sprint(want.ID), Text: string(want.Data)}, p.nextBut("error", "open"), "the next event, once")
			}
			resumed := slices.DeleteFunc(s.Asked("/events"), func(r site.Request) bool { return r.Header.Get("Last-Event-ID") == "" })
			t.Logf("%d connections cut, %d requests with a Last-Event-ID", cutter.Cuts(), len(resumed))
			assert.Greater(t, len(resumed), 10, "connections were cut after events, too")
		})
	}
}

// E15: but not over plain HTTP if the head is cut as if it were all: Chromium
// takes what there is for a head, and one without a Content-Type ends an
// EventSource for good. It survives a reset, and TLS, which tells an end from
// a cut.
func TestBrowserTakesACutHeadForAHead(t *testing.T) {
	var life atomic.Int64
	cutter := &site.Cutter{Next: func() (int, bool) { return int(life.Load()), false }}
	s := serve(t, "transport=sse/http=1.1", transport.Options{}, cutter)
	p := open(t, s.Page())
	cutter.Arm()
	const head = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Type: text/event-stream"
	for n := range len(head) + 1 {
		want := "close"
		switch {
		case n < len("HTTP"):
			want = "error" // and connects again
		case n == len(head):
			want = "open"
		}
		life.Store(int64(n))
		p.run(`listen('%[1]d', '/events'); streams[%[1]d].addEventListener('error', (e) => e.target.close())`, n)
		got := p.next()
		assert.Equal(t, []string{fmt.Sprint(n), want}, []string{got.Stream, got.Saw}, "cut after %q", head[:n])
	}
}

// E15: an answer other than 200 ends an EventSource for good: 204, which is
// for that, 410, which says that its cursor is gone, and as much a proxy's 503
// while the server restarts.
func TestBrowserStopsAtAnyOtherStatus(t *testing.T) {
	for _, status := range []int{204, 410, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			p, _ := reconnecting(t, transport.Options{Retry: in(time.Millisecond)}, status)
			assert.Equal(t, "close", p.nextBut("error").Saw)
		})
	}
}

// E15: retry is honoured, and without it Chromium waits for three seconds.
func TestBrowserWaitsBeforeItReconnects(t *testing.T) {
	for retry, least := range map[time.Duration]time.Duration{0: 3 * time.Second, 300 * time.Millisecond: 300 * time.Millisecond} {
		t.Run("retry="+retry.String(), func(t *testing.T) {
			t.Parallel()
			p, since := reconnecting(t, transport.Options{Retry: in(retry)}, http.StatusOK)
			require.Equal(t, "open", p.nextBut("error").Saw)
			t.Logf("reconnected after %v", time.Since(since).Round(time.Millisecond))
			assert.GreaterOrEqual(t, time.Since(since), least)
		})
	}
}

// reconnecting opens an EventSource and cuts its connections, since the time
// returned, until the page has seen an error. All that it asks for from then on
// is answered with the status.
func reconnecting(t *testing.T, o transport.Options, status int) (p page, since time.Time) {
	var cutting, cut atomic.Bool
	o.Admit = func(*http.Request) *transport.Refusal {
		if !cutting.Load() || status == http.StatusOK {
			return nil
		}
		return &transport.Refusal{Status: status}
	}
	cutter := &site.Cutter{Next: func() (int, bool) {
		if cut.Load() {
			return math.MaxInt, false
		}
		return 0, true
	}}
	s := serve(t, "transport=sse/http=1.1", o, cutter)
	p = open(t, s.Page())
	p.run(`listen('stream', '/events')`)
	p.sees("stream", "open")
	cutting.Store(true)
	cutter.Arm()
	since = time.Now()
	s.Log.Publish([]byte("1"))
	p.sees("stream", "error")
	cut.Store(true)
	return p, since
}

// E16: SSE is one-way, and an EventSource sends no header of the page's: it
// has a URL and cookies.
func TestBrowserEventSourceHasNoHeaders(t *testing.T) {
	s := serve(t, "transport=sse/http=1.1", transport.Options{}, nil)
	p := open(t, s.Page())
	p.run(`say('EventSource', 'has', '', Object.keys(EventSource.prototype).sort().join(' '))`)
	assert.Equal(t, "CLOSED CONNECTING OPEN close onerror onmessage onopen readyState url withCredentials", p.sees("EventSource", "has").Text, "nothing to send with")

	p.run(`document.cookie = 'ticket=7; path=/events';
		listen('stream', '/events', { withCredentials: true, headers: { Authorization: 'Bearer 7', 'X-Ticket': '7' } })`)
	p.sees("stream", "open")
	asked := s.Asked("/events")[0].Header
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(asked)), func(name string) bool { return strings.HasPrefix(name, "Sec-") })
	t.Logf("%s sends %s", asked.Get("User-Agent"), slices.Sorted(maps.Keys(asked)))
	assert.Equal(t, []string{"Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Connection", "Cookie", "Pragma", "Referer", "User-Agent"}, names)
	assert.Equal(t, "ticket=7", asked.Get("Cookie"))
}

// E16: SSE is UTF-8. What is not becomes U+FFFD, and a CR a LF, in Chromium as
// in this project's reader of streams.
func TestBrowserReplacesWhatIsNotUTF8(t *testing.T) {
	s := serve(t, "transport=sse/http=1.1/ids=on", transport.Options{}, nil)
	p := open(t, s.Page())
	p.run(`listen('stream', '/events')`)
	p.sees("stream", "open")
	random := rand.New(rand.NewPCG(8, 16))
	pieces := []string{"event", "\u00e9", "\u6f22", "\U0001f642", "\xff", "\xc3", "\xe6\xbc", "\xf0\x9f\x99", "\xed\xa0\x80", "\ufeff", "\x00", "\r", "\n", ":", " "}
	for range 300 {
		var data []byte
		for range random.IntN(12) {
			data = append(data, pieces[random.IntN(len(pieces))]...)
			data = append(data, byte(random.IntN(256)))
		}
		s.Log.Publish(data)
		want, err := eventstream.NewReader(bytes.NewReader(eventstream.AppendEvent(nil, "", data))).Next()
		require.NoError(t, err)
		require.Equal(t, string(want.Data), p.sees("stream", "message").Text, "%q", data)
	}
}

// C21: Chromium decodes gzip, br and zstd event streams as they come: it sees
// each event before the next one is even published, over either HTTP.
func TestBrowserDecodesEventByEvent(t *testing.T) {
	cells, err := setup.Cross("transport=sse/http=1.1|2/tls=1.3/codec=|gzip|br|zstd")
	require.NoError(t, err)
	for _, cell := range cells {
		t.Run(cell.String(), func(t *testing.T) {
			s := serve(t, cell.String(), transport.Options{}, nil)
			p := open(t, s.Page())
			p.run(`listen('stream', '/events')`)
			p.sees("stream", "open")
			var took []time.Duration
			for _, trade := range feed.Trades()[:100] {
				e := s.Log.Publish(trade)
				require.Equal(t, string(trade), p.sees("stream", "message").Text)
				took = append(took, time.Since(e.At))
			}
			slices.Sort(took)
			t.Logf("seen, and heard of here, %v after it was published (median)", took[len(took)/2].Round(10*time.Microsecond))
			assert.Contains(t, s.Asked("/events")[0].Header.Get("Accept-Encoding"), string(cell.Codec), "it was asked for")
		})
	}
}

// C21: but over plain HTTP Chromium asks for br and zstd only on the loopback.
func TestBrowserAsksForBrotliWhereItIsSecure(t *testing.T) {
	for name, want := range map[string]string{"transport=sse/http=1.1": "gzip, deflate", "transport=sse/http=1.1/tls=1.3": "gzip, deflate, br, zstd"} {
		s := serve(t, name, transport.Options{}, nil)
		p := open(t, strings.Replace(s.Page(), "127.0.0.1", "push.example", 1))
		p.run(`listen('stream', '/events')`)
		p.sees("stream", "open")
		assert.Equal(t, want, s.Asked("/events")[0].Header.Get("Accept-Encoding"), name)
	}
}

// B6: what is encoded once for a room decodes in Chromium byte for byte, in
// EventSources and in WebSockets, which join at any event, miss events and get
// private ones. Each event is seen before the next is encoded.
func TestBrowserDecodesWhatARoomShares(t *testing.T) {
	for _, coding := range []codec.Name{codec.Brotli, codec.Gzip, codec.Zstd, codec.Deflate} {
		t.Run("coding="+string(coding), func(t *testing.T) {
			a := newAudience(t, coding)
			for i, payload := range payloads(t) {
				if slices.Contains([]int{0, 1, 9, 80}, i) {
					a.join()
				}
				a.publish(payload, func(n int) (missed, private bool) {
					return n > 0 && i%(5*n+4) == 0, n > 0 && i%(7*n+3) == 0
				})
			}
			assert.Greater(t, a.seen, 300, "events in four streams, from one encoder")
		})
	}
}

// E21, C22: Chromium offers permessage-deflate with a window that the server
// may choose, and no other extension; each library answers in its own way,
// coder and gws with takeover if told to. Messages arrive equal both ways.
func TestBrowserWebSockets(t *testing.T) {
	const noTakeover = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
	for name, answer := range map[string]string{
		"transport=ws/lib=gorilla/http=1.1":                           "",
		"transport=ws/lib=gorilla/http=1.1/codec=deflate-no-takeover": noTakeover,
		"transport=ws/lib=coder/http=1.1/codec=deflate":               "permessage-deflate",
		"transport=ws/lib=coder/http=1.1/codec=deflate-no-takeover":   "permessage-deflate; client_no_context_takeover; server_no_context_takeover",
		"transport=ws/lib=gws/http=1.1/codec=deflate":                 "permessage-deflate",
		"transport=ws/lib=gws/http=1.1/codec=deflate-no-takeover":     noTakeover,
	} {
		t.Run(name, func(t *testing.T) {
			extensions, asked := echo(t, name)
			assert.Equal(t, answer, extensions)
			assert.Equal(t, "permessage-deflate; client_max_window_bits", asked("/ws").Header.Get("Sec-Websocket-Extensions"))
		})
	}
}

// E9: Chromium opens a WebSocket over the HTTP/2 connection that its page came
// over, with RFC 8441's CONNECT, if the server's SETTINGS allow it, as Go's do
// only if told to. If not, it dials anew, for HTTP/1.1.
func TestBrowserWebSocketOverHTTP2(t *testing.T) {
	for coding, answer := range map[string]string{"": "", "/codec=deflate": "permessage-deflate"} {
		extensions, asked := echo(t, "transport=ws/lib=coder/http=2/tls=1.3"+coding)
		assert.Equal(t, answer, extensions)
		ws := asked("/ws")
		assert.Equal(t, []string{"CONNECT", "HTTP/2.0", "websocket"}, []string{ws.Method, ws.Proto, ws.Header.Get(":protocol")})
		assert.Equal(t, asked("/nowhere/page").From, ws.From, "it shares the page's connection")
	}

	s := serve(t, "transport=ws/lib=coder/http=2/tls=1.3", transport.Options{}, nil) // not told to
	p := open(t, s.Page())
	p.run(`dial('socket', '/ws')`)
	p.sees("socket", "close")
	assert.Empty(t, s.Asked("/ws"), "this server has no HTTP/1.1")
}

// echo serves a WebSocket from a process with RFC 8441 switched on, and has a
// page send back every message. It returns the extensions that were agreed to,
// and the first request for a path.
func echo(t *testing.T, name string) (extensions string, asked func(path string) site.Request) {
	server, err := child.Start(context.Background(), "site", "http2xconnect=1")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	var url string
	require.NoError(t, server.Call("Serve", name, &url))
	p := open(t, url)
	p.run(`dial('socket', '/ws')`)
	extensions = p.sees("socket", "open").Text
	for _, payload := range payloads(t) {
		var id uint64
		require.NoError(t, server.Call("Publish", payload, &id))
		require.True(t, string(payload) == p.sees("socket", "message").Text, "message %d comes down", id)
		var back []byte
		require.NoError(t, server.Call("Hear", 0, &back))
		require.True(t, bytes.Equal(payload, back), "message %d comes back up", id)
	}
	return extensions, func(path string) site.Request {
		var requests []site.Request
		require.NoError(t, server.Call("Asked", path, &requests))
		require.NotEmpty(t, requests, path)
		return requests[0]
	}
}
