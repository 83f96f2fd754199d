// Package socketio is Socket.IO as contestant: its server is zishang520's port
// of the reference implementation, its client is our own and speaks Engine.IO 4
// and Socket.IO 5 as far as events need them.
//
// It lives beside the main module since the server brings QUIC and MessagePack
// along, which would add a third to the time until a first test result.
package socketio

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"

	"github.com/zishang520/socket.io/servers/engine/v3/transports"
	"github.com/zishang520/socket.io/servers/socket/v3"
	"github.com/zishang520/socket.io/v3/pkg/types"

	"pushcost/internal/hub"
	"pushcost/internal/transport"
)

// Transports are the rows that a program adds to transport.All: Socket.IO over
// either of the transports it calls so.
//
// Both send heartbeats whether they are asked to or not: without an interval it
// is the library's, 25 seconds.
var Transports = []transport.Transport{
	contestant("websocket", &transports.WebSocketBuilder{}, openWebSocket),
	contestant("polling", &transports.PollingBuilder{}, openPolling),
}

func contestant(lib string, kind transports.TransportCtor, open func(context.Context, *transport.Client) (carrier, error)) transport.Transport {
	return transport.Transport{
		Name: "socketio",
		Lib:  lib,
		Over: []transport.HTTP{transport.HTTP1},
		JSON: true,
		Serve: func(ctx context.Context, ln net.Listener, h *hub.Hub, o transport.Options) error {
			return serve(ctx, ln, h, o, types.NewSet(kind))
		},
		Open: func(ctx context.Context, c *transport.Client, after uint64) (transport.Stream, error) {
			return subscribe(ctx, c, after, open)
		},
	}
}

// An event of the log goes as Socket.IO's "message", the one that send() emits;
// what the server says of a refused command as "refusal".
const (
	message = "message"
	refusal = "refusal"
)

// auth is what a client says of itself when it connects: Socket.IO has no
// Last-Event-ID. Both are absent in an ordinary client's.
type auth struct {
	Cursor string `json:"cursor,omitempty"` // the id of the last event it has
	Room   string `json:"room,omitempty"`
}

func serve(ctx context.Context, ln net.Listener, h *hub.Hub, o transport.Options, kinds *types.Set[transports.TransportCtor]) error {
	options := socket.DefaultServerOptions()
	options.SetTransports(kinds)
	options.SetHttpCompression(nil) // of polls above 1 KiB: a setup says itself what is compressed
	if o.Heartbeat > 0 {
		options.SetPingInterval(o.Heartbeat)
	}
	io := socket.NewServer(nil, options)
	io.Use(func(s *socket.Socket, next func(*socket.ExtendedError)) {
		log, after, refused := subscription(s, h, o)
		if refused != nil {
			next(socket.NewExtendedError(refused.Text, refused))
			return
		}
		s.SetData(func(ctx context.Context) { follow(ctx, log, after, s) })
		next(nil)
	})
	io.On("connection", func(args ...any) {
		s := args[0].(*socket.Socket)
		ctx, cancel := context.WithCancel(ctx)
		s.On("disconnect", func(...any) { cancel() })
		if !s.Connected() { // it left before it could be listened for
			cancel()
		}
		s.On(message, func(args ...any) { heed(s, o, args) })
		go s.Data().(func(context.Context))(ctx)
	})
	defer io.Close(nil) // those on a WebSocket: theirs is no handler any more
	return transport.ServeHTTP(ctx, ln, o, io.ServeHandler(nil).ServeHTTP)
}

// subscription admits a client and finds the log of its room and its cursor.
func subscription(s *socket.Socket, h *hub.Hub, o transport.Options) (log *hub.Log, after uint64, refused *transport.Refusal) {
	if o.Admit != nil {
		if refused := o.Admit(s.Request().Request()); refused != nil {
			return nil, 0, refused
		}
	}
	said := s.Handshake().Auth
	room, _ := said["room"].(string)
	if log = h.Room(room); log == nil {
		return nil, 0, &transport.Refusal{Status: http.StatusNotFound, Text: "there is no room " + strconv.Quote(room)}
	}
	if cursor, ok := said["cursor"].(string); ok {
		var err error
		if after, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return nil, 0, &transport.Refusal{Status: http.StatusBadRequest, Text: "cursor " + strconv.Quote(cursor) + " is not the id of an event"}
		}
	}
	if _, _, err := log.Since(after); err != nil {
		return nil, 0, &transport.Refusal{Status: http.StatusGone, Text: err.Error()}
	}
	return log, after, nil
}

// follow emits what is published after the cursor until ctx ends.
func follow(ctx context.Context, log *hub.Log, after uint64, s *socket.Socket) {
	for {
		events, more, err := log.Since(after)
		if err != nil { // it fell behind: it has to come again, and is told then
			s.Disconnect(true)
			return
		}
		for _, e := range events {
			s.Emit(message, value(e.Data)) // fails for a reserved name only
			after = e.ID
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// value is data as the library takes it: JSON as it is, and what its encoder
// would not leave alone (text, blanks between tokens, a < in a string) as a
// binary attachment.
func value(data []byte) any {
	if same, err := json.Marshal(json.RawMessage(data)); err == nil && bytes.Equal(same, data) {
		return json.RawMessage(data)
	}
	return data
}

// heed gives a client's message to whoever handles them. A refusal goes into
// the acknowledgement, where the client asked for one.
func heed(s *socket.Socket, o transport.Options, args []any) {
	if o.Message == nil || len(args) == 0 {
		return
	}
	text, ok := args[0].(string)
	refused := &transport.Refusal{Status: http.StatusBadRequest, Text: "a message is a string"}
	if ok {
		refused = o.Message(s.Request().Request(), []byte(text))
	}
	if ack, ok := args[len(args)-1].(socket.Ack); ok {
		ack([]any{refused}, nil)
	} else if refused != nil {
		s.Emit(refusal, refused)
	}
}
