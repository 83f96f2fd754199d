package crowd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"pushcost/internal/certificate"
	"pushcost/internal/codec"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A guest is a client that writes down what it gets.
type guest struct {
	setup setup.Setup
	tcp   *tap
	ws    *websocket.Conn // nil for others
	got   chan string     // messages; "beat" for a heartbeat, "pong" for a pong. Closed at the end
}

// A tap can be turned off: then its connection reads nothing.
type tap struct {
	net.Conn
	mu  sync.Mutex
	off chan struct{} // closed: on
	end chan struct{}
}

// turn turns the tap, however it was.
func (t *tap) turn(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.off:
		if !on {
			t.off = make(chan struct{})
		}
	default:
		if on {
			close(t.off)
		}
	}
}

func (t *tap) Read(p []byte) (int, error) {
	t.mu.Lock()
	off := t.off
	t.mu.Unlock()
	select {
	case <-off:
	case <-t.end:
	}
	return t.Conn.Read(p)
}

// leave closes the connection with an RST or a FIN.
func (g *guest) leave(reset bool) {
	tcp := g.tcp.Conn.(*net.TCPConn)
	if reset {
		tcp.SetLinger(0)
	}
	tcp.Close()
	close(g.tcp.end)
	for range g.got { // until its reader has ended
	}
}

// come opens a connection; it is closed at the end of the test at the latest.
func come(t *testing.T, s setup.Setup, addr string) *guest {
	t.Helper()
	g := &guest{setup: s, tcp: &tap{off: make(chan struct{}), end: make(chan struct{})}, got: make(chan string, 10_000)}
	close(g.tcp.off)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		if g.tcp.Conn != nil {
			return nil, net.ErrClosed // net/http would come again by itself
		}
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		g.tcp.Conn = c
		return g.tcp, nil
	}
	_, security := certificate.Configs(s.HTTP)
	var read func() error
	switch {
	case s.Codec == codec.Deflate: // gorilla's client has no takeover
		coder := transport.All[slices.IndexFunc(transport.All, func(t transport.Transport) bool { return t.Lib == "coder" })]
		url := "http://localhost"
		if s.TLS != "" {
			url = "https://localhost"
		}
		stream, err := coder.Open(context.WithoutCancel(t.Context()), &transport.Client{
			URL: url, Header: http.Header{}, Codec: s.Codec,
			HTTP: &http.Transport{DialContext: dial, TLSClientConfig: security},
		}, 0)
		require.NoError(t, err)
		read = func() error {
			e, err := stream.Next()
			if err == nil {
				g.got <- string(e.Data)
			} else {
				stream.Close()
			}
			return err
		}
	case s.Transport == "ws":
		url := "ws://localhost/"
		if s.TLS != "" {
			url = "wss://localhost/"
		}
		d := websocket.Dialer{NetDialContext: dial, TLSClientConfig: security, EnableCompression: s.Codec == codec.DeflateNoTakeover}
		ws, _, err := d.DialContext(t.Context(), url, nil)
		require.NoError(t, err)
		ws.SetPingHandler(func(text string) error {
			g.got <- "beat"
			return ws.WriteControl(websocket.PongMessage, []byte(text), time.Time{})
		})
		ws.SetPongHandler(func(text string) error { g.got <- "pong " + text; return nil })
		g.ws = ws
		read = func() error {
			_, data, err := ws.ReadMessage()
			if err == nil {
				g.got <- string(data)
			}
			return err
		}
	case s.Transport == "floor":
		c, err := dial(t.Context(), "tcp", "")
		require.NoError(t, err)
		io.WriteString(c, "hello\n")
		r := bufio.NewReader(c)
		for line := ""; line != "\r\n"; {
			line, err = r.ReadString('\n')
			require.NoError(t, err)
		}
		read = func() error {
			text, err := r.ReadString('\n') // a test's events on a floor end in one
			if err == nil {
				g.got <- strings.TrimSpace(text)
			}
			return err
		}
	default:
		url := "http://localhost/"
		if s.TLS != "" {
			url = "https://localhost/"
		}
		client := &http.Client{Transport: &http.Transport{Protocols: transport.Protocols(s.HTTP), TLSClientConfig: security, DialContext: dial, DisableCompression: true}}
		t.Cleanup(client.CloseIdleConnections)
		get := func(query string) (*http.Response, error) {
			resp, err := client.Get(url + query)
			if err == nil && resp.StatusCode != http.StatusOK {
				resp.Body.Close()
				err = fmt.Errorf("%s", resp.Status)
			}
			return resp, err
		}
		if s.Transport == "poll" {
			cursor := 0
			read = func() error {
				resp, err := get(fmt.Sprint("poll?cursor=", cursor))
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				var events []json.RawMessage
				if err := json.NewDecoder(resp.Body).Decode(&events); err != nil {
					return err
				}
				io.Copy(io.Discard, resp.Body) // so that the connection is used again
				for _, e := range events {
					g.got <- string(e)
				}
				if len(events) == 0 {
					g.got <- "beat"
				}
				cursor += len(events)
				return nil
			}
			break
		}
		resp, err := get("events")
		require.NoError(t, err)
		var lines *bufio.Reader
		read = func() error {
			if lines == nil {
				coding, ok := windows[s.Codec]
				if !ok {
					coding.Name = s.Codec
				}
				body, err := coding.NewReader(resp.Body)
				if err != nil {
					return err
				}
				lines = bufio.NewReader(body)
			}
			line, err := lines.ReadString('\n')
			if err != nil {
				resp.Body.Close()
				return err
			}
			if line == ":\n" {
				g.got <- "beat"
			} else if data, ok := strings.CutPrefix(line, "data: "); ok {
				g.got <- strings.TrimSuffix(data, "\n")
			}
			return nil
		}
	}
	go func() {
		defer close(g.got)
		for read() == nil {
		}
	}()
	t.Cleanup(func() {
		select {
		case <-g.tcp.end:
		default:
			g.leave(true)
		}
	})
	return g
}

// hears waits for what comes next.
func (g *guest) hears(t *testing.T, want string) {
	t.Helper()
	select {
	case got, ok := <-g.got:
		require.True(t, ok, "%s: the connection ended before %.40q came", g.setup, want)
		require.Equal(t, len(want), len(got), "%s: %.40q instead of %.40q", g.setup, got, want)
		require.True(t, got == want, "%s: %.40q instead of %.40q", g.setup, got, want)
	case <-t.Context().Done():
	case <-time.After(time.Minute):
		require.Fail(t, "timeout", "%s: %.40q did not come", g.setup, want)
	}
}
