package room

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/board"
	"pushcost/internal/codec"
	"pushcost/internal/eventstream"
	"pushcost/internal/feed"
)

func encoder(t testing.TB, coding codec.Name) *Encoder {
	t.Helper()
	enc, err := NewEncoder(coding, Options{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return enc
}

// patches returns the first n patches of the documents' board, as events.
func patches(style board.Style, patch board.Patch, n int) [][]byte {
	rooms := board.NewRooms(style, patch, "lobby")
	var events [][]byte
	for i, c := range board.Script(n, board.Rows) {
		html, err := rooms.Do("lobby", c.Row, c.Nonce)
		if err != nil {
			panic(err) // a script fits its board
		}
		events = append(events, eventstream.AppendEvent(nil, fmt.Sprint(i+1), html))
	}
	return events
}

func trades(n int) [][]byte {
	var events [][]byte
	for i, e := range feed.Trades()[:n] {
		events = append(events, eventstream.AppendEvent(nil, fmt.Sprint(i+1), e))
	}
	return events
}

func TestAJoinerAtEveryPositionDecodesWhatFollows(t *testing.T) {
	for name, events := range map[string][][]byte{
		"boards": patches(board.Semantic, board.Whole, 10),
		"rows":   patches(board.Utility, board.Row, 40),
		"trades": trades(50),
	} {
		for _, coding := range codings {
			t.Run("coding="+string(coding)+"/events="+name, func(t *testing.T) {
				t.Parallel()
				enc := encoder(t, coding)
				var subs []*subscriber
				join := func(want []byte) {
					s, wire := enc.Join()
					subs = append(subs, &subscriber{Subscriber: s, clients: clients(coding)})
					require.NoError(t, subs[len(subs)-1].receive(wire, want))
				}
				join(nil) // before the first event
				for i, event := range events {
					chunk := enc.Encode(event)
					for n, s := range subs {
						require.NoError(t, s.receive(s.Next(chunk), event), "event %d, joined at %d", i, n)
					}
					join(event)
				}
			})
		}
	}
}

func TestOneCallPerEventAndNoCopyWhateverTheSubscribers(t *testing.T) {
	events := patches(board.Utility, board.Whole, 6)
	for _, coding := range codings {
		for _, subscribers := range []int{1, 2000} {
			enc := encoder(t, coding)
			subs := make([]*Subscriber, subscribers)
			for i := range subs {
				subs[i], _ = enc.Join()
			}
			for _, event := range events {
				chunk := enc.Encode(event)
				for _, s := range subs {
					require.Same(t, &chunk.wire[0], &s.Next(chunk)[0], "the very bytes")
				}
			}
			assert.EqualValues(t, len(events), enc.Calls(), "%s: calls to a compressor for %d subscribers", coding, subscribers)
		}
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	enc := encoder(t, codec.Brotli)
	sub, _ := enc.Join()
	var chunks []*Chunk
	for _, event := range trades(200) {
		chunks = append(chunks, enc.Encode(event))
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		sub.Next(chunks[0])
		chunks = chunks[1:]
	}))
}

func TestWhoeverIsOutOfStepCostsOneCallPerEventTogether(t *testing.T) {
	events := patches(board.Utility, board.Whole, 4)
	enc := encoder(t, codec.Brotli)
	subs := make([]*Subscriber, 100)
	first := enc.Encode(events[0])
	for i := range subs {
		subs[i], _ = enc.Join()
	}
	assert.EqualValues(t, 1, enc.Calls(), "the first event refers to nothing: it serves joiners as it is")
	_, wire := enc.Join()
	assert.Len(t, wire, 2+len(first.wire), "a join costs a header and one event encoded alone")

	enc.Encode(events[1]) // they miss it
	third := enc.Encode(events[2])
	calls := enc.Calls()
	for _, s := range subs {
		s.Next(third)
	}
	assert.Equal(t, calls+1, enc.Calls(), "an event is encoded alone once, for all who missed the one before")
	fourth := enc.Encode(events[3])
	for _, s := range subs {
		require.Same(t, &fourth.wire[0], &s.Next(fourth)[0], "with whole pages they are in step after one")
	}
}

func TestASubscriberIsInStepOnceItHasTheReference(t *testing.T) {
	for _, coding := range []codec.Name{codec.Brotli, codec.Gzip, codec.Deflate} {
		enc := encoder(t, coding)
		events := patches(board.Utility, board.Row, 100)
		for _, event := range events[:50] {
			enc.Encode(event)
		}
		sub, _ := enc.Join()
		alone := 0
		for _, event := range events[50:] {
			chunk := enc.Encode(event)
			if &sub.Next(chunk)[0] != &chunk.wire[0] {
				alone++
				assert.Less(t, chunk.from, uint64(50), "%s: it has the events from 50 on", coding)
			} else {
				assert.GreaterOrEqual(t, chunk.from, uint64(50), "%s", coding)
			}
		}
		assert.InDelta(t, reach/len(events[50]), alone, 3, "%s: events that a joiner gets alone", coding)
	}
}

func TestAPrivateEventDoesNotDisturbOthers(t *testing.T) {
	for _, coding := range codings {
		enc := encoder(t, coding)
		events := patches(board.Utility, board.Whole, 4)
		enc.Encode(events[0])
		one, _ := enc.Join()
		other, _ := enc.Join()
		one.Private([]byte(": for your eyes only\n\n"))
		chunk := enc.Encode(events[1])
		assert.Same(t, &chunk.wire[0], &other.Next(chunk)[0], "%s: nobody else notices", coding)
		one.Next(chunk)
		chunk = enc.Encode(events[2])
		assert.Same(t, &chunk.wire[0], &one.Next(chunk)[0], "%s: one page later it is in step", coding)
	}
}

func TestWebSocketsKeepStepThroughPrivateEvents(t *testing.T) {
	enc := encoder(t, codec.Deflate)
	enc.Encode([]byte("one"))
	sub, _ := enc.Join()
	secret := strings.Repeat("secret ", 30)
	assert.Equal(t, "\x81\x7e\x00\xd2"+secret, string(sub.Private([]byte(secret))), "a text frame that is not compressed")
	chunk := enc.Encode([]byte("two"))
	assert.Same(t, &chunk.wire[0], &sub.Next(chunk)[0])
}

// What was encoded before must not show in how an event is encoded alone: it
// may have been somebody else's.
func TestNothingOfAPrivateEventIsLeftBehind(t *testing.T) {
	secret := []byte(strings.Repeat("token=8f14e45fceea167a; ", 40))
	guess := []byte("data: token=8f14e45fceea167a; or so\n\n")
	for _, coding := range codings {
		format, err := formatOf(coding, 0)
		require.NoError(t, err)
		fresh, used := format.coder(), format.coder()
		used.encode(nil, secret)
		assert.Equal(t, fresh.encode(nil, guess), used.encode(nil, guess), "%s", coding)
	}
}

// windows are how far back copies can be, by RFC 7932, 9.1, and RFC 1951, 2.
var windows = map[codec.Name]int{codec.Brotli: 1<<18 - 16, codec.Gzip: 1 << 15, codec.Deflate: 1 << 15}

// noise is like nothing but itself.
func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// A room in which every event comes to one who was there from the beginning
// and one who joins with it.
func lobby(t *testing.T, coding codec.Name, o Options) (send func(event []byte) *Chunk) {
	enc, err := NewEncoder(coding, o)
	require.NoError(t, err)
	sub, wire := enc.Join()
	stayed := &subscriber{Subscriber: sub, clients: clients(coding)}
	require.NoError(t, stayed.receive(wire, nil))
	return func(event []byte) *Chunk {
		chunk := enc.Encode(event)
		require.NoError(t, stayed.receive(stayed.Next(chunk), event))
		sub, wire := enc.Join()
		joined := &subscriber{Subscriber: sub, clients: clients(coding)}
		require.NoError(t, joined.receive(wire, event))
		return chunk
	}
}

func TestNothingRefersFurtherBackThanTheWindow(t *testing.T) {
	for coding, window := range windows {
		t.Run("coding="+string(coding), func(t *testing.T) {
			t.Parallel()
			send := lobby(t, coding, Options{Log: slog.New(slog.DiscardHandler)})
			for d := -32; d <= 32; d += 16 {
				event := noise(byte(d), window+d)
				send(event)
				send(event)
			}
			event := noise(1, window-1)
			send(event)
			assert.Less(t, len(send(event).wire), window/2, "it does refer back as far")
			send(append(noise(2, 1000), event...))
			event = noise(3, window+1)
			send(append(event, event...))
		})
	}
}

func TestARoomThatOutgrowsItsWindowSaysSo(t *testing.T) {
	for coding, window := range windows {
		t.Run("coding="+string(coding), func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			send := lobby(t, coding, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			small, large := noise(1, 1000), noise(2, window+1)
			send(small)
			send(large)
			assert.Empty(t, log.String(), "the event before is in the window")
			chunk := send(large)
			assert.Equal(t, chunk.id, chunk.from, "it refers to nothing")
			assert.Contains(t, log.String(), fmt.Sprintf("level=WARN msg=\"the room outgrew the window: events are encoded alone\" coding=%s event-bytes=%d window-bytes=%d\n", coding, window+1, window))
			send(large)
			send(small)
			assert.Equal(t, 1, strings.Count(log.String(), "\n"), "once")
			assert.Less(t, len(send(small).wire), 100, "it is over when events are small again")
			send(large)
			send(large)
			assert.Equal(t, 2, strings.Count(log.String(), "\n"), "and can happen again")
		})
	}
}

func TestAWiderWindowHoldsLargerEvents(t *testing.T) {
	event := noise(1, 300_000)
	for lgwin := minWindow; lgwin <= maxWindow; lgwin++ {
		send := lobby(t, codec.Brotli, Options{Window: lgwin, Log: slog.New(slog.DiscardHandler)})
		send(event)
		again := send(event)
		assert.Equal(t, lgwin > 18, len(again.wire) < 100_000, "window 2^%d: %d bytes for the same again", lgwin, len(again.wire))
	}
}

func TestAnEventLongerThanAMetaBlock(t *testing.T) {
	event := bytes.Repeat(patches(board.Utility, board.Row, 1)[0], maxMetaBlock/500)
	require.Greater(t, len(event), maxMetaBlock)
	lobby(t, codec.Brotli, Options{})(event)
}

func TestWhatAnEncoderCannotBe(t *testing.T) {
	for _, c := range []struct {
		coding codec.Name
		window int
		want   string
	}{
		{codec.Identity, 0, `room: no encoder that a room shares for the coding ""`},
		{"lzma", 0, `room: no encoder that a room shares for the coding "lzma"`},
		{codec.Brotli, 17, "room: br cannot have a window of 2^17 bytes; br can, from 2^18 to 2^24"},
		{codec.Brotli, 25, "room: br cannot have a window of 2^25 bytes; br can, from 2^18 to 2^24"},
		{codec.Gzip, 18, "room: gzip cannot have a window of 2^18 bytes; br can, from 2^18 to 2^24"},
	} {
		_, err := NewEncoder(c.coding, Options{Window: c.window})
		assert.EqualError(t, err, c.want)
	}
}

// The package says what clients see when a stream is closed.
func TestAClosedStream(t *testing.T) {
	for coding, end := range map[codec.Name]error{codec.Brotli: io.ErrUnexpectedEOF, codec.Gzip: io.ErrUnexpectedEOF, codec.Zstd: nil} {
		enc := encoder(t, coding)
		sub, wire := enc.Join()
		for _, event := range trades(3) {
			wire = append(wire, sub.Next(enc.Encode(event))...)
		}
		var r io.Reader
		var err error
		switch coding {
		case codec.Brotli:
			r = brotli.NewReader(bytes.NewReader(wire))
		case codec.Gzip:
			r, err = gzip.NewReader(bytes.NewReader(wire))
		case codec.Zstd:
			r, err = zstd.NewReader(bytes.NewReader(wire))
		}
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		assert.Equal(t, string(bytes.Join(trades(3), nil)), string(got), "%s: all events are there", coding)
		assert.Equal(t, end, err, "%s", coding)
	}
}

func TestAStreamBehindAStreamOfEvents(t *testing.T) {
	events := trades(120)
	for _, coding := range codings {
		t.Run("coding="+string(coding), func(t *testing.T) {
			t.Parallel()
			enc := encoder(t, coding)
			var wg sync.WaitGroup
			var chunks []chan *Chunk
			for n := range 8 {
				ch := make(chan *Chunk, len(events))
				chunks = append(chunks, ch)
				wg.Go(func() { // registered, but joins at any time
					sub, wire := enc.Join()
					s := &subscriber{Subscriber: sub, clients: clients(coding)}
					if sub.id > 0 {
						assert.NoError(t, s.receive(wire, events[sub.id-1]))
					} else {
						assert.NoError(t, s.receive(wire, nil))
					}
					for chunk := range ch {
						if chunk.id%50 == uint64(n) {
							continue
						}
						if wire := s.Next(chunk); wire != nil && !assert.NoError(t, s.receive(wire, chunk.event)) {
							return
						}
					}
				})
			}
			for _, event := range events {
				chunk := enc.Encode(event)
				for _, ch := range chunks {
					ch <- chunk
				}
			}
			for _, ch := range chunks {
				close(ch)
			}
			wg.Wait()
		})
	}
}

func TestAResponseOfServerSentEvents(t *testing.T) {
	events := patches(board.Utility, board.Row, 20)
	for _, coding := range []codec.Name{codec.Brotli, codec.Gzip, codec.Zstd} {
		enc := encoder(t, coding)
		enc.Encode(events[0])
		chunks := make(chan *Chunk)
		defer close(chunks) // or the handler, and with it the server's Close, would outlast a failure
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", string(coding))
			sub, wire := enc.Join()
			for more := true; more; {
				w.Write(wire)
				assert.NoError(t, http.NewResponseController(w).Flush())
				var chunk *Chunk
				if chunk, more = <-chunks; more {
					wire = sub.Next(chunk)
				}
			}
		}))
		t.Cleanup(server.Close)
		resp, err := (&http.Transport{DisableCompression: true}).RoundTrip(httptest.NewRequest("GET", server.URL, nil))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := codec.NewReader(codec.Name(resp.Header.Get("Content-Encoding")), resp.Body)
		require.NoError(t, err)
		stream := eventstream.NewReader(body)
		for i := range events {
			event, err := stream.Next()
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(i+1), event.ID, "%s: an event arrives before the next is published", coding)
			if i+1 < len(events) {
				chunks <- enc.Encode(events[i+1])
			}
		}
	}
}

// The prototype's figure: on the wire at most half as much again as a br
// encoder per connection, which has all earlier boards to refer to.
func TestSharedBrIsAboutAsSmallAsOneEncoderPerConnection(t *testing.T) {
	for _, style := range []board.Style{board.Utility, board.Semantic} {
		events := patches(style, board.Whole, 21)
		enc := encoder(t, codec.Brotli)
		var each bytes.Buffer
		w, err := codec.NewWriter(codec.Brotli, &each)
		require.NoError(t, err)
		shared, first := 0, 0
		for i, event := range events {
			chunk := enc.Encode(event)
			w.Write(event)
			w.Flush()
			if i == 0 {
				first = each.Len()
			} else {
				shared += len(chunk.wire)
			}
		}
		perPatch := func(n int) float64 { return float64(n) / float64(len(events)-1) }
		t.Logf("%s: shared %.1f B per patch, each %.1f", style, perPatch(shared), perPatch(each.Len()-first))
		assert.LessOrEqual(t, float64(shared), 1.5*float64(each.Len()-first), "%s", style)
	}
}
