package netpath

import (
	"net/netip"
	"sync"
	"time"
)

// A Fate is how a connection is cut. The zero Fate is that it is not.
type Fate struct {
	// It is cut this long after Dial, or within the client's Write or Read of
	// this number, from 1, whichever comes first. 0: not so.
	After       time.Duration
	Write, Read int

	// Part of that Write or Read still passes: from 0, none of it, to 1.
	Part float64

	// A connection is cut by a reset, which reaches both ends at once and
	// overtakes what is under way. With Silent, it just carries nothing any
	// more: the client receives nothing, what either writes afterwards is lost,
	// and neither is told. That much later the server gives up; the client is
	// never told.
	Silent time.Duration

	// Ended, if not nil, is told how the connection ended.
	Ended func(End)
}

// An End is what a connection had carried when it was cut or closed by the
// client.
type End struct {
	Cut            bool
	Sent, Received []byte // by the client
}

// Fragile is [Memory] whose connections are cut: the n-th one, from 1, has the
// fate of n. If fate is nil, none is cut.
func Fragile(path Path, fate func(n int) Fate) Network {
	return &memory{meter: meter{path: path}, listeners: map[netip.AddrPort]*listener{}, fate: fate}
}

// A doomed is the client's end of a connection that has a fate.
type doomed struct {
	*conn
	fate Fate

	mu            sync.Mutex
	clock         *time.Timer // nil: none
	writes, reads int
	end           End
	ended         bool
}

func (c *conn) doom(f Fate) *doomed {
	d := &doomed{conn: c, fate: f}
	if f.After > 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.clock = time.AfterFunc(f.After, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.cut()
		})
	}
	return d
}

func (d *doomed) Write(data []byte) (int, error) {
	passes := d.writing(data)
	n, err := d.conn.Write(data[:passes])
	if passes == len(data) || err != nil {
		return n, err
	}
	d.mu.Lock()
	d.cut()
	d.mu.Unlock()
	n, err = d.conn.Write(data[passes:])
	return passes + n, err
}

// writing notes a Write and says how much of it passes.
func (d *doomed) writing(data []byte) (passes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	passes = len(data)
	if d.writes++; d.writes == d.fate.Write && !d.ended {
		passes = int(d.fate.Part * float64(len(data)))
	}
	d.end.Sent = append(d.end.Sent, data[:passes]...)
	return passes
}

func (d *doomed) Read(data []byte) (int, error) {
	n, err := d.conn.Read(data)
	if n > 0 {
		n = d.read(data[:n])
	}
	if n == 0 && err == nil && len(data) > 0 {
		return d.conn.Read(data) // as after a cut
	}
	return n, err
}

// read notes a Read and says how much of it came through.
func (d *doomed) read(data []byte) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	struck := d.reads == d.fate.Read && !d.ended
	if struck {
		data = data[:int(d.fate.Part*float64(len(data)))]
	}
	d.end.Received = append(d.end.Received, data...)
	if struck {
		d.cut()
	}
	return len(data)
}

// cut is called with the lock held.
func (d *doomed) cut() {
	if d.ended {
		return
	}
	d.end.Cut = true
	d.over()
	if d.fate.Silent == 0 {
		d.in.reset(&d.in.reader, &d.in.writer)
		d.out.reset(&d.out.reader, &d.out.writer)
		return
	}
	d.in.silence()
	d.out.silence()
	d.in.lose()
	time.AfterFunc(d.fate.Silent, func() {
		d.in.reset(&d.in.writer)
		d.out.reset(&d.out.reader)
	})
}

// over is called with the lock held.
func (d *doomed) over() {
	d.ended = true
	if d.clock != nil {
		d.clock.Stop()
	}
	if d.fate.Ended != nil {
		d.fate.Ended(d.end)
	}
}

func (d *doomed) Close() error {
	d.mu.Lock()
	if !d.ended {
		d.over()
	}
	d.mu.Unlock()
	return d.conn.Close()
}
