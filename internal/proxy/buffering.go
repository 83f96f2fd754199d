package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"time"
)

// nginxBuffer is nginx's proxy_buffer_size, and each of its proxy_buffers: a
// page of memory.
const nginxBuffer = 4096

// readTimeout is nginx's proxy_read_timeout: how long its server may say
// nothing.
const readTimeout = 60 * time.Second

// buffering behaves as nginx does with proxy_pass and nothing else, up to 1.29.6:
// it speaks HTTP/1.0 to the server, does not forward an Upgrade, and gives what
// it reads to the client once a buffer is full or the answer complete, the head
// with the first of it. When the server says nothing for [readTimeout], it cuts
// the answer and drops what it holds. X-Accel-Buffering: no in the answer, or proxy_buffering
// off, make it pass on what it reads at once.
//
// Since 1.29.7 it speaks HTTP/1.1 by default, and gives a chunk to the client as
// soon as it is complete: to a client it is then the proxy called reverse.
func buffering(on bool) func(Server) *httputil.ReverseProxy {
	return func(to Server) *httputil.ReverseProxy {
		p := stripping(to)
		p.Transport = http10{to, on}
		p.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
			status := http.StatusBadGateway
			if errors.Is(err, os.ErrDeadlineExceeded) {
				status = http.StatusGatewayTimeout
			}
			http.Error(w, http.StatusText(status), status)
		}
		return p
	}
}

type http10 struct {
	to        Server
	buffering bool
}

func (t http10) RoundTrip(r *http.Request) (*http.Response, error) {
	conn, err := t.to.Dial(r.Context())
	if err != nil {
		return nil, err
	}
	server := &upstreamConn{Conn: conn, done: context.AfterFunc(r.Context(), func() { conn.Close() })}
	resp, err := t.ask(server, r)
	if err != nil {
		server.Close()
		return nil, err
	}
	return resp, nil
}

func (t http10) ask(server *upstreamConn, r *http.Request) (*http.Response, error) {
	var request bytes.Buffer
	r = r.Clone(r.Context())
	r.Close = true
	if err := r.Write(&request); err != nil {
		return nil, err
	}
	if _, err := server.Write(bytes.Replace(request.Bytes(), []byte(" HTTP/1.1\r\n"), []byte(" HTTP/1.0\r\n"), 1)); err != nil {
		return nil, err
	}
	buffered := bufio.NewReaderSize(server, nginxBuffer)
	resp, err := http.ReadResponse(buffered, r)
	if err != nil {
		return nil, err
	}
	head := server.read - buffered.Buffered()
	if head >= nginxBuffer {
		return nil, errors.New("the answer's head does not fit nginx's buffer")
	}
	body := io.Reader(resp.Body)
	if t.buffering && resp.Header.Get("X-Accel-Buffering") != "no" {
		held := &lumps{src: body}
		held.fill(nginxBuffer - head) // the head goes with it
		body = held
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{body, server}
	resp.Header.Del("X-Accel-Buffering") // nginx keeps it to itself
	return resp, nil
}

// upstreamConn counts what is read and loses patience.
type upstreamConn struct {
	net.Conn
	read int
	done func() bool
}

func (c *upstreamConn) Read(data []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(readTimeout)) // fails only where Read does
	n, err := c.Conn.Read(data)
	c.read += n
	return n, err
}

func (c *upstreamConn) Close() error {
	c.done()
	return c.Conn.Close()
}

// lumps gives its source a buffer at a time. What is in a buffer when the
// source fails is lost, as nginx does it.
type lumps struct {
	src  io.Reader
	full []byte
	err  error // of src, after full
}

func (l *lumps) fill(size int) {
	full := make([]byte, size)
	n, err := io.ReadFull(l.src, full)
	switch err {
	case io.ErrUnexpectedEOF:
		err = io.EOF
		fallthrough
	case nil:
		l.full = full[:n]
	}
	l.err = err
}

func (l *lumps) Read(data []byte) (int, error) {
	if len(l.full) == 0 && l.err == nil {
		l.fill(nginxBuffer)
	}
	if len(l.full) == 0 {
		return 0, l.err
	}
	n := copy(data, l.full)
	l.full = l.full[n:]
	return n, nil
}
