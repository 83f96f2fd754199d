package crowd

import (
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"pushcost/internal/hub"
)

// descriptors is the floor of all floors: nothing but a list of descriptors,
// and write(2) in a loop. It is deaf, and cuts off who has no room for a
// message at once.
type descriptors struct {
	*door
	hub.Count
	mu  sync.Mutex
	fds []int
}

func serveDescriptors(d *door) (Server, error) {
	s := &descriptors{door: d}
	d.after = func() {
		for _, fd := range s.fds {
			unix.Close(fd)
		}
	}
	d.serveConns(func(c net.Conn) {
		defer c.Close()
		if greet(c) != nil {
			return
		}
		fd, err := c.(*conn).duplicate()
		if err != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fds = append(s.fds, fd)
		s.Add(1)
	})
	return s, nil
}

func (s *descriptors) Broadcast(data []byte) (sent, dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.fds)
	s.writes.Add(int64(all))
	s.fds = slices.DeleteFunc(s.fds, func(fd int) bool {
		if n, _ := unix.Write(fd, data); n == len(data) {
			return false
		}
		unix.Close(fd)
		return true
	})
	dropped = all - len(s.fds)
	s.Add(-dropped)
	return len(s.fds), dropped
}

// Beat does nothing: a floor has no heartbeat.
func (s *descriptors) Beat() int    { return 0 }
func (s *descriptors) Heard() int64 { return 0 }
