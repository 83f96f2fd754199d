package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// idleLimit is how long an idle connection lives behind the proxies that cut
// it: 60 s, an Application Load Balancer's default.
const idleLimit = 60 * time.Second

// A carry carries bytes from src to dst until src ends, and tells of those
// that count as a sign of life.
type carry func(dst io.Writer, src io.Reader, alive func()) error

// copyBytes lets everything count, as a device does that sees bytes only: a
// NAT, a firewall, a load balancer for TCP.
func copyBytes(dst io.Writer, src io.Reader, alive func()) error {
	_, err := io.Copy(dst, watched{src, alive})
	return err
}

type watched struct {
	io.Reader
	alive func()
}

func (w watched) Read(data []byte) (int, error) {
	n, err := w.Reader.Read(data)
	if n > 0 {
		w.alive()
	}
	return n, err
}

// copyFrames carries HTTP/2's frames (RFC 9113, section 4.1). All but PINGs
// count: an Application Load Balancer "does not support HTTP/2 PING frames.
// These do not reset the connection idle timeout." It would answer them
// itself; here the server does, which a client cannot tell.
func copyFrames(dst io.Writer, src io.Reader, alive func()) error {
	buffered := bufio.NewReader(src)
	if start, _ := buffered.Peek(3); string(start) == http2.ClientPreface[:3] {
		if _, err := io.CopyN(dst, buffered, int64(len(http2.ClientPreface))); err != nil {
			return err
		}
	}
	var frame bytes.Buffer
	for {
		head, err := http2.ReadFrameHeader(io.TeeReader(buffered, &frame))
		if err == nil {
			_, err = io.CopyN(&frame, buffered, int64(head.Length))
		}
		if err != nil {
			return err
		}
		if head.Type != http2.FramePing {
			alive()
		}
		if _, err := frame.WriteTo(dst); err != nil {
			return err
		}
	}
}

// cutIdle ends a client's connection and the server's once neither has shown
// a sign of life for [idleLimit].
func cutIdle(carry carry) func(context.Context, net.Listener, Server) error {
	return func(ctx context.Context, ln net.Listener, to Server) error {
		return accept(ctx, ln, func(client net.Conn) {
			server, err := to.Dial(ctx)
			if err != nil {
				return // a client sees its connection closed
			}
			ctx, cut := context.WithCancel(ctx)
			limit := time.AfterFunc(idleLimit, cut)
			defer limit.Stop()
			splice(ctx, client, server, carry, func() { limit.Reset(idleLimit) })
		})
	}
}

// tunnel opens what a CONNECT asks for and carries bytes, whatever they mean.
func tunnel(ctx context.Context, ln net.Listener, to Server) error {
	return accept(ctx, ln, func(client net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(client)) // which leaves nothing unread: the client waits for the answer
		if err != nil {
			return
		}
		if r.Method != http.MethodConnect {
			io.WriteString(client, "HTTP/1.1 405 Method Not Allowed\r\nAllow: CONNECT\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
		server, err := to.Dial(ctx)
		if err != nil {
			io.WriteString(client, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
		if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			server.Close()
			return
		}
		splice(ctx, client, server, copyBytes, func() {})
	})
}

// accept serves each connection until ctx ends, and then waits for them all.
func accept(ctx context.Context, ln net.Listener, serve func(client net.Conn)) error {
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		client, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		all.Go(func() {
			defer client.Close()
			defer context.AfterFunc(ctx, func() { client.Close() })() // also while it is not spliced yet
			serve(client)
		})
	}
}

// splice carries both ways until both have ended, or ctx, and closes both
// connections.
func splice(ctx context.Context, client, server net.Conn, carry carry, alive func()) {
	shut := func() {
		client.Close()
		server.Close()
	}
	defer shut()
	defer context.AfterFunc(ctx, shut)()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{server, client}, {client, server}} {
		both.Go(func() {
			dst, src := way[0], way[1]
			if err := carry(dst, src, alive); err != nil && err != io.EOF {
				src.Close() // nobody will read what else it sends
			}
			dst.(interface{ CloseWrite() error }).CloseWrite() // fails where it is closed already
		})
	}
	both.Wait()
}
