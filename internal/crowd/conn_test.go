package crowd

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// reluctant takes a byte until its deadline.
type reluctant struct {
	net.Conn
	taken []byte
}

func (*reluctant) SetWriteDeadline(time.Time) error { return nil }

func (r *reluctant) Write(p []byte) (int, error) {
	r.taken = append(r.taken, p[0])
	if len(p) > 1 {
		return 1, os.ErrDeadlineExceeded
	}
	return 1, nil
}

func TestASlowClientIsNotAStalledOne(t *testing.T) {
	slow := new(reluctant)
	c := &conn{Conn: slow, door: new(door), outbox: outbox{behind: []byte("bit by bit")}}
	c.drain()
	assert.NoError(t, c.err, "who takes something is not cut off")
	assert.Equal(t, "bit by bit", string(slow.taken), "and what remains is written from where it was")
}
