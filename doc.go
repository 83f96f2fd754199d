// Package pushcost measures what it costs to push an event to a client over
// WebSocket, Server-Sent Events, long polling or Socket.IO: bytes, latency,
// memory, CPU, compression, ordering and delivery. It has no API. It
// is a test suite that is also a benchmark: every finding of four published
// documents, and many that nobody published, is a Test that asserts it or a
// Benchmark that reports it, from a verified delivery over real protocol
// stacks.
//
//	go test -run Bytes -v                             # check, and print the byte table
//	go test -run '^$' -bench . . | tee new.txt        # measure
//	go tool gate testdata/baseline.txt new.txt        # fail on a regression
//
// # Contents
//
// FINDINGS.md has every finding with its verdict. Here is where they are:
//
//   - bytes_test.go: the table of 1,000 events (E1, E1b), long polling's heads
//     (E2, E2b, E5), framing (E3, E4, S12), HTTP/2 (E6, E7, E9), ids and
//     heartbeats (E17, E18b), compression of small events (E21, E27, B3, C22),
//     what a re-run and the header profile change (E22, E23), binary (E26),
//     what the documents did not count (E29, B1, B2)
//   - bytes_test.go: commands and their patches, small and large (C5, C5b, C6)
//   - latency_test.go: events (E10, E11, E12, E24), connecting (C3), commands
//     and their patches (C1, C2, C4), messages up (C20, E30), an event to all
//     (V3), until a server falls behind (E31)
//   - ordering_test.go: bursts on the wire and applied (C12, C12b), answers and
//     patches (C13, C14), the handler (C15), what the write path gets from HTTP
//     (C16), chat (C19)
//   - delivery_test.go: connections that end (E15), what an EventSource cannot do
//     (E16), clients that stop reading (S8)
//   - delivery_proxies_test.go: what stands between, broken and mended: six
//     connections (E8), idle timeouts (E18), a server's own (E18c), buffering
//     (E19, E19b), no Upgrade (E28, S11), no flush (V5, V5b)
//   - memory_test.go: idle connections (E13, E14, S1, S2, S5, S10, C17), libraries and
//     the floor (B4, V1, V2), TLS (S6), state (S7), the client's library (S4),
//     leaks (V4), as many as there are descriptors (B8), compressed ones (C11,
//     C18, C18b, C18c)
//   - compression_test.go: whole boards and what they cost to encode (C7, C7b,
//     B5), the window (C8), growing logs (C9), row patches (C10), small events
//     (E21b), one encoder for a room (B6), a library's window (B9)
//   - extra/browser_test.go: what only a browser can show (C21, and its half of E8,
//     E9, E15, E16, E21, B6, C22)
//   - extra/instances_test.go: instances joined by a broker (E20)
//   - extra/socketio_test.go, extra/memory_test.go: Socket.IO (B7, S3, S9)
//   - README.md: the documents' advice (E25, S13, C23, V6, X1)
//   - not yet: E32 (loss, HTTP/3); out of scope: E33 (radio)
//
// harness_test.go runs a finding over setups; findings_test.go keeps
// FINDINGS.md and README.md true.
package pushcost
