package fleet

import (
	"fmt"
	"net/http"
	"strconv"
)

// exchanges are answers on a connection, one after the other, each to the
// request before it.
type exchanges struct {
	client *client
	body   decoder
	next   func() error // the answer is complete: asks again

	part   []byte // of the head
	headed bool   // the head is complete
	left   int    // of the body, in bytes; -1: it is chunked
	chunks chunked
}

func (x *exchanges) feed(b []byte) error {
	for len(b) > 0 {
		if !x.headed {
			h, rest, ok, err := cutHead(&x.part, b)
			if err == nil && ok {
				err = x.begin(h)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", x.client, err)
			}
			if !ok {
				return nil
			}
			b, x.headed = rest, true
		}
		rest, ended, err := x.content(b)
		if err != nil {
			return err
		}
		if b = rest; ended {
			x.headed = false
			if err := x.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *exchanges) begin(h head) error {
	if err := h.status(statusOK); err != nil {
		return err
	}
	if string(h.field("Transfer-Encoding")) == "chunked" {
		x.left = -1
		x.chunks = chunked{client: x.client, body: x.body}
		return nil
	}
	length, err := strconv.ParseUint(string(h.field("Content-Length")), 10, 31)
	x.left = int(length)
	return err
}

// content takes a part of the body.
func (x *exchanges) content(b []byte) (rest []byte, ended bool, err error) {
	if x.left < 0 {
		if err := x.chunks.feed(b); err != errLeft {
			return nil, false, err
		}
		return x.chunks.rest, true, nil
	}
	n := min(len(b), x.left)
	if n > 0 {
		err = x.body.feed(b[:n])
	}
	x.left -= n
	return b[n:], x.left == 0, err
}

// poll is long polling: a request is parked until there are events after its
// cursor, and answered with a JSON array of them.
func poll(profile http.Header, cursor uint64) dialect {
	const path = "/poll?cursor="
	sample := get(path, profile)
	rest := sample[len("GET "+path):]
	ask := func(b []byte, cursor uint64) []byte {
		b = append(b, "GET "+path...)
		return append(strconv.AppendUint(b, cursor, 10), rest...)
	}
	first := ask(nil, cursor)
	return dialect{
		parked:  true,
		request: func(*conn) []byte { return first },
		decoder: func(c *conn) decoder {
			a := &array{client: c.clients[0]}
			cursor := cursor
			return &exchanges{client: a.client, body: a, next: func() error {
				if a.at != arrayEnd {
					return fmt.Errorf("%s: the answer's array does not end", a.client)
				}
				a.at = arrayBegin
				cursor += a.values
				a.values = 0
				c.buf = ask(c.buf[:0], cursor)
				_, err := c.Write(c.buf)
				return err
			}}
		},
	}
}

// array takes a JSON array of events apart, none with blanks around it.
type array struct {
	client *client
	at     arrayPart
	values uint64
}

type arrayPart int

const (
	arrayBegin arrayPart = iota
	arrayFirst           // or the end
	arrayValue
	arrayComma // or the end
	arrayEnd
)

func (a *array) feed(b []byte) error {
	for len(b) > 0 {
		ch := b[0]
		switch {
		case a.at == arrayBegin && ch == '[':
			a.at = arrayFirst
		case a.at == arrayComma && ch == ',':
			a.at = arrayValue
		case (a.at == arrayFirst || a.at == arrayComma) && ch == ']':
			if a.at == arrayFirst {
				a.client.conn.fleet.counts.Pings++
			}
			a.at = arrayEnd
		case a.at == arrayFirst || a.at == arrayValue:
			a.at = arrayValue
			n, ended, err := a.client.some(b)
			if err != nil {
				return err
			}
			if b = b[n:]; ended {
				a.values++
				a.at = arrayComma
			}
			continue
		default:
			return fmt.Errorf("%s: the answer is no array of events: %.60q", a.client, b)
		}
		b = b[1:]
	}
	return nil
}
