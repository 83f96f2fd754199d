// Package fleet is many clients in one process: raw sockets in one epoll set,
// without a goroutine per connection, so that ten thousand of them cost the
// machine little beside the server under measurement.
//
// A client speaks its dialect strictly. It is told what the server will push
// (Expect), and whatever else arrives is an error that names the client and
// the bytes. A [Fleet] is a receiver for net/rpc, hence the shape of its methods.
//
// It is Linux's: elsewhere Dial fails.
package fleet

import (
	"time"

	"pushcost/internal/setup"
)

// DialArgs say which clients to open. They dial with the dialect of
// Setup.Transport (ws, sse, poll, socketio, floor), over its HTTP and TLS, with
// the headers of its profile (a browser's if there is none), and insist on its Codec.
type DialArgs struct {
	Setup setup.Setup
	Addr  string // an IPv4 address and a port
	N     int    // clients

	From    string // local address, of 127.0.0.0/8 the first of several; empty: the system's choice
	Streams int    // clients per HTTP/2 connection; 0: one
	Window  int    // SO_RCVBUF in bytes; 0: the system's
	Cursor  uint64 // of the first poll: the number of events published so far

	// Encoded clients of an event stream do not decode it: they compare what
	// comes with an event's Wire, which costs no window.
	Encoded  bool
	Greeting Greeting
}

// A Greeting is what the server sends each client at once, before Dial
// returns: an event, for those that decode; for the others its bytes, and those
// that the stream begins with. Empty: nothing.
type Greeting struct{ Data, Wire []byte }

// Dialed is the outcome of a Dial: all N are open.
type Dialed struct {
	Took time.Duration
	Open int // clients, those of earlier Dials among them
}

// ExpectArgs are what every client gets next, after what was expected before:
// Times events with this Data. A stalled client is not concerned. A poll's
// events are JSON values.
type ExpectArgs struct {
	Data  []byte
	Times int
	Wire  []byte // the event as encoded clients get it
	Later bool   // nobody reads before Await: the server's writes wake no client
}

// AwaitArgs say how long to wait for what is expected.
type AwaitArgs struct{ Timeout time.Duration }

// Awaited tells when the expected events came. With Missing 0 all did, once, in
// order and unchanged.
type Awaited struct {
	First, Last time.Time
	Missing     int // clients that lack events: the server closed them, or time was up
	Each        []Arrival
}

// An Arrival is that of one event: when the first, half, 99 % and the last of
// the clients had it. An instant that did not come is zero.
type Arrival struct{ First, P50, P99, Last time.Time }

// SendArgs are a text message that every WebSocket or Socket.IO client sends.
type SendArgs struct{ Data []byte }

// PingArgs say how long to wait for the answers to a ping.
type PingArgs struct{ Timeout time.Duration }

// CutArgs say how many clients to close, the newest first, and whether with a
// RST instead of a FIN.
type CutArgs struct {
	N     int
	Reset bool
}

// Counts are what the fleet has seen.
type Counts struct {
	Open   int   // clients
	Closed int   // clients that the server closed
	Events int64 // received by clients, all together
	Bytes  int64 // read from sockets, heads of answers and TLS included
	Pings  int64 // signs of life: pings, all answered, and comments
}
