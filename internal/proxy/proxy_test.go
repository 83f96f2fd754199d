package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/netpath"
	"pushcost/internal/virtual"
)

// ask sends a request to a proxy before a server, in virtual time, and returns
// the answer with its body, if there is any. A nil server is one that nobody
// can reach.
func ask(t *testing.T, name, request string, server func(net.Conn)) (status, body string, failure error) {
	t.Helper()
	p, ok := Named(name)
	require.True(t, ok)
	require.NoError(t, virtual.Run(func(ctx context.Context) error {
		network := netpath.Memory(netpath.Path{})
		ln, err := network.Listen("127.0.0.1:0")
		if err != nil {
			return err
		}
		dial := func(context.Context) (net.Conn, error) {
			if server == nil {
				return nil, errors.New("nobody is there")
			}
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				server(far)
			}()
			return halfClosing{near}, nil
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		served := make(chan error)
		go func() { served <- p.Serve(ctx, ln, Server{Addr: "server", Dial: dial}) }()
		conn, err := network.Dial(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		io.WriteString(conn, request) // where it fails, so does what follows
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			var text []byte
			text, err = io.ReadAll(resp.Body)
			status, body = resp.Status, string(text)
		}
		failure = err
		cancel()
		return errors.Join(<-served, conn.Close())
	}))
	return status, body, failure
}

// halfClosing closes all of a pipe, which has no half.
type halfClosing struct{ net.Conn }

func (c halfClosing) CloseWrite() error { return c.Close() }

// answering is a server that answers any request with this.
func answering(answer string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, answer)
		}
	}
}

const get = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

func TestAServerThatIsGone(t *testing.T) {
	for name, want := range map[string]string{"reverse": "502 Bad Gateway", "stripping": "502 Bad Gateway", "buffering": "502 Bad Gateway"} {
		status, _, err := ask(t, name, get, nil)
		assert.NoError(t, err)
		assert.Equal(t, want, status, name)
	}
	status, _, err := ask(t, "tunnel", "CONNECT server:80 HTTP/1.1\r\nHost: server:80\r\n\r\n", nil)
	assert.NoError(t, err)
	assert.Equal(t, "502 Bad Gateway", status)
	_, _, err = ask(t, "idle", get, nil)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "one that sees bytes only has no status to give")
}

func TestATunnelIsForCONNECT(t *testing.T) {
	status, _, err := ask(t, "tunnel", get, answering(""))
	assert.NoError(t, err)
	assert.Equal(t, "405 Method Not Allowed", status)
}

func TestBufferingSpeaksHTTP10(t *testing.T) {
	var seen *http.Request
	status, body, err := ask(t, "buffering", get, func(conn net.Conn) {
		seen, _ = http.ReadRequest(bufio.NewReader(conn))
		io.WriteString(conn, "HTTP/1.0 200 OK\r\nX-Accel-Buffering: yes\r\n\r\nto the end")
	})
	assert.NoError(t, err)
	assert.Equal(t, "200 OK", status)
	assert.Equal(t, "to the end", body, "an answer without a length ends with its connection")
	assert.Equal(t, "HTTP/1.0", seen.Proto)
	assert.True(t, seen.Close)
}

func TestBufferingHasNoRoomForALargeHead(t *testing.T) {
	for size, want := range map[int]string{3000: "200 OK", 5000: "502 Bad Gateway"} {
		status, _, err := ask(t, "buffering", get, answering(fmt.Sprintf("HTTP/1.0 200 OK\r\nX-Large: %s\r\n\r\n", strings.Repeat("x", size))))
		assert.NoError(t, err)
		assert.Equal(t, want, status, "%d B", size)
	}
}

func TestAnAnswerThatIsCutIsNotWhole(t *testing.T) {
	_, body, err := ask(t, "buffering", get, func(conn net.Conn) {
		answering("HTTP/1.0 200 OK\r\n\r\n" + strings.Repeat("x", 5000))(conn)
		time.Sleep(2 * readTimeout)
	})
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, nginxBuffer-len("HTTP/1.0 200 OK\r\n\r\n"), len(body), "the first buffer arrives, what is in the second is dropped")
}

func TestNginxNeedsASocket(t *testing.T) {
	p, _ := Named("nginx")
	ln, err := netpath.Memory(netpath.Path{}).Listen("127.0.0.1:80")
	require.NoError(t, err)
	assert.ErrorContains(t, p.Serve(t.Context(), ln, Server{Addr: "127.0.0.1:81"}), "real sockets")
}
