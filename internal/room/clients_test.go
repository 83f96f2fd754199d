package room

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
	"github.com/lxzan/gws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/board"
	"pushcost/internal/codec"
)

// A step is what one subscriber is sent and what it has to decode.
type step struct{ wire, want []byte }

// life is a subscriber that joins late, misses events and gets private ones
// and heartbeats.
func life(t *testing.T, coding codec.Name) []step {
	enc := encoder(t, coding)
	var sub *Subscriber
	var steps []step
	send := func(wire, want []byte) { steps = append(steps, step{wire, want}) }
	for i, event := range slices.Concat(patches(board.Utility, board.Row, 60), patches(board.Semantic, board.Whole, 4), trades(100), patches(board.Utility, board.Whole, 4)) {
		chunk := enc.Encode(event)
		switch {
		case i < 7:
		case i == 7:
			var wire []byte
			sub, wire = enc.Join()
			send(wire, event)
		case i%23 == 0: // missed
		default:
			send(sub.Next(chunk), event)
		}
		if i > 7 && i%19 == 0 {
			secret := []byte(": for you\n\n")
			send(sub.Private(secret), secret)
		}
		if i > 7 && i%5 == 0 {
			send(enc.Beat(), nil)
		}
	}
	return steps
}

func TestNodeDecodesEveryEvent(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node, for the decoders in C that browsers also have: apt-get install nodejs")
	}
	// One line of hex in, one line of what it decodes to out; the decoder is not
	// given more before it has answered.
	const script = `
		const zlib = require('zlib'), decoder = process.argv[1] === 'br' ? zlib.createBrotliDecompress() : zlib.createGunzip();
		const answers = [];
		decoder.on('data', (text) => answers.push(text));
		decoder.on('error', (err) => { console.log('"' + err + '"'); process.exit(1); });
		require('readline').createInterface({ input: process.stdin, crlfDelay: Infinity }).on('line', (line) => {
			decoder.write(Buffer.from(line, 'hex'), () => setImmediate(() => console.log(JSON.stringify(Buffer.concat(answers.splice(0)).toString('hex')))));
		});`
	for _, coding := range []codec.Name{codec.Brotli, codec.Gzip} {
		t.Run("coding="+string(coding), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, "-e", script, string(coding))
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			defer cmd.Wait()
			defer in.Close()
			answers := json.NewDecoder(out)
			for i, s := range life(t, coding) {
				_, err := fmt.Fprintf(in, "%x\n", s.wire)
				require.NoError(t, err)
				var got string
				require.NoError(t, answers.Decode(&got), "step %d", i)
				require.Equal(t, hex.EncodeToString(s.want), got, "step %d", i)
			}
		})
	}
}

func TestTheZstdCommandDecodesFramesInARow(t *testing.T) {
	zstd, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("needs zstd, the decoder that browsers have: apt-get install zstd")
	}
	var wire, want bytes.Buffer
	for _, s := range life(t, codec.Zstd) {
		wire.Write(s.wire)
		want.Write(s.want)
	}
	cmd := exec.Command(zstd, "-dc")
	cmd.Stdin = &wire
	got, err := cmd.Output()
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want.Bytes(), got), "%d bytes decode to %d", want.Len(), len(got))
}

// Stock WebSocket clients read what all connections of a room share. The
// server is gws, which negotiates; the frames are written beside it.
func TestStockWebSocketClientsDecodeSharedFrames(t *testing.T) {
	for _, coding := range []codec.Name{codec.Deflate, codec.DeflateNoTakeover} {
		steps := life(t, coding)
		upgrader := gws.NewUpgrader(&gws.BuiltinEventHandler{}, &gws.ServerOption{PermessageDeflate: gwsDeflate(coding)})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := upgrader.Upgrade(w, r)
			if err != nil {
				return
			}
			for _, s := range steps {
				c.NetConn().Write(s.wire)
			}
			c.ReadLoop() // until the client is done
		}))
		t.Cleanup(server.Close)
		url := "ws" + strings.TrimPrefix(server.URL, "http")
		for lib, dial := range map[string]func(*testing.T, string, codec.Name) (next func() ([]byte, error)){"coder": dialCoder, "gws": dialGWS, "gorilla": dialGorilla} {
			if lib == "gorilla" && coding == codec.Deflate {
				continue // it always asks for server_no_context_takeover
			}
			t.Run("coding="+string(coding)+"/lib="+lib, func(t *testing.T) {
				next := dial(t, url, coding)
				for i, s := range steps {
					if s.want == nil {
						continue // the library answers a ping
					}
					got, err := next()
					require.NoError(t, err, "message %d", i)
					require.NoError(t, compare(got, s.want), "message %d", i)
				}
			})
		}
	}
}

// gwsDeflate asks for windows of 2^15 bytes, where the library's default is 2^12.
func gwsDeflate(coding codec.Name) gws.PermessageDeflate {
	takeover := coding == codec.Deflate
	return gws.PermessageDeflate{
		Enabled:               true,
		ServerContextTakeover: takeover,
		ClientContextTakeover: takeover,
		ServerMaxWindowBits:   15,
		ClientMaxWindowBits:   15,
	}
}

func agreed(t *testing.T, resp *http.Response, coding codec.Name) {
	extension := resp.Header.Get("Sec-WebSocket-Extensions")
	assert.Contains(t, extension, "permessage-deflate")
	assert.Equal(t, coding == codec.DeflateNoTakeover, strings.Contains(extension, "server_no_context_takeover"), "the server's takeover: %s", extension)
}

func dialCoder(t *testing.T, url string, coding codec.Name) func() ([]byte, error) {
	mode := websocket.CompressionContextTakeover
	if coding == codec.DeflateNoTakeover {
		mode = websocket.CompressionNoContextTakeover
	}
	c, resp, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{CompressionMode: mode})
	require.NoError(t, err)
	t.Cleanup(func() { c.CloseNow() })
	agreed(t, resp, coding)
	c.SetReadLimit(-1)
	return func() ([]byte, error) {
		_, message, err := c.Read(t.Context())
		return message, err
	}
}

func dialGorilla(t *testing.T, url string, coding codec.Name) func() ([]byte, error) {
	c, resp, err := (&gorilla.Dialer{EnableCompression: true}).DialContext(t.Context(), url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	agreed(t, resp, coding)
	return func() ([]byte, error) {
		_, message, err := c.ReadMessage()
		return message, err
	}
}

type gwsMessages struct {
	gws.BuiltinEventHandler
	messages chan []byte
	failed   chan error
}

func (g *gwsMessages) OnMessage(_ *gws.Conn, m *gws.Message) {
	defer m.Close()
	g.messages <- slices.Clone(m.Bytes())
}

func (g *gwsMessages) OnClose(_ *gws.Conn, err error) { g.failed <- err }

func dialGWS(t *testing.T, url string, coding codec.Name) func() ([]byte, error) {
	g := &gwsMessages{messages: make(chan []byte), failed: make(chan error, 1)}
	c, resp, err := gws.NewClient(g, &gws.ClientOption{Addr: url, PermessageDeflate: gwsDeflate(coding)})
	require.NoError(t, err)
	t.Cleanup(func() { c.NetConn().Close() })
	agreed(t, resp, coding)
	go c.ReadLoop()
	return func() ([]byte, error) {
		select {
		case message := <-g.messages:
			return message, nil
		case err := <-g.failed:
			return nil, err
		}
	}
}
