package command

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"pushcost/internal/transport"
)

// Clients is how many clients a [Rate] and an [Order] remember. To make room
// for another they forget one of whom they know nothing that matters; without
// such a one the newcomer is refused with 503.
const Clients = 10_000

// A table holds something for each of its clients.
type table[T any] struct {
	clients map[string]T
	idle    func(T) bool // may be forgotten
}

func newTable[T any](idle func(T) bool) table[T] { return table[T]{map[string]T{}, idle} }

// of returns what there is of a client, made fresh for a new one.
func (t table[T]) of(client string, fresh func() T) (v T, refusal *transport.Refusal) {
	if v, ok := t.clients[client]; ok {
		return v, nil
	}
	if len(t.clients) == Clients {
		for name, v := range t.clients {
			if t.idle(v) {
				delete(t.clients, name)
				break
			}
		}
	}
	if len(t.clients) == Clients {
		return v, &transport.Refusal{Status: http.StatusServiceUnavailable, Text: "too many clients"}
	}
	v = fresh()
	t.clients[client] = v
	return v, nil
}

// A Rate is how many commands each client may send: a token bucket (package
// rate). A bucket that is full again is forgotten where room is needed.
type Rate struct {
	limit rate.Limit
	burst int

	mu      sync.Mutex
	buckets table[*rate.Limiter]
}

// NewRate allows each client limit commands a second and burst at once.
func NewRate(limit rate.Limit, burst int) *Rate {
	return &Rate{limit: limit, burst: burst, buckets: newTable(func(l *rate.Limiter) bool { return l.Tokens() == float64(burst) })}
}

// take lets a client send a command, or says after how many seconds it may.
func (l *Rate) take(client string) (after int, refusal *transport.Refusal) {
	if l == nil {
		return 0, nil
	}
	l.mu.Lock()
	bucket, refusal := l.buckets.of(client, func() *rate.Limiter { return rate.NewLimiter(l.limit, l.burst) })
	l.mu.Unlock()
	if refusal != nil {
		return 1, refusal
	}
	now := time.Now()
	r := bucket.ReserveN(now, 1)
	delay := r.DelayFrom(now)
	if delay == 0 {
		return 0, nil
	}
	r.CancelAt(now)
	after = int(math.Ceil(delay.Seconds()))
	return after, &transport.Refusal{Status: http.StatusTooManyRequests, Text: fmt.Sprintf("too many commands; the next in %d s", after)}
}
