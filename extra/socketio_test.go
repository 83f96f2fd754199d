package extra

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/feed"
	"pushcost/internal/measure"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/virtual"
)

// What Socket.IO adds to the WebSocket, or the long poll, that carries it.

// B7: over a WebSocket an event costs 14 B beside its frame: 42["message", and
// a bracket. They lift nearly every trade over the 125 B of a short frame, so
// that 1,000 cost 14 % more than on a bare WebSocket. With Node it was 133,855
// in all, of which a name of five letters would explain the difference. What
// exceeds the server's write buffer of 1 KiB comes in two frames or more.
func TestBytesSocketIO(t *testing.T) {
	s := cell(t, "transport=socketio/lib=websocket/http=1.1/headers=bare")
	for payload, frame := range map[int]int64{16: 2, 111: 2, 112: 4, 1010: 4, 1011: 4 + 2, 65521: 4 + 2, 65522: 10 + 2} {
		d := deliver(t, s, measure.Paced(feed.Text(100, payload)))
		assert.Equal(t, 100*(14+frame), d.Overhead(), "100 events of %d B", payload)
	}
	var want int64
	for _, event := range feed.Trades() {
		want += 14 + 2
		if len(event) > 125-14 {
			want += 2
		}
	}
	s.Headers = "chrome"
	d := deliver(t, s, measure.Paced(feed.Trades()))
	assert.Equal(t, want, d.Overhead())
	assert.InDelta(t, 133_855-2*1000, d.Wire()-4*1000, 200, "of Node's")
	ws := deliver(t, cell(t, "transport=ws/http=1.1/headers=chrome"), measure.Paced(feed.Trades()))
	assert.InDelta(t, 1.134, ratio(d.Wire(), ws.Wire()), 0.001)
}

// B7: its long polling sends a head with every event as any other does, and
// every head has the session's id in it: 8.5 times the payload with a browser's
// headers (some 840,000 B with Node, whose heads differ).
func TestBytesSocketIOPolling(t *testing.T) {
	sio := deliver(t, cell(t, "transport=socketio/lib=polling/http=1.1/headers=chrome"), measure.Paced(feed.Trades()))
	poll := deliver(t, cell(t, "transport=poll/http=1.1/headers=chrome"), measure.Paced(feed.Trades()))
	assert.EqualValues(t, 1000+3, sio.Requests, "one per event; three open: a session, the namespace, its answer")
	assert.InDelta(t, 8.55, ratio(sio.Wire(), sio.Payload), 0.01)
	assert.EqualValues(t, (14+143)*1000, sio.Overhead(), "a head of 143 B comes down with every event")
	assert.InDelta(t, 59, float64(sio.Steady.Up.Bytes-poll.Steady.Up.Bytes)/1000, 0.1, "a request is longer than a plain poll's by its session")
}

// B7: a heartbeat is a byte and its answer another: 3 B down and 7 up on a
// WebSocket, one more than a ping of its own each way. A polling client is
// asked by one answer and answers with a request.
func TestBytesSocketIOHeartbeat(t *testing.T) {
	const beats = 240 // an hour of them
	ws := hourOfHeartbeats(t, cell(t, "transport=socketio/lib=websocket/http=1.1/headers=chrome"))
	assert.EqualValues(t, beats*3, ws.Down.Bytes)
	assert.EqualValues(t, beats*7, ws.Up.Bytes)
	sio := hourOfHeartbeats(t, cell(t, "transport=socketio/lib=polling/http=1.1/headers=chrome"))
	poll := hourOfHeartbeats(t, cell(t, "transport=poll/http=1.1/headers=chrome"))
	assert.EqualValues(t, 2*beats, sio.Up.Writes, "two requests each")
	assert.Greater(t, ratio(sio.Up.Bytes, poll.Up.Bytes), 2.0)
}

// B7: a binary event is an attachment: 45 B announce it in a frame of their own.
// Polled it is base64 besides, and takes two polls, since the server flushes
// between announcement and attachment.
func TestBytesSocketIOBinary(t *testing.T) {
	plan := measure.Paced(feed.Binary(100, 900))
	ws := deliver(t, cell(t, "transport=socketio/lib=websocket/http=1.1/headers=bare"), plan)
	assert.EqualValues(t, 100*(45+2+4), ws.Overhead(), "the announcement, its frame, the attachment's")
	poll := deliver(t, cell(t, "transport=socketio/lib=polling/http=1.1/headers=bare"), plan)
	assert.EqualValues(t, 2*100+3, poll.Requests)
	assert.Greater(t, poll.Overhead(), ws.Overhead()+100*900/3, "a third is added")
}

// BenchmarkBytesSocketIO is its row in the documents' table (B7).
func BenchmarkBytesSocketIO(b *testing.B) {
	report(b, func(b *testing.B, s setup.Setup) []measure.Metric {
		return deliver(b, s, measure.Paced(feed.Trades())).Metrics()
	})
}

// BenchmarkBytesSocketIOHeartbeat keeps a silent subscription alive for an hour
// with a heartbeat every 15 seconds (B7). Its own default is every 25.
func BenchmarkBytesSocketIOHeartbeat(b *testing.B) {
	report(b, func(b *testing.B, s setup.Setup) []measure.Metric {
		return measure.Hour(hourOfHeartbeats(b, s))
	})
}

// report makes a benchmark of both transports under both header profiles.
func report(b *testing.B, f func(*testing.B, setup.Setup) []measure.Metric) {
	cells, err := setup.Cross("transport=socketio/lib=websocket|polling/http=1.1/headers=bare|chrome")
	require.NoError(b, err)
	for _, s := range cells {
		b.Run(s.String(), func(b *testing.B) {
			var metrics []measure.Metric
			for b.Loop() {
				metrics = f(b, s)
			}
			reported(b, metrics)
		})
	}
}

// reported makes metrics figures of a benchmark.
func reported(b *testing.B, metrics []measure.Metric) {
	for _, m := range metrics {
		b.ReportMetric(m.Value, m.Unit)
	}
	b.ReportMetric(0, "ns/op")
}

func hourOfHeartbeats(tb testing.TB, s setup.Setup) (c netpath.Count) {
	tb.Helper()
	require.NoError(tb, virtual.Run(func(ctx context.Context) (err error) {
		c, err = measure.Idle(ctx, s)
		return err
	}))
	return c
}

func ratio(a, b int64) float64 { return float64(a) / float64(b) }
