package socketio

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zishang520/socket.io/servers/engine/v3/transports"
	"github.com/zishang520/socket.io/v3/pkg/types"

	"pushcost/internal/feed"
	"pushcost/internal/transport"
)

const officialClient = "socket.io-client@4.8.4"

// official returns a function that runs the official client, which it installs
// for this user if it is not.
func official(t *testing.T) func(args ...string) ([]string, error) {
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(cache, "pushcost", officialClient)
	npm := []string{"install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", officialClient}
	command := "npm " + strings.Join(npm, " ")
	if _, err := exec.LookPath("node"); err != nil {
		t.Skipf("there is no Node: apt-get install nodejs npm && %s", command)
	}
	if _, err := os.Stat(filepath.Join(dir, "package-lock.json")); err != nil { // npm writes it last
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		if said, err := exec.CommandContext(ctx, "npm", npm...).CombinedOutput(); err != nil {
			t.Skipf("the official client cannot be installed: %s: %v: %.200s", command, err, said)
		}
	}
	return func(args ...string) ([]string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "node", append([]string{"testdata/client.js"}, args...)...)
		cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
		said, err := cmd.Output()
		return strings.Split(strings.TrimSpace(string(said)), "\n"), err
	}
}

// both serves a hall with a hundred events over both transports, as the library
// does by default, and returns where.
func both(t *testing.T) *url.URL {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	o := transport.Options{HTTP: transport.HTTP1, Message: func(_ *http.Request, data []byte) *transport.Refusal {
		return &transport.Refusal{Status: 422, Text: string(data) + " what?"}
	}}
	kinds := types.NewSet[transports.TransportCtor](&transports.PollingBuilder{}, &transports.WebSocketBuilder{})
	go func() { served <- serve(ctx, ln, full("hall", 100)(), o, kinds) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-served)
	})
	return &url.URL{Scheme: "http", Host: ln.Addr().String()}
}

// withoutUpgrade is a proxy that forwards no Upgrade, as many do not.
func withoutUpgrade(t *testing.T, to *url.URL) string {
	forward := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Upgrade")
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// S9: what the official client gets over each transport, and through a proxy
// that lets no WebSocket pass: a hundred events of its room in order, and an
// acknowledgement. Left to itself it begins with polling and upgrades if it
// can.
func TestTheOfficialClientGetsEverything(t *testing.T) {
	client, server := official(t), both(t)
	for _, c := range []struct{ url, transport, ends string }{
		{server.String(), "websocket", "websocket"},
		{server.String(), "polling", "polling"},
		{server.String(), "", "websocket"},
		{withoutUpgrade(t, server), "", "polling"},
	} {
		said, err := client(c.url, c.transport, "hall", "100")
		require.NoError(t, err, "%s", said)
		require.Len(t, said, 102)
		for i, event := range feed.Trades()[:100] {
			assert.JSONEq(t, string(event), said[i], "event %d over %s", i+1, c.ends)
		}
		assert.JSONEq(t, `{"status":422,"text":"sell what?"}`, said[100], "the acknowledgement")
		assert.Equal(t, c.ends, said[101], "transports: %q of %s", c.transport, c.url)
	}
}

func TestTheOfficialClientIsToldWhy(t *testing.T) {
	client := official(t)
	said, err := client(both(t).String(), "websocket", "cellar", "1")
	assert.Error(t, err)
	assert.JSONEq(t, `{"status":404,"text":"there is no room \"cellar\""}`, fmt.Sprint(said[0]))
}
