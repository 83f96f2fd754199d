package transport

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"time"
)

// impatient handles requests with a deadline for every write of their answers:
// the client that does not read until then is disconnected. (The server's
// WriteTimeout is one for the whole answer, which ends a stream however well
// its client reads.)
func impatient(patience time.Duration, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limited := &limitedWriter{w, http.NewResponseController(w), patience}
		handle(limited, r)
		limited.control.SetWriteDeadline(time.Now().Add(patience)) // for what is written after the handler; a hijacked one has none
	}
}

// limit gives a write a deadline. It is lifted afterwards, since over HTTP/2
// it would end a stream that has nothing to write as well.
func limit(set func(time.Time) error, patience time.Duration, write func() error) error {
	if err := set(time.Now().Add(patience)); err != nil {
		return err
	}
	return errors.Join(write(), set(time.Time{}))
}

// A limitedWriter is a ResponseWriter that limits each Write and Flush, also
// of the connection it is upgraded to.
type limitedWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

func (w *limitedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *limitedWriter) Write(data []byte) (n int, err error) {
	err = limit(w.control.SetWriteDeadline, w.patience, func() error {
		n, err = w.ResponseWriter.Write(data)
		return err
	})
	return n, err
}

func (w *limitedWriter) FlushError() error {
	return limit(w.control.SetWriteDeadline, w.patience, w.control.Flush)
}

func (w *limitedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	limited := &limitedConn{conn, w.patience}
	rw.Writer.Reset(limited)
	return limited, rw, nil
}

type limitedConn struct {
	net.Conn
	patience time.Duration
}

func (c *limitedConn) Write(data []byte) (n int, err error) {
	err = limit(c.SetWriteDeadline, c.patience, func() error {
		n, err = c.Conn.Write(data)
		return err
	})
	return n, err
}
