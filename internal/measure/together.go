package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"pushcost/internal/child"
	"pushcost/internal/crowd"
	"pushcost/internal/setup"
)

// Readers are clients of event streams as programs have them, with a goroutine
// each: what do they cost whoever shares a process with them?
type Readers struct{ open []io.Closer }

// ReadArgs say how many streams to open, and with what: net/http, or net for
// a bare connection.
type ReadArgs struct {
	Addr, Library string
	N             int
}

// Read opens streams and keeps reading them.
func (r *Readers) Read(a ReadArgs, _ *int) error {
	for range a.N {
		stream, err := openStream(a.Addr, a.Library)
		if err != nil {
			return err
		}
		r.open = append(r.open, stream)
		go io.Copy(io.Discard, stream)
	}
	return nil
}

func openStream(addr, library string) (io.ReadCloser, error) {
	req, err := http.NewRequest("GET", "http://"+addr+"/events", nil)
	if err != nil {
		return nil, err
	}
	switch library {
	case "net/http":
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	case "net":
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		if err := req.Write(conn); err != nil {
			return nil, err
		}
		_, err = http.ReadResponse(bufio.NewReader(conn), req) // an idle stream has no more than its head
		return conn, err
	}
	return nil, fmt.Errorf("library %q is neither net/http nor net", library)
}

// together is a server and its clients in one process.
type together struct {
	*crowd.Service
	*Readers
}

// ReadBy is what a stream costs the process of its server (bytes of heap and
// stacks), read with a library of the client's, in that process or in one of
// its own.
func ReadBy(ctx context.Context, library string, inServer bool) (bytes float64, err error) {
	const few, many = 50, 550
	role := "server"
	if inServer {
		role = "together"
	}
	server, err := child.Start(ctx, role, "")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	readers := server
	if !inServer {
		if readers, err = child.Start(ctx, "readers", ""); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, readers.Stop()) }()
	}
	var addr string
	s := setup.Setup{Transport: "sse", Lib: "http", HTTP: "1.1"}
	if err := server.Call("Start", crowd.StartArgs{Setup: s}, &addr); err != nil {
		return 0, err
	}
	var held [2]child.Memory
	for i, n := range []int{few, many - few} {
		if err := readers.Call("Read", ReadArgs{addr, library, n}, new(int)); err != nil {
			return 0, err
		}
		if held[i], err = server.Memory(); err != nil {
			return 0, err
		}
	}
	return float64(held[1].Heap+held[1].Stack-held[0].Heap-held[0].Stack) / (many - few), nil
}
