package measure

import (
	"slices"
	"strings"

	"pushcost/internal/netpath"
	"pushcost/internal/transport"
)

// A Metric is a figure and its unit.
type Metric struct {
	Unit  string
	Value float64
}

// Units are the units of all experiments, with the policy the gate applies.
// Figures are over a whole run, in integers: testing prints four significant
// digits of anything else.
var Units = []struct{ Name, Policy string }{
	{"steady-up-B", "assume=exact better=lower"},   // client to server, from the first event on
	{"steady-down-B", "assume=exact better=lower"}, // server to client
	{"overhead-B", "assume=exact better=lower"},    // steady-down-B minus the payload
	{"behind-up-B", "assume=exact better=lower"},   // proxy to server, where there is a proxy
	{"behind-down-B", "assume=exact better=lower"}, // server to proxy
	{"writes", "assume=exact better=lower"},        // calls of Write on either socket, from the first event on
	{"wire-up-B", "assume=exact better=lower"},     // the opening and all the rest
	{"wire-down-B", "assume=exact better=lower"},
	{"conns", "assume=exact better=lower"},     // connections dialed
	{"requests", "assume=exact better=lower"},  // HTTP requests, an upgrade being one
	{"hour-up-B", "assume=exact better=lower"}, // what an hour of heartbeats moves
	{"hour-down-B", "assume=exact better=lower"},
	{"cmd-up-B", "assume=exact better=lower"},      // what commands moved, client to server
	{"cmd-down-B", "assume=exact better=lower"},    // server to client, their patches included
	{"command-conns", "assume=exact better=lower"}, // connections dialed for commands
	{"mean-ns", "assume=exact better=lower"},       // latency, in virtual time: the network's share
	{"p50-ns", "assume=exact better=lower"},
	{"p95-ns", "assume=exact better=lower"},
	{"p99-ns", "assume=exact better=lower"},
	{"first-p50-ns", "assume=exact better=lower"}, // of a client's first command
	{"connect-rtts", "assume=exact better=lower"}, // round trips from dialing to an event that waits
	{"wall-p50-ns", "better=lower gate=3x"},       // latency on real sockets: the software's share
	{"crowd-p50-ns", "better=lower"},              // the same of a hundred clients at once: their queue, reported
	{"crowd-p99-ns", "better=lower"},
	{"wall-p99-ns", "better=lower"},          // which depends on the machine's other work
	{"cpu-ns/event", "better=lower gate=3x"}, // CPU time of server and client together
	{"cpu-ns/command", "better=lower gate=3x"},
	{"wire-inversions", "assume=exact better=lower"},    // pairs of a burst, of 1,800, that the server read in another order
	{"applied-inversions", "assume=exact better=lower"}, // pairs applied so
	{"sent", "assume=exact better=higher"},              // commands in bursts
	{"delivered", "assume=exact better=higher"},         // their patches
	{"ack-patch-p50-ns", "assume=exact better=lower"},   // from a POST's answer to its patch, signed
	{"wall-wire-inversions", "better=lower"},            // on real sockets, where they are the scheduler's
	{"wall-applied-inversions", "better=lower"},
	{"wall-ack-patch-p50-ns", "better=lower"},
	{"lost", "assume=exact better=lower"},      // events that a client never applied
	{"dup", "assume=exact better=lower"},       // events that it applied more than once
	{"resume-ns", "assume=exact better=lower"}, // from a connection's reset to the next event, in virtual time
	{"resume-up-B", "assume=exact better=lower"},
	{"resume-down-B", "assume=exact better=lower"},
	{"patches-B", "assume=exact better=lower"}, // a run's patches, compressed
	{"patch-B", "assume=exact better=lower"},   // their mean, rounded
	{"median-B", "assume=exact better=lower"},
	{"warm-B", "assume=exact better=lower"},        // the last of them
	{"max-B", "assume=exact better=lower"},         // as a rule the first, cold
	{"writes/event", "assume=exact better=lower"},  // to a client's socket, of a broadcast
	{"allocs/event", "better=lower"},               // objects, for a client
	{"cpu-ns/write", "better=lower gate=3x"},       // the server's CPU time for a client
	{"all-ns", "better=lower gate=3x"},             // until the last client has it
	{"x-floor", "better=lower gate=2x"},            // the server's CPU time, of that of bare writes beside them: median of ratios
	{"floor-x-floor", "better=lower"},              // the same of bare writes: how far to trust the other
	{"deliveries/s", "better=higher gate=3x"},      // events times clients, 99 % of each within 100 ms
	{"x-flate6", "better=lower"},                   // time to encode, of compress/flate's at level 6: ratio of minima
	{"h2-cmd-up-B", "better=lower gate=1%"},        // commands over HTTP/2, where frames may share a TLS record
	{"join-B", "assume=exact better=lower"},        // what comes first to who joins a room: a header, and the last event
	{"encodes/event", "assume=exact better=lower"}, // calls of a coding's encoder, for all subscribers
	{"cpu-ns/patch", "better=lower gate=3x"},       // the server's, of a patch to one subscriber
	{"x-identity", "better=lower gate=2x"},         // of bytes encoded before, without a coding, as many
	{"identity-x-identity", "better=lower"},        // of themselves: how far to trust the other
	{"RSS-x-identity", "better=lower"},             // memory of a subscriber, of one of theirs
	{"h2-cmd-down-B", "better=lower gate=1%"},
	{"hpack-up-B", "better=lower gate=1%"},               // steady-up-B where net/http's map order moves HPACK's table
	{"open-B", "assume=exact better=lower"},              // both ways, up to a subscribed, quiet path
	{"h2-open-B", "better=lower gate=2%"},                // the same over HTTP/2 and TLS, where frames that meet share a record
	{"wire-B", "better=lower gate=0.5%"},                 // all of it, both ways: the documents' figure
	{"heap-B/stream", "better=lower gate=5% slack=1024"}, // of a few compressed connections
	{"RSS-B/stream", "better=lower"},                     // the same of so few that the process itself shows: reported
	// The slack is what a process itself varies by, of 500 connections.
	{"RSS-B/conn", "better=lower gate=5% slack=1024"}, // resident pages, a connection
	{"heap-B/conn", "better=lower gate=2% slack=128"}, // live objects
	{"stack-B/conn", "better=lower"},                  // stacks of goroutines, less the threads' for signals: asserted, since of some there are none
	{"kernel-B/conn", "better=lower"},                 // socket slabs of both ends: the machine's, reported
	{"RSS-range-B", "better=lower"},                   // between repeats
	{"goroutines/conn", "assume=exact better=lower"},
	{"fds/conn", "assume=exact better=lower"},
	{"conns/s", "better=higher gate=3x"},    // opened, wall-clock
	{"cpu-ns/conn", "better=lower gate=3x"}, // the server's, to open one
	{"cpu-ns/beat", "better=lower"},         // the server's, for a heartbeat and its answer
}

// Exact says whether a unit's figures are the same in every run.
func Exact(unit string) bool {
	return slices.ContainsFunc(Units, func(u struct{ Name, Policy string }) bool {
		return u.Name == unit && strings.Contains(u.Policy, "assume=exact")
	})
}

// Metrics are a delivery's figures.
func (d Delivery) Metrics() []Metric {
	up, open := "steady-up-B", "open-B"
	if d.mapOrder() {
		up = "hpack-up-B"
	}
	if d.Setup.HTTP == transport.HTTP2 && d.Setup.TLS != "" {
		open = "h2-open-B"
	}
	metrics := []Metric{
		{up, float64(d.Steady.Up.Bytes)},
		{"steady-down-B", float64(d.Steady.Down.Bytes)},
		{"overhead-B", float64(d.Overhead())},
		{"writes", float64(d.Steady.Up.Writes + d.Steady.Down.Writes)},
		{"conns", float64(d.Open.Conns + d.Steady.Conns)},
		{"requests", float64(d.Requests)},
		{open, float64(d.Open.Up.Bytes + d.Open.Down.Bytes)},
		{"wire-B", float64(d.Wire())},
	}
	if d.Setup.Proxy != "" {
		metrics = append(metrics, Metric{"behind-up-B", float64(d.Behind.Up.Bytes)}, Metric{"behind-down-B", float64(d.Behind.Down.Bytes)})
	}
	return metrics
}

// mapOrder says whether the bytes up depend on the order of a Go map. Every
// poll's cursor is new to HPACK's table (RFC 7541) and evicts an older field;
// which one, and so what must be sent again, follows from the order in which
// net/http ranges over a request's headers.
func (d Delivery) mapOrder() bool {
	return d.Setup.HTTP == transport.HTTP2 && d.Requests > 1 && d.Setup.Headers != "bare"
}

// Overhead is what came down beside the payload, in bytes.
func (d Delivery) Overhead() int64 { return d.Steady.Down.Bytes - d.Payload }

// Wire is everything that crossed the network, in bytes.
func (d Delivery) Wire() int64 { return d.Up() + d.Down() }

// Up is what the client sent, in bytes, the opening included.
func (d Delivery) Up() int64 { return d.Open.Up.Bytes + d.Steady.Up.Bytes }

// Down is what the server sent, in bytes, the opening included.
func (d Delivery) Down() int64 { return d.Open.Down.Bytes + d.Steady.Down.Bytes }

// Hour are the figures of an hour's heartbeats.
func Hour(c netpath.Count) []Metric {
	return []Metric{{"hour-up-B", float64(c.Up.Bytes)}, {"hour-down-B", float64(c.Down.Bytes)}}
}

// Totals are the figures of a delivery that do not depend on when an opening
// was over and how writes were cut: those to compare across networks.
func (d Delivery) Totals() []Metric {
	return []Metric{
		{"wire-up-B", float64(d.Up())},
		{"wire-down-B", float64(d.Down())},
		{"conns", float64(d.Open.Conns + d.Steady.Conns)},
		{"requests", float64(d.Requests)},
	}
}
