package extra

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// E20: fan-out across instances is one problem, whatever the transport. Ninety
// clients of three instances see 2,000 events of three publishers, one of whom
// calls, one POSTs and one sends on a WebSocket, through a restart of the
// broker: all of them, once, in order per publisher, and everybody in one order.
func TestInstancesDeliver(t *testing.T) {
	const clients, events = 90, 2000
	begin := time.Now()
	c := newCluster(t, 3, bridged)
	c.serve(t, allWays)
	for _, in := range c.instances {
		in.watch(clients / len(c.instances))
	}
	posts, talks := c.instances[1].open(t, "poll", 0), c.instances[2].open(t, "ws", 0)
	published := map[string]int{"calls": 667, "posts": 667, "talks": 666}
	publishers := []*publisher{
		c.publisher(0, "calls"),
		{name: "posts", try: func(data []byte) error { return post(posts, data) }},
		{name: "talks", try: func(data []byte) error { return talk(talks, data) }},
	}
	var all errgroup.Group
	down := make(chan struct{})
	for _, p := range publishers {
		all.Go(func() error {
			if err := p.publish(c.ctx, 1, published[p.name]-1); err != nil {
				return err
			}
			<-down // so that a fast one has something left
			return p.publish(c.ctx, published[p.name], published[p.name])
		})
	}
	require.NoError(t, reach(c.ctx, c.instances[0].log, events/2))
	c.down()
	close(down)
	var refused int64
	for _, p := range publishers {
		before := p.refused.Load()
		require.Eventually(t, func() bool { return p.refused.Load() > before }, patience, time.Millisecond, "%s is told that there is no broker", p.name)
	}
	c.up()
	require.NoError(t, all.Wait())
	c.end(t)
	for _, p := range publishers {
		refused += p.refused.Load()
	}
	want := c.instances[0].seen(t)[0]
	assert.Len(t, want, events+1, "each event, and the end")
	assert.Zero(t, count(t, want, published), "once, and in order per publisher")
	for _, in := range c.instances {
		for _, got := range in.seen(t) {
			assert.True(t, same(want, got), "in one order")
		}
	}
	t.Logf("%d clients saw %d events, once and in one order, through a restart of the broker, after %d refusals; took %v", clients, events, refused, time.Since(begin).Round(time.Millisecond))
}
