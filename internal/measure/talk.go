package measure

import (
	"context"
	"errors"

	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A Server is a setup being served, for findings that are a conversation.
type Server struct{ rig *rig }

// Serve serves a setup while f runs.
func Serve(ctx context.Context, s setup.Setup, path netpath.Path, h *hub.Hub, o transport.Options, f func(Server) error) (err error) {
	r, err := assemble(ctx, s, site{path: path, hub: h, options: o})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return f(Server{r})
}

// Client returns a new client of a room, with connections of its own. Its
// Header may be replaced before it sends anything, not changed.
func (s Server) Client(room string) *transport.Client { return s.rig.client(room) }

// Open subscribes a client to the events of its room after the one with the id
// after (0: from the beginning). The stream ends with the server.
func (s Server) Open(c *transport.Client, after uint64) (transport.Stream, error) {
	return s.rig.open(c, after)
}

// Count is what has crossed the network.
func (s Server) Count() netpath.Count { return s.rig.network.Count() }
