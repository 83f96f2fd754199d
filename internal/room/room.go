// Package room encodes an event once for all subscribers of a room.
//
// Who compresses a stream of events per connection has each event compressed
// once per subscriber, though the room's subscribers are all sent the same,
// and keeps each connection's window. An [Encoder] compresses it once. What it
// returns can be spliced into the stream of every [Subscriber] that was sent
// the events before, and stock decoders read it: those of browsers, curl, Go.
//
//	enc, err := room.NewEncoder(codec.Brotli, room.Options{})
//	sub, wire := enc.Join() // the header and the last event: send them first
//	chunk := enc.Encode(event) // once, by whoever publishes
//	wire = sub.Next(chunk)     // by each subscriber: the same bytes, not a copy
//
// The bytes are the body of one HTTP response whose Content-Encoding is the
// coding's name, flushed after each event, or, for the codings of a WebSocket,
// whole frames to write to the connection.
//
// # Only what everybody in the room may read
//
// Compression in a shared context tells by its length whether two texts have
// something in common (CRIME and BREACH; RFC 7457, 2.6).
// Encode is for events that every subscriber may read in full. What is for one
// of them, a token above all, goes through [Subscriber.Private], which
// compresses each event in a context of its own; a WebSocket gets it not
// compressed at all. The other half stays with the caller: an event, shared or
// private, should not have a secret and somebody else's choice of text in it.
//
// # Why it is correct
//
// A decoder's output depends on the bits it reads and on the state it has. The
// encoder uses no state but the output before an event, of that only the
// events in a reference, and it tells which ones: the event before, and earlier
// ones while they are no more than 8 KB together. A subscriber is given the
// shared bytes only if these very events are the last bytes that it decoded.
// Otherwise (it has just joined, events were skipped, a private one came in
// between) it is given the event encoded alone, which is done at most once per
// event, for all who need it, until it has decoded a reference again. With
// whole pages that is one event. The other state of each format:
//
//   - br (RFC 7932): an event is one or more compressed meta-blocks, each with
//     its own prefix codes, one block type, no context maps (section 9.2), so
//     that neither earlier codes nor the last two bytes (7.1) matter. It never
//     uses a distance of an earlier meta-block from the ring of the last four
//     (section 4), nor the static dictionary, for which a distance would have
//     to be greater than what was decoded or than the window (section 8):
//     distances are limited to the event and its reference, and to the window
//     less 16. It ends with an empty metadata block, which fills the last byte
//     with zeros (9.2: MNIBBLES 0, MSKIPBYTES 0), so that everything begins at
//     a byte. It has no checksum; the tests decode everything. A closed
//     stream has no last meta-block: decoders report an unexpected end, after
//     all events.
//   - gzip (RFC 1952) and deflate (RFC 1951): an event is deflate blocks, each
//     with its own codes or the fixed ones, none of them the last; distances
//     are at most 32768 and limited to the event and its reference, which is
//     the encoder's preset dictionary. It ends with an empty stored block,
//     whose header fills a byte (3.2.4), a "sync flush". The trailer of gzip, a
//     CRC-32 and a length over what one subscriber was sent, would only come
//     after the last block, which is never sent. When the stream is closed
//     clients report an unexpected end, after all events.
//   - zstd (RFC 8878): each event is a frame, with a checksum. Frames follow
//     each other (section 3.1) and share nothing: nothing to get wrong, but no
//     event is compressed by its likeness to another. A closed stream is
//     complete.
//   - permessage-deflate (RFC 7692): an event is one frame, whose payload is
//     the deflate blocks without the last four bytes (7.2.1). "deflate" refers
//     to earlier messages: for clients that agreed to no server_max_window_bits
//     below 15 and not to server_no_context_takeover (7.1), such as browsers,
//     coder/websocket, and lxzan/gws if it is told to use 15 (its default is
//     12). gorilla/websocket insists on no takeover, for which
//     "deflate-no-takeover" is. A private event is a message that is not
//     compressed (section 6), which leaves the window alone.
//
// The HTTP coding "deflate" is left out: some take it to be zlib, others not
// (RFC 9110, 8.4.1.2), and it is gzip without a checksum that counts.
package room

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"pushcost/internal/codec"
)

// reach is how many bytes of events before the last one are worth referring
// to. A trade is then as small as with the whole 32 KB; a row is a tenth to a
// third larger, and whoever joins is in step after 16 rows instead of 64.
const reach = 8 << 10

// Options for [NewEncoder]. The zero value is good for events up to 256 KB.
type Options struct {
	// Window is the base-2 logarithm of br's window, from 18 (the default) to
	// 24. A decoder may allocate as much; the encoder only keeps what it
	// refers to. Other codings have the window that their format has.
	Window int
	// Log is told when a room outgrows its window. The default is
	// slog.Default().
	Log *slog.Logger
}

// An Encoder encodes the events of one room. Its methods may be called
// concurrently. It holds tables of one to two megabytes, the last event, and
// its reference, whatever the subscribers.
type Encoder struct {
	format format
	log    *slog.Logger
	calls  atomic.Uint64
	coders sync.Pool // of coder, for events encoded alone

	mu       sync.Mutex // and the order of events
	coder    coder
	ref      []byte   // the events of recent, one after the other
	recent   []*Chunk // what the next event may refer to, the last event at least
	outgrown bool
}

// NewEncoder returns an encoder for a coding: [codec.Brotli], [codec.Gzip] and
// [codec.Zstd] for HTTP, [codec.Deflate] and [codec.DeflateNoTakeover] for
// WebSockets. It fails for other codings and for windows that they cannot have.
func NewEncoder(coding codec.Name, o Options) (*Encoder, error) {
	f, err := formatOf(coding, o.Window)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Encoder{
		format: f,
		log:    o.Log.With("coding", string(coding)),
		coders: sync.Pool{New: func() any { return f.coder() }},
		coder:  f.coder(),
	}, nil
}

// A Chunk is an event as it is sent. It is immutable and serves all
// subscribers of the room.
type Chunk struct {
	id, from uint64 // it refers to the events from..id-1
	enc      *Encoder
	event    []byte
	wire     []byte

	once sync.Once
	solo []byte // the event encoded alone, for those who cannot use wire
}

// Encode encodes an event that everybody in the room may read (see the
// package's security limit). The event, which is all that goes over the wire,
// such as the lines of a text/event-stream, must not change afterwards. It is
// the one call to a compressor per event as long as all subscribers are in
// step.
//
// In a room whose last event is larger than the window no event finds its
// like in it. Encode then has each event refer to itself only, and logs the
// first one.
func (e *Encoder) Encode(event []byte) *Chunk {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &Chunk{id: 1, from: 1, enc: e, event: event}
	var ref []byte
	if last := e.last(); last != nil {
		c.id = last.id + 1
		c.from = c.id
		if e.refers(len(last.event)) {
			c.from, ref = e.recent[0].id, e.ref
		}
	}
	e.calls.Add(1)
	c.wire = e.coder.encode(ref, event)

	e.ref, e.recent = append(e.ref, event...), append(e.recent, c)
	for len(e.recent) > 1 && len(e.ref) > reach {
		e.ref = slices.Delete(e.ref, 0, len(e.recent[0].event))
		e.recent = slices.Delete(e.recent, 0, 1)
	}
	return c
}

// last returns the chunk of the last event, or nil before the first.
func (e *Encoder) last() *Chunk {
	if len(e.recent) == 0 {
		return nil
	}
	return e.recent[len(e.recent)-1]
}

// refers reports whether an event may refer to a last one of n bytes, and logs
// when the window becomes too small for it.
func (e *Encoder) refers(n int) bool {
	window := e.format.window
	if n > window && window > 0 && !e.outgrown {
		e.log.Warn("the room outgrew the window: events are encoded alone", "event-bytes", n, "window-bytes", window)
	}
	e.outgrown = n > window
	return n <= window && window > 0
}

// Calls returns how often a compressor was called: once per event, once more
// for an event that somebody needed alone, and once per private event.
func (e *Encoder) Calls() uint64 { return e.calls.Load() }

func (e *Encoder) alone(event []byte) []byte {
	e.calls.Add(1)
	c := e.coders.Get().(coder)
	defer e.coders.Put(c)
	return c.encode(nil, event)
}

// Event returns the event, which must not be changed.
func (c *Chunk) Event() []byte { return c.event }

func (c *Chunk) alone() []byte {
	c.once.Do(func() { c.solo = c.enc.alone(c.event) })
	return c.solo
}

// A Subscriber is one stream of a room's events, for one goroutine. It is 24
// bytes; the encoder does not know it.
type Subscriber struct {
	enc   *Encoder
	id    uint64 // of the last event sent
	since uint64 // what was sent ends with the events since..id
}

// Open returns a subscriber that was sent nothing and the bytes that its
// stream begins with. Next then takes chunks from any on: those after a
// Last-Event-ID, if the caller keeps them.
func (e *Encoder) Open() (*Subscriber, []byte) {
	return &Subscriber{enc: e}, e.format.header
}

// Join is [Encoder.Open] and the room's last event, if there is one. To miss
// none, register for chunks before: those that come twice are dropped.
func (e *Encoder) Join() (*Subscriber, []byte) {
	s, wire := e.Open()
	e.mu.Lock()
	last := e.last()
	e.mu.Unlock()
	if last != nil {
		wire = slices.Concat(wire, s.Next(last))
	}
	return s, wire
}

// Next returns what to send for a chunk of the subscriber's room: the bytes
// that all subscribers share, which must not be changed, or, if it was not
// sent the events that they refer to, those of the event encoded alone.
// Chunks come in the order of Encode. Some may be left out, as for a slow
// client for whom only the latest matters; for one that is not after the
// last, Next returns nil.
func (s *Subscriber) Next(c *Chunk) []byte {
	if c.id <= s.id {
		return nil
	}
	if c.id != s.id+1 {
		s.since = c.id
	}
	s.id = c.id
	if c.from < s.since {
		return c.alone()
	}
	return c.wire
}

// Private returns what to send for an event that is for this subscriber only.
// It is encoded by itself. Where it gets into the decoder's window, as with
// all codings but those of WebSockets, the events after it come alone
// until the subscriber is in step again: after whole pages, one.
func (s *Subscriber) Private(event []byte) []byte {
	if s.enc.format.private != nil {
		return s.enc.format.private(event)
	}
	s.since = s.id + 1
	return s.enc.alone(event)
}

// Beat returns a heartbeat: bytes between events that decode to nothing, the
// same for all subscribers, who stay in step. A proxy sees them, a client's
// program does not.
func (e *Encoder) Beat() []byte { return e.format.beat }

// A format is what codings differ in.
type format struct {
	header  []byte                    // of a stream
	beat    []byte                    // an empty block, an empty frame, a ping
	window  int                       // how large a last event can be referred to; 0 if none
	private func(event []byte) []byte // nil where all of a stream is compressed
	coder   func() coder
}

// A coder encodes an event for a decoder whose output ends with ref, using
// nothing else of what it encoded before.
type coder interface {
	encode(ref, event []byte) []byte
}

func formatOf(coding codec.Name, window int) (format, error) {
	if window != 0 && (coding != codec.Brotli || window < minWindow || window > maxWindow) {
		return format{}, fmt.Errorf("room: %s cannot have a window of 2^%d bytes; br can, from 2^%d to 2^%d", coding, window, minWindow, maxWindow)
	}
	switch coding {
	case codec.Brotli:
		return brotliFormat(max(window, minWindow)), nil
	case codec.Gzip:
		return gzipFormat, nil
	case codec.Zstd:
		return zstdFormat, nil
	case codec.Deflate:
		return webSocketFormat(deflateWindow), nil
	case codec.DeflateNoTakeover:
		return webSocketFormat(0), nil
	}
	return format{}, fmt.Errorf("room: no encoder that a room shares for the coding %q", coding)
}
