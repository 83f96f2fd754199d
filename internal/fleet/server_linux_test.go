package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/codec"
	"pushcost/internal/eventstream"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A server is the least that pushes to a fleet.
type server struct {
	t    *testing.T
	addr string

	mu     sync.Mutex
	sinks  map[*sink]bool
	joined *sync.Cond // or left

	events []string   // a poll's
	more   *sync.Cond // of them

	sessions map[string]chan string // Socket.IO's, and their packets

	hangUp atomic.Bool // instead of answering a WebSocket's ping

	heard chan string // messages from clients
	ends  chan error  // of their connections
}

// A sink is a client at the server.
type sink struct {
	event, beat func(data []byte) error
	conn        net.Conn // may be nil
}

func serve(t *testing.T, s setup.Setup) *server {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &server{t: t, addr: ln.Addr().String(), sinks: map[*sink]bool{}, sessions: map[string]chan string{}, heard: make(chan string, 1000), ends: make(chan error, 1000)}
	srv.joined, srv.more = sync.NewCond(&srv.mu), sync.NewCond(&srv.mu)
	var handlers sync.WaitGroup
	if s.Transport == "floor" {
		handlers.Go(func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				handlers.Go(func() { srv.floor(c) })
			}
		})
		t.Cleanup(func() {
			ln.Close()
			srv.closeConns()
			handlers.Wait()
		})
		return srv
	}
	web := &http.Server{
		Protocols: transport.Protocols(s.HTTP),
		ErrorLog:  log.New(io.Discard, "", 0),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 250},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handlers.Add(1)
			defer handlers.Done()
			switch r.URL.Path {
			case "/ws":
				srv.webSocket(w, r, s.Codec)
			case "/events":
				srv.stream(w, r, s.Codec)
			case "/poll":
				srv.poll(w, r)
			case "/socket.io/":
				srv.socketIO(w, r)
			default:
				http.NotFound(w, r)
			}
		}),
	}
	if s.TLS != "" {
		ln = tls.NewListener(ln, serverTLS(t, s.HTTP))
	}
	go web.Serve(ln)
	t.Cleanup(func() {
		srv.closeConns()
		web.Close()
		handlers.Wait()
	})
	return srv
}

func (s *server) closeConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.sinks {
		if k.conn != nil {
			k.conn.Close()
		}
	}
}

func (s *server) add(k *sink) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sinks[k] = true
	s.joined.Broadcast()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sinks, k)
		s.joined.Broadcast()
	}
}

// await waits until there are n clients.
func (s *server) await(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.sinks) != n {
		s.joined.Wait()
	}
}

func (s *server) all() (all []*sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.sinks {
		all = append(all, k)
	}
	return all
}

func (s *server) broadcast(data string) {
	s.mu.Lock()
	s.events = append(s.events, data)
	s.more.Broadcast()
	s.mu.Unlock()
	for _, k := range s.all() {
		if k.event != nil {
			assert.NoError(s.t, k.event([]byte(data)))
		}
	}
}

func (s *server) floor(c net.Conn) {
	defer c.Close()
	hello := make([]byte, len("hello\n"))
	if _, err := io.ReadFull(c, hello); err != nil {
		return
	}
	remove := s.add(&sink{conn: c, event: func(data []byte) error {
		_, err := c.Write(data)
		return err
	}})
	defer remove()
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	_, err := c.Read(hello)
	s.ends <- err
}

func (s *server) webSocket(w http.ResponseWriter, r *http.Request, coding codec.Name) {
	u := websocket.Upgrader{EnableCompression: coding != codec.Identity, CheckOrigin: func(*http.Request) bool { return true }}
	c, err := u.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()
	remove := s.add(&sink{conn: c.NetConn(),
		event: func(data []byte) error { return c.WriteMessage(websocket.TextMessage, data) },
		beat:  func(data []byte) error { return c.WriteMessage(websocket.PingMessage, data) },
	})
	defer remove()
	answer := c.PingHandler()
	c.SetPingHandler(func(payload string) error {
		if s.hangUp.Load() {
			return errors.New("the server hangs up")
		}
		return answer(payload)
	})
	c.SetPongHandler(func(payload string) error { s.heard <- "pong " + payload; return nil })
	for {
		_, data, err := c.ReadMessage()
		if err != nil {
			s.ends <- err
			return
		}
		s.heard <- string(data)
	}
}

func (s *server) stream(w http.ResponseWriter, r *http.Request, coding codec.Name) {
	w.Header().Set("Content-Type", "text/event-stream")
	if coding != "" {
		w.Header().Set("Content-Encoding", string(coding))
	}
	body, err := codec.NewWriter(coding, w)
	if err != nil {
		panic(err)
	}
	control := http.NewResponseController(w)
	control.Flush()
	var mu sync.Mutex
	over := false
	write := func(b []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return nil
		}
		_, err := body.Write(b)
		return errors.Join(err, body.Flush(), control.Flush())
	}
	id := 0
	remove := s.add(&sink{
		event: func(data []byte) error {
			id++
			return write(eventstream.AppendEvent(nil, strconv.Itoa(id), data))
		},
		beat: func([]byte) error { return write(eventstream.AppendComment(nil)) },
	})
	defer remove()
	<-r.Context().Done()
	mu.Lock()
	over = true
	mu.Unlock()
}

func (s *server) poll(w http.ResponseWriter, r *http.Request) {
	cursor, _ := strconv.Atoi(r.FormValue("cursor"))
	remove := s.add(&sink{})
	defer remove()
	defer context.AfterFunc(r.Context(), func() { // which ends some time after its connection
		s.mu.Lock()
		defer s.mu.Unlock()
		s.more.Broadcast()
	})()
	s.mu.Lock()
	for len(s.events) <= cursor && r.Context().Err() == nil {
		s.more.Wait()
	}
	body := "["
	for i, e := range s.events[min(cursor, len(s.events)):] {
		if i > 0 {
			body += ","
		}
		body += e
	}
	s.mu.Unlock()
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	io.WriteString(w, body+"]")
}

// socketIO is the least of Engine.IO 4 and Socket.IO 5. A session of polls has
// its client's number as its id.
func (s *server) socketIO(w http.ResponseWriter, r *http.Request) {
	const opened, connected = `0{"sid":"s","upgrades":[]}`, `40{"sid":"t"}`
	event := func(data []byte) string {
		return fmt.Sprintf(`42["event",%q]`, data)
	}
	if r.FormValue("transport") == "websocket" {
		u := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
		c, err := u.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		send := func(packet string) error { return c.WriteMessage(websocket.TextMessage, []byte(packet)) }
		assert.NoError(s.t, send(opened))
		_, packet, err := c.ReadMessage()
		assert.NoError(s.t, err)
		assert.Equal(s.t, "40", string(packet))
		assert.NoError(s.t, send(connected))
		remove := s.add(&sink{conn: c.NetConn(),
			event: func(data []byte) error { return send(event(data)) },
			beat:  func([]byte) error { return send("2") },
		})
		defer remove()
		for {
			_, packet, err := c.ReadMessage()
			if err != nil {
				return
			}
			s.heard <- string(packet)
		}
	}
	answer := func(text string) {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		io.WriteString(w, text)
	}
	sid := r.FormValue("sid")
	s.mu.Lock()
	session := s.sessions[sid]
	if session == nil {
		sid = strconv.Itoa(len(s.sessions))
		session = make(chan string, 100)
		s.sessions[sid] = session
		s.mu.Unlock()
		answer(`0{"sid":"` + sid + `"}`)
		return
	}
	s.mu.Unlock()
	if r.Method == "POST" {
		body, err := io.ReadAll(r.Body)
		assert.NoError(s.t, err)
		if string(body) == "40" {
			session <- connected
			s.add(&sink{
				event: func(data []byte) error { session <- event(data); return nil },
				beat:  func([]byte) error { session <- "2"; return nil },
			})
		} else {
			s.heard <- string(body)
		}
		answer("ok")
		return
	}
	select {
	case packets := <-session:
		for len(session) > 0 {
			packets += "\x1e" + <-session
		}
		answer(packets)
	case <-r.Context().Done():
	}
}

// fleetOf dials n clients of a setup to a server of it.
func fleetOf(t *testing.T, s setup.Setup, a DialArgs) (*Fleet, *server) {
	t.Helper()
	srv := serve(t, s)
	f := new(Fleet)
	t.Cleanup(func() { assert.NoError(t, f.Close(0, nil)) })
	a.Setup, a.Addr = s, srv.addr
	var d Dialed
	require.NoError(t, f.Dial(a, &d))
	require.Equal(t, a.N, d.Open)
	srv.await(a.N)
	return f, srv
}

func cell(t *testing.T, name string) setup.Setup {
	t.Helper()
	s, err := setup.Parse(name)
	require.NoError(t, err)
	return s
}

const long = time.Minute // nobody waits so long

func await(t *testing.T, f *Fleet) Awaited {
	t.Helper()
	var got Awaited
	require.NoError(t, f.Await(AwaitArgs{long}, &got))
	require.Zero(t, got.Missing, "every client has every event")
	return got
}
