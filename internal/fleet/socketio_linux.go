package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"pushcost/internal/codec"
)

// Engine.IO 4 numbers its packets' types and Socket.IO 5, within a message,
// its own. The namespace is the one without a name.
const (
	packetOpen      = "0"
	packetClose     = "1"
	packetPing      = "2"
	packetPong      = "3"
	packetNoop      = "6"
	packetConnect   = "40"
	packetLeave     = "41"
	packetEvent     = "42"
	packetSeparator = "\x1e" // in the body of a poll
)

// engine is the path of a Socket.IO server.
const engine = "/socket.io/?EIO=4&transport="

// eventPacket is an event called message with one text.
func eventPacket(text []byte) []byte {
	b, err := json.Marshal([]string{"message", string(text)})
	if err != nil {
		panic(err) // strings can be marshalled
	}
	return append([]byte(packetEvent), b...)
}

// socketIO is Socket.IO over a WebSocket.
func socketIO(profile http.Header) dialect {
	return upgrade(engine+"websocket", profile, nil, func(c *conn, _ head) (decoder, error) {
		c.sends = socketIOPackets
		return newFrames(c.clients[0], &packets{client: c.clients[0], send: func(packet string) error {
			return c.send(opText, []byte(packet))
		}}, codec.Identity)
	})
}

// packets are messages, each a packet.
type packets struct {
	client *client
	buf    []byte
	send   func(packet string) error
	sid    string // the session's
}

func (p *packets) data(b []byte) error {
	p.buf = append(p.buf, b...)
	return nil
}

func (p *packets) end() error {
	packet := p.buf
	p.buf = p.buf[:0]
	return p.handle(packet)
}

func (p *packets) handle(packet []byte) error {
	c := p.client
	switch {
	case bytes.HasPrefix(packet, []byte(packetEvent)):
		return c.packet(packet)
	case string(packet) == packetPing:
		c.conn.fleet.counts.Pings++
		return p.send(packetPong)
	case string(packet) == packetNoop:
		return nil
	case string(packet) == packetClose, string(packet) == packetLeave:
		return errLeft
	case bytes.HasPrefix(packet, []byte(packetOpen+"{")) && p.sid == "":
		var open struct{ SID string }
		if err := json.Unmarshal(packet[1:], &open); err != nil || open.SID == "" {
			return fmt.Errorf("%s: it is opened without a session id: %.60q", c, packet)
		}
		p.sid = open.SID
		return p.send(packetConnect)
	case bytes.HasPrefix(packet, []byte(packetConnect+"{")) && c.conn.opening > 0:
		c.conn.opened()
		return nil
	}
	return fmt.Errorf("%s: not a packet that may come now: %.60q", c, packet)
}

// packet takes an event's packet. Only the first of many that are alike is parsed.
func (c *client) packet(packet []byte) error {
	e := c.next()
	if e == nil || !bytes.Equal(packet, e.packet) {
		data, err := eventData(packet)
		if err != nil {
			return fmt.Errorf("%s: %w: %.60q", c, err, packet)
		}
		if err := c.data(data); err != nil {
			return err
		}
		if err := c.whole(); err != nil {
			return err
		}
		e.packet = bytes.Clone(packet)
	}
	c.got(e)
	return nil
}

// eventData is what an event carries after its name: a text, or other JSON as
// it stands.
func eventData(packet []byte) ([]byte, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(packet[len(packetEvent):], &parts); err != nil {
		return nil, err
	}
	if len(parts) != 2 {
		return nil, errors.New("not a name and one value")
	}
	var text string
	if json.Unmarshal(parts[1], &text) == nil {
		return []byte(text), nil
	}
	return parts[1], nil
}

// socketIOPolling is Socket.IO over long polling: a request is parked until
// there are packets, and what the client sends goes up between two of them.
func socketIOPolling(profile http.Header) dialect {
	open := get(engine+"polling", profile)
	return dialect{
		request: func(*conn) []byte { return open },
		decoder: func(c *conn) decoder {
			p := &polling{packets: packets{client: c.clients[0]}, profile: profile}
			p.send = func(packet string) error {
				p.up = append(p.up, packet)
				return nil
			}
			return &exchanges{client: p.client, body: p, next: p.next}
		},
	}
}

// polling collects the answer to a poll, or to what was sent up.
type polling struct {
	packets
	profile http.Header
	up      []string // packets to send up
	sending bool     // the answer is that to a POST
	get     []byte   // the request that polls, once there is a session
}

func (p *polling) feed(b []byte) error { return p.data(b) }

func (p *polling) next() error {
	answer := p.buf
	p.buf = p.buf[:0]
	if p.sending {
		p.sending = false
		if string(answer) != "ok" {
			return fmt.Errorf("%s: what was sent up is answered with %.60q", p.client, answer)
		}
	} else {
		for packet := range bytes.SplitSeq(answer, []byte(packetSeparator)) {
			if err := p.handle(packet); err != nil {
				return err
			}
		}
	}
	path := engine + "polling&sid=" + p.sid
	if p.get == nil {
		p.get = get(path, p.profile)
	}
	request := p.get
	if p.sending = len(p.up) > 0; p.sending {
		request = post(path, p.profile, strings.Join(p.up, packetSeparator))
		p.up = p.up[:0]
	}
	_, err := p.client.conn.Write(request)
	return err
}

// post is a request of HTTP/1.1 with a text.
func post(path string, profile http.Header, text string) []byte {
	request := get(path, profile, "Content-Type", "text/plain;charset=UTF-8", "Content-Length", fmt.Sprint(len(text)))
	return append(append([]byte("POST"), request[len("GET"):]...), text...)
}
