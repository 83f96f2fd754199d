package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"pushcost/internal/eventstream"
	"pushcost/internal/netpath"
	"pushcost/internal/proxy"
)

// A LumpPlan is an event stream, sent to see what a proxy holds of it.
type LumpPlan struct {
	Proxy  proxy.Proxy
	Answer http.Header // more fields of the stream's head
	Events [][]byte

	// Head says that the head has to be passed on before there is an event;
	// else it has to be held. It is said beforehand, because only a head that
	// has to come can be waited for.
	Head bool
}

// Lumps sends the events through the proxy, each once the proxy has had its
// opportunity to pass on the one before, then ends the answer, and returns how
// many events were complete with each of its chunks. Two that come with one
// prove that the first was held, since a chunk begins with its length.
//
// It is for a bubble, unless the proxy is a program.
func Lumps(ctx context.Context, p LumpPlan) (lumps []int, err error) {
	network := netpath.Memory(netpath.Path{})
	if p.Proxy.Program != "" {
		network = netpath.Loopback(netpath.Path{})
	}
	front, err := network.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ln, err := network.Listen("127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, front.Close())
	}
	at, to := front.Addr().String(), proxy.Server{Addr: ln.Addr().String()}
	to.Dial = func(ctx context.Context) (net.Conn, error) { return network.Dial(ctx, "tcp", to.Addr) }
	s := &script{answer: p.Answer, say: make(chan []byte), said: make(chan error, 1)}
	srv := &http.Server{Handler: s}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go srv.Serve(ln) // until it is closed
	go func() { served <- p.Proxy.Serve(ctx, front, to) }()
	defer func() {
		cancel()
		err = errors.Join(err, srv.Close(), <-served)
	}()

	conn, err := network.Dial(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	answer := bufio.NewReader(conn)
	client := &http.Client{Transport: &http.Transport{DialContext: network.Dial}}
	defer client.CloseIdleConnections()
	// settle waits until something was said, and lets the proxy do what it can:
	// in a bubble all does until it waits, and nginx's one worker has when it has
	// answered twice.
	settle := func() error {
		select {
		case err := <-s.said:
			if err != nil {
				return err
			}
		case err := <-served:
			served <- err // which is told below
			return errors.New("the proxy has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
		if p.Proxy.Program == "" {
			return netpath.Sleep(ctx, time.Second)
		}
		for range 2 {
			req, err := http.NewRequestWithContext(ctx, "HEAD", "http://"+at, nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			resp.Body.Close()
		}
		return nil
	}
	if _, err := io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return nil, err
	}
	if err := settle(); err != nil {
		return nil, err
	}
	if err := p.look(conn, answer); err != nil {
		return nil, err
	}
	for _, event := range p.Events {
		s.say <- event
		if err := settle(); err != nil {
			return nil, err
		}
	}
	close(s.say)
	return inChunks(answer)
}

// look sees whether the head is there if it should be.
func (p LumpPlan) look(conn net.Conn, answer *bufio.Reader) error {
	if p.Head {
		_, err := answer.Peek(1)
		return err
	}
	conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // it is there or not; this is not waiting for it
	defer conn.SetReadDeadline(time.Time{})
	if _, err := answer.Peek(1); err == nil {
		return errors.New("the head came before the first event")
	}
	return nil
}

// A script is a server whose events are said one by one.
type script struct {
	answer http.Header
	say    chan []byte
	said   chan error // after the head, and after each event: it is on its way
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/events" {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for name, values := range s.answer {
		w.Header()[name] = values
	}
	flush := http.NewResponseController(w).Flush
	s.said <- flush()
	for event := range s.say {
		_, err := w.Write(eventstream.AppendEvent(nil, "", event))
		s.said <- errors.Join(err, flush())
	}
}

// inChunks reads the rest of an answer (RFC 9112, section 7.1) and returns how
// many events were complete with each chunk.
func inChunks(answer io.Reader) (lumps []int, err error) {
	raw, err := io.ReadAll(answer)
	if err != nil {
		return nil, err
	}
	_, rest, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	var text []byte
	for complete := 0; ; complete = bytes.Count(text, []byte("\n\n")) {
		length, chunk, _ := bytes.Cut(rest, []byte("\r\n"))
		n, err := strconv.ParseUint(string(length), 16, 31)
		if err != nil || len(chunk) < int(n)+len("\r\n") {
			return nil, fmt.Errorf("this is not a chunk: %.60q", rest)
		}
		if n == 0 {
			return lumps, nil
		}
		text, rest = append(text, chunk[:n]...), chunk[n+2:]
		lumps = append(lumps, bytes.Count(text, []byte("\n\n"))-complete)
	}
}
