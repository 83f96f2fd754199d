// Package hub is where events are published and where transports find them.
package hub

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// An Event is one thing to push. It is immutable: transports share its Data.
type Event struct {
	ID   uint64    // its place in the log, from 1, without gaps
	Data []byte    // the payload, as published
	At   time.Time // when it was published
}

// ErrGone says that a cursor is not in the log: older than what the log
// keeps, or from another log. The subscriber has missed events, or would.
var ErrGone = errors.New("cursor is not in the log")

// A Log keeps the last events in a ring. Subscribers read it with cursors,
// so that a slow one costs no memory of its own.
type Log struct {
	mu      sync.Mutex
	ring    []Event // event id lives at (id-1) % len
	last    uint64  // id of the newest event; 0 before the first
	more    chan struct{}
	parked  chan struct{}
	waiting bool // parked is closed
}

// NewLog returns a log that keeps the last n events.
func NewLog(n int) *Log {
	return &Log{ring: make([]Event, n), more: make(chan struct{}), parked: make(chan struct{})}
}

// Publish appends an event with this payload, which must not change
// afterwards, and wakes those who wait for more.
func (l *Log) Publish(data []byte) Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e := Event{ID: l.last, Data: data, At: time.Now()}
	l.ring[(e.ID-1)%uint64(len(l.ring))] = e
	close(l.more)
	l.more = make(chan struct{})
	return e
}

// Since returns the events that follow the one with the id after (0: from
// the beginning), oldest first, and a channel that is closed at the next
// Publish. It fails with [ErrGone] where events would be missing.
func (l *Log) Since(after uint64) (events []Event, more <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := uint64(len(l.ring))
	if after > l.last || l.last-after > kept {
		return nil, nil, fmt.Errorf("event %d: %w, which ends at %d and keeps %d", after, ErrGone, l.last, kept)
	}
	for id := after; id < l.last; id++ {
		events = append(events, l.ring[id%kept])
	}
	if len(events) == 0 && !l.waiting {
		l.waiting = true
		close(l.parked)
	}
	return events, l.more, nil
}

// Last returns the id of the newest event, 0 before the first, and a channel
// that is closed at the next Publish.
func (l *Log) Last() (id uint64, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.more
}

// Parked is closed once a subscriber has asked for more and found nothing:
// it is subscribed, and the next Publish goes straight to it.
func (l *Log) Parked() <-chan struct{} { return l.parked }
