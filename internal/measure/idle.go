package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// Idle holds a subscription for an hour without an event and returns what the
// heartbeats alone moved, of which there is one every 15 seconds.
func Idle(ctx context.Context, s setup.Setup) (c netpath.Count, err error) {
	path, options := netpath.Symmetric(500*time.Microsecond), transport.Options{Heartbeat: 15 * time.Second}
	r, err := assemble(ctx, s, site{path: path, hub: hub.NewHub(1, ""), options: options})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	stream, err := r.open(r.client(""), 0)
	if err != nil {
		return c, err
	}
	defer stream.Close()
	event := make(chan error, 1)
	go func() { event <- arrives(stream, 1, []byte(`"end"`)) }() // reading also answers pings
	if err := r.subscribed(""); err != nil {
		return c, err
	}
	before := r.network.Count()
	if err := netpath.Sleep(ctx, time.Hour); err != nil {
		return c, err
	}
	c = r.network.Count().Sub(before)
	r.hub.Room("").Publish([]byte(`"end"`))
	if err := <-event; err != nil {
		return c, fmt.Errorf("%s: not alive after an hour: %w", s, err)
	}
	return c, nil
}
