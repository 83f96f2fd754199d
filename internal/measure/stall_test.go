package measure

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/feed"
	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
	"pushcost/internal/virtual"
)

// served is how many connections the servers of this process serve.
func served() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "net/http.(*conn).serve(")
}

// A write's deadline ends the connections of clients that do not read, and no
// others: not one that has nothing to write for an hour either. Some of these
// writes are a handler's and, of polls over HTTP/1.1, some come after it.
func TestAWriteDeadlineEndsThoseWhoDoNotRead(t *testing.T) {
	events := feed.Text(10, 300)
	path := netpath.Path{Up: netpath.Link{Delay: time.Millisecond}, Down: netpath.Link{Delay: time.Millisecond, Window: 256}}
	every(t, func(t *testing.T, s setup.Setup) {
		require.NoError(t, virtual.Run(func(ctx context.Context) (err error) {
			r, err := assemble(ctx, s, site{path: path, hub: hub.NewHub(len(events)+1, ""), options: transport.Options{WriteDeadline: 10 * time.Second}})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, r.stop()) }()
			log := r.hub.Room("")
			log.Publish(events[0])
			reader, err := r.open(r.client(""), 1)
			if err != nil {
				return err
			}
			client, stalled, awake := r.client(""), make(chan struct{}), make(chan struct{})
			dial := client.HTTP.DialContext
			client.HTTP.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				return &stalling{Conn: conn, stalled: stalled, awake: awake}, err
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			stream, err := r.contestant.Open(ctx, client, 0)
			if err != nil {
				return err
			}
			if err := arrives(stream, 1, events[0]); err != nil {
				return err
			}
			close(stalled)
			for _, event := range events[1:] {
				log.Publish(event)
			}
			left := make(chan struct{})
			go func() { // a poll asks for the rest
				defer close(left)
				stream.Next()
			}()
			for i, event := range events[1:] {
				if err := arrives(reader, uint64(i+2), event); err != nil {
					return err
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- arrives(reader, uint64(len(events)+1), []byte(`"end"`)) }()
			time.Sleep(time.Hour)
			assert.Equal(t, 1, served(), "the one who reads, after an hour")
			log.Publish([]byte(`"end"`))
			err = <-ended
			cancel()
			close(awake) // a library's Close waits for its reader
			stream.Close()
			<-left
			return errors.Join(err, reader.Close())
		}))
	})
}

// Over HTTP/2 a client may stop reading one stream of a connection that lives:
// of its streams only that one is reset.
func TestAWriteDeadlineResetsAStreamOfHTTP2(t *testing.T) {
	events := feed.Text(200, 1<<10)
	s := setup.Setup{Transport: "sse", HTTP: transport.HTTP2, Headers: "bare"}
	require.NoError(t, virtual.Run(func(ctx context.Context) (err error) {
		r, err := assemble(ctx, s, site{path: netpath.Symmetric(time.Millisecond), hub: hub.NewHub(len(events)+1, ""), options: transport.Options{WriteDeadline: 10 * time.Second}})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.stop()) }()
		client := r.client("")
		client.HTTP.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10} // what a stream may send that nobody reads
		stalled, err := r.open(client, 0)
		if err != nil {
			return err
		}
		defer stalled.Close()
		reader, err := r.open(client, 0)
		if err != nil {
			return err
		}
		defer reader.Close()
		log := r.hub.Room("")
		for _, event := range events {
			log.Publish(event)
		}
		for i, event := range events {
			if err := arrives(reader, uint64(i+1), event); err != nil {
				return err
			}
		}
		time.Sleep(time.Hour)
		log.Publish([]byte("end"))
		if err := arrives(reader, uint64(len(events)+1), []byte("end")); err != nil {
			return err
		}
		for err == nil {
			_, err = stalled.Next()
		}
		assert.ErrorContains(t, err, "INTERNAL_ERROR", "the stalled stream, once what had come is read")
		assert.Equal(t, 1, r.network.Count().Conns, "both streams had one connection")
		return nil
	}))
}
