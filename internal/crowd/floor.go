package crowd

import (
	"bufio"
	"io"
	"net"
)

// floorHead answers a floor's client, which has sent a line.
const floorHead = "HTTP/1.1 200 OK\r\n\r\n"

var floors = []Contestant{
	{Transport: "floor", Lib: "conn", Over: http1, serve: serveFloor},
}

// serveFloor parks a goroutine on each connection: what any server has that
// is written with package net.
func serveFloor(d *door) (Server, error) {
	s := &server[[]byte]{door: d, encode: same, silent: true}
	d.serveConns(func(c net.Conn) {
		if greet(c) != nil {
			c.Close()
			return
		}
		go func() {
			defer c.Close()
			defer s.Add(rawConn{c})()
			var one [1]byte
			for {
				if _, err := c.Read(one[:]); err != nil {
					return
				}
			}
		}()
	})
	return s, nil
}

func greet(c net.Conn) error {
	if _, err := bufio.NewReaderSize(c, 16).ReadSlice('\n'); err != nil {
		return err
	}
	_, err := io.WriteString(c, floorHead)
	return err
}
