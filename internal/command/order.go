package command

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"pushcost/internal/transport"
)

// An Order applies the commands of each client in the order of their numbers,
// from 1, whatever the order in which they come: a small reorder buffer. A
// client is who counts: two tabs of one user need names of their own.
//
// A command that comes early waits for those before it. A number that does
// not come is a gap, and given up after the patience, or at once when the
// window is full: those who wait are applied. A command whose number has had
// its turn, given up or taken, is refused with 409 and counted. A client
// whose commands wait for a slow handler, and fill the window, is refused
// with 429.
//
// A forgotten client begins again at 1, so that its next command waits as at
// a gap.
type Order struct {
	window   int
	patience time.Duration

	mu     sync.Mutex // never held while waiting
	queues table[*queue]
	late   int
}

// A queue is one client's.
type queue struct {
	next    uint64                   // the number whose turn it is
	busy    bool                     // it is being applied
	waiting map[uint64]chan struct{} // closed when the turn comes
	gap     *time.Timer              // runs while next is missed; else nil
}

// NewOrder lets at most window commands of a client wait, and those behind a
// gap for at most the patience.
func NewOrder(window int, patience time.Duration) *Order {
	return &Order{window: window, patience: patience, queues: newTable(func(q *queue) bool { return !q.busy && len(q.waiting) == 0 })}
}

// Late is how many commands were refused because their turn was over.
func (o *Order) Late() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.late
}

// Do applies a client's command when it is its turn, and returns the error of
// apply, or a [*transport.Refusal]: with 503 where ctx ends first, for the
// client has left or the server stops. A command without a number, and each
// one where o is nil, is applied at once.
func (o *Order) Do(ctx context.Context, client string, seq uint64, apply func() error) error {
	if o == nil || seq == 0 {
		return apply()
	}
	q, turn, refusal := o.enter(client, seq)
	if refusal != nil {
		return refusal
	}
	select { // for at most a patience at each gap before it
	case <-turn:
	case <-ctx.Done():
		if o.withdraw(q, seq) {
			return &transport.Refusal{Status: http.StatusServiceUnavailable, Text: fmt.Sprintf("command %d was not applied: %v", seq, ctx.Err())}
		}
		<-turn // it came just now
	}
	defer o.leave(q)
	return apply()
}

func (o *Order) enter(client string, seq uint64) (q *queue, turn chan struct{}, refusal *transport.Refusal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q, refusal = o.queues.of(client, func() *queue { return &queue{next: 1, waiting: map[uint64]chan struct{}{}} })
	switch {
	case refusal != nil:
		return nil, nil, refusal
	case seq < q.next, q.busy && seq == q.next, q.waiting[seq] != nil:
		o.late++
		return nil, nil, &transport.Refusal{Status: http.StatusConflict, Text: fmt.Sprintf("the turn of command %d is over or taken", seq)}
	case len(q.waiting) == o.window:
		return nil, nil, &transport.Refusal{Status: http.StatusTooManyRequests, Text: fmt.Sprintf("%d commands wait already", o.window)}
	}
	turn = make(chan struct{})
	q.waiting[seq] = turn
	o.advance(q)
	return q, turn, nil
}

// withdraw takes a command back, unless its turn has come.
func (o *Order) withdraw(q *queue, seq uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, waits := q.waiting[seq]
	delete(q.waiting, seq)
	if len(q.waiting) == 0 && q.gap != nil {
		q.gap.Stop()
		q.gap = nil
	}
	return waits
}

func (o *Order) leave(q *queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q.busy = false
	q.next++
	o.advance(q)
}

// advance gives the next command its turn, or notices that it is missing.
func (o *Order) advance(q *queue) {
	if q.busy || len(q.waiting) == 0 {
		return
	}
	if len(q.waiting) == o.window {
		q.next = slices.Min(slices.Collect(maps.Keys(q.waiting))) // or is it already
	}
	turn, here := q.waiting[q.next]
	switch {
	case here:
		if q.gap != nil {
			q.gap.Stop()
			q.gap = nil
		}
		delete(q.waiting, q.next)
		q.busy = true
		close(turn)
	case q.gap == nil:
		missing := q.next
		q.gap = time.AfterFunc(o.patience, func() { o.giveUp(q, missing) })
	}
}

// giveUp ends the wait for a number, unless it came just now.
func (o *Order) giveUp(q *queue, missing uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q.gap != nil && q.next == missing {
		q.next = slices.Min(slices.Collect(maps.Keys(q.waiting)))
		o.advance(q)
	}
}
