package measure

import (
	"net"
	"regexp"
	"slices"
	"sync"
)

// An order is the nonces of commands in the order in which they were seen.
type order struct {
	mu   sync.Mutex
	seen []string
}

var nonces = regexp.MustCompile(`"nonce":"([^"]+)"`)

// see notes the nonces in data and returns what is behind the last of them.
func (o *order) see(data []byte) (rest []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, at := range nonces.FindAllSubmatchIndex(data, -1) {
		o.seen = append(o.seen, string(data[at[2]:at[3]]))
		rest = data[at[1]:]
	}
	if rest == nil {
		return data
	}
	return rest
}

// take returns what was seen since the last call.
func (o *order) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.seen
	o.seen = nil
	return seen
}

// tapped returns a listener whose connections show what is read from them, in
// the order in which it is.
func (o *order) tapped(ln net.Listener) net.Listener { return tap{ln, o} }

type tap struct {
	net.Listener
	order *order
}

func (t tap) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tappedConn{Conn: conn, order: t.order}, nil
}

type tappedConn struct {
	net.Conn
	order *order
	tail  []byte // what a nonce may have begun in
}

// tailBytes is more than a nonce with its key.
const tailBytes = 100

func (c *tappedConn) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	c.tail = c.order.see(append(c.tail, data[:n]...))
	c.tail = slices.Clone(c.tail[max(0, len(c.tail)-tailBytes):])
	return n, err
}
