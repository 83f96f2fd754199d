package hub

import (
	"context"
	"fmt"
	"sync"
)

// A Count is a number that can be waited for: of subscribers, say.
type Count struct {
	mu      sync.Mutex
	n       int
	changed chan struct{} // nil: nobody waits
}

// Add changes the number.
func (c *Count) Add(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += by
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Len is the number now.
func (c *Count) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// Await returns once the number is n. If it does not become that before ctx
// ends, the error says what it is.
func (c *Count) Await(ctx context.Context, n int) error {
	for {
		c.mu.Lock()
		now := c.n
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		if now == n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited for %d, there are %d: %w", n, now, ctx.Err())
		}
	}
}
