package fleet

import (
	"bytes"
	"fmt"
	"time"
)

// A script is what every client is to get: the events that are expected and
// not yet awaited. Clients keep their place in it.
type script struct {
	base   int // events awaited before
	events []*event
}

type event struct {
	data []byte
	wire []byte // the same as encoded clients get it

	packet []byte // Socket.IO's with this data, as the first client found it to be

	due, got int // clients
	Arrival
}

func (s *script) end() int { return s.base + len(s.events) }

func (s *script) expect(a ExpectArgs, clients int) {
	for range a.Times {
		s.events = append(s.events, &event{data: a.Data, wire: a.Wire, due: clients})
	}
}

// at returns the event at a client's place, nil if none is expected there.
func (s *script) at(place int) *event {
	if place == s.end() {
		return nil
	}
	return s.events[place-s.base]
}

// forget is called when every client has everything.
func (s *script) forget() {
	s.base, s.events = s.end(), nil
}

// arrived notes that one more client has the event. Clients are read one
// after the other, so that the instants need no sorting.
func (e *event) arrived(now time.Time) {
	e.got++
	if e.got == 1 {
		e.First = now
	}
	if e.got == (e.due+1)/2 {
		e.P50 = now
	}
	if e.got == (99*e.due+99)/100 {
		e.P99 = now
	}
	e.Last = now
}

// A client is one subscription: a connection, or a stream of one.
type client struct {
	conn *conn
	id   int // in the order of dialing, from 0

	encoded  bool   // compares the bytes of events, not their data
	greeting *event // still to come, before the client is open; nil: none

	place int // in the script
	off   int // what has come of the event there, in bytes

	open   bool // joined, and not yet left
	pinged bool // and not yet answered
}

func (c *client) String() string { return fmt.Sprintf("client %d", c.id) }

// answered is called by a decoder when it has seen the head of the answer.
func (c *client) answered() {
	if c.greeting == nil {
		c.conn.opened()
	}
}

// greet has the client wait for a greeting after the head.
func (c *client) greet(g Greeting) {
	if e := (&event{data: g.Data, wire: g.Wire}); len(c.of(e)) > 0 {
		c.greeting = e
	}
}

// of is what the client gets of an event.
func (c *client) of(e *event) []byte {
	if c.encoded {
		return e.wire
	}
	return e.data
}

// next returns the event that is to come, nil if none is: before the client has
// joined none but the greeting.
func (c *client) next() *event {
	if c.greeting != nil {
		return c.greeting
	}
	if !c.open {
		return nil
	}
	return c.conn.fleet.script.at(c.place)
}

// data takes a part of the next event.
func (c *client) data(b []byte) error {
	e := c.next()
	if e == nil {
		return fmt.Errorf("%s: nothing is expected after event %d: got %.60q", c, c.place, b)
	}
	rest := c.of(e)[c.off:]
	if !bytes.HasPrefix(rest, b) {
		return fmt.Errorf("%s: event %d, byte %d: got %.60q, want %.60q", c, c.place+1, c.off, b, rest)
	}
	c.off += len(b)
	return nil
}

// end ends an event.
func (c *client) end() error {
	if err := c.whole(); err != nil {
		return err
	}
	c.got(c.next())
	return nil
}

// whole checks that all of an event has come, after data, which finds out
// whether one is expected.
func (c *client) whole() error {
	if rest := c.of(c.next())[c.off:]; len(rest) > 0 {
		return fmt.Errorf("%s: event %d ends after %d bytes, want %.60q more", c, c.place+1, c.off, rest)
	}
	return nil
}

// some takes what of b belongs to the next event, where only its length says
// so, and tells how much that is and whether the event is complete.
func (c *client) some(b []byte) (n int, ended bool, err error) {
	e := c.next()
	if e == nil {
		return 0, false, c.data(b)
	}
	n = min(len(b), len(c.of(e))-c.off)
	if err := c.data(b[:n]); err != nil {
		return 0, false, err
	}
	if ended = c.off == len(c.of(e)); ended {
		c.got(e)
	}
	return n, ended, nil
}

// got moves on from a whole event.
func (c *client) got(e *event) {
	c.off = 0
	if e == c.greeting {
		c.greeting = nil
		c.conn.opened()
		return
	}
	c.place++
	f := c.conn.fleet
	f.counts.Events++
	e.arrived(f.now)
	if c.place == f.script.end() {
		f.settle(&f.owed)
	}
}
