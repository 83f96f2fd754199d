// Package bridge joins the logs of several server instances through a stream
// of a NATS broker with JetStream.
//
// An instance publishes into the stream, never into its own log. What comes
// out of the stream, its own events among the others', it appends to its log.
// So all logs are copies of one stream, an event's id is its sequence in the
// stream, and a cursor from one instance is good at any other.
package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/transport"
)

// ErrOffline says that an event was not published, and will not be: there is
// no connection to the broker.
var ErrOffline = errors.New("no connection to the broker")

// retry is the mean time between two attempts to connect. They are jittered:
// what cut one instance off cut others off as well.
const retry = 20 * time.Millisecond

// A Bridge is one instance's end of the stream.
type Bridge struct {
	// Connect connects to the broker. It is called again whenever a connection
	// has ended.
	Connect func(...nats.Option) (*nats.Conn, error)

	// Stream is its name, and the subject of its messages.
	Stream string

	// Log is what the stream is copied to. Nobody else may publish to it.
	Log *hub.Log

	// Lag is how long a client waits here for an event that it has seen
	// elsewhere.
	Lag time.Duration

	session atomic.Pointer[session] // nil without a connection
	created time.Time               // when the stream was made
}

// A session is a connection to the broker. It ends with the first error:
// what was under way then is asked for again in the next one, from the log's
// end.
type session struct {
	jetstream.JetStream
	ctx context.Context // ends with the connection
}

// Run copies the stream to the log until ctx ends. It survives the loss of the
// broker, and fails with [hub.ErrGone] where the stream is not, or no longer,
// the one that the log is a copy of.
func (b *Bridge) Run(ctx context.Context) error {
	for {
		err := b.connection(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, hub.ErrGone) {
			return fmt.Errorf("bridge: %w", err)
		}
		netpath.Sleep(ctx, retry/2+rand.N(retry))
	}
}

// connection copies the stream as long as one connection lasts.
func (b *Bridge) connection(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := b.Connect(nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { cancel() }))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: b.Stream, Subjects: []string{b.Stream}})
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	if b.created.IsZero() {
		b.created = info.Created
	}
	last, _ := b.Log.Last()
	if !b.created.Equal(info.Created) || info.State.LastSeq < last {
		return fmt.Errorf("event %d: %w, nor in the stream, made at %v, which ends at %d", last, hub.ErrGone, info.Created, info.State.LastSeq)
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:   last + 1,
		AckPolicy:     jetstream.AckNonePolicy, // the log's end is the acknowledgement
		MemoryStorage: true,                    // another session has another
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	b.session.Store(&session{js, ctx})
	defer b.session.Store(nil)
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		at, err := m.Metadata()
		if err != nil {
			return err
		}
		if at.Sequence.Stream != last+1 {
			return fmt.Errorf("event %d: %w: the next in the stream is %d", last, hub.ErrGone, at.Sequence.Stream)
		}
		last = b.Log.Publish(m.Data()).ID
	}
}

// Publish adds an event to the stream and returns once it is stored. Any error
// but [ErrOffline] leaves open whether it is; to publish it again with the same
// id is then safe, for as long as the broker remembers ids: two minutes. With
// an empty id it may double the event.
func (b *Bridge) Publish(ctx context.Context, id string, data []byte) error {
	s := b.session.Load()
	if s == nil {
		return ErrOffline
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() // no answer comes any more
	m := nats.NewMsg(b.Stream)
	m.Data = data
	if id != "" {
		m.Header.Set(jetstream.MsgIDHeader, id)
	}
	_, err := s.PublishMsg(ctx, m)
	return err
}

// Admit is for transport.Options. A client that comes from another instance
// may have seen events that are still under way to this one: it waits for
// them. To ask the log at once would tell it that its cursor is gone.
func (b *Bridge) Admit(r *http.Request) *transport.Refusal {
	cursor, _ := strconv.ParseUint(cmp.Or(r.Header.Get("Last-Event-ID"), r.FormValue("cursor")), 10, 64) // the transport tells what is wrong with it
	ctx, cancel := context.WithTimeout(r.Context(), b.Lag)
	defer cancel()
	for {
		last, more := b.Log.Last()
		if cursor <= last {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return &transport.Refusal{Status: http.StatusServiceUnavailable, Text: fmt.Sprintf("event %d has not come here yet, only %d; ask again", cursor, last)}
		}
	}
}
