// Package proxy holds what stands between clients and servers in production:
// small intermediaries with the observable behaviour of the large ones, on any
// network, and the real nginx to compare them with.
package proxy

import (
	"context"
	"net"
	"slices"
)

// A Proxy is an intermediary before one server.
type Proxy struct {
	Name    string
	HTTP    []string // the versions of HTTP that clients may speak to it
	Server  string   // the version it speaks to the server; empty: it carries what clients speak
	TLS     bool     // it carries TLS, without reading what is in it
	Connect bool     // clients ask it for a tunnel first (RFC 9110, section 9.3.6)
	Program string   // what has to be installed; it needs real sockets

	// Serve answers clients on ln until ctx ends. What is then under way ends
	// with it.
	Serve func(ctx context.Context, ln net.Listener, server Server) error
}

// A Server is how a proxy reaches its server.
type Server struct {
	Addr string
	Dial func(ctx context.Context) (net.Conn, error)
}

// All is the table of intermediaries.
var All = []Proxy{
	{Name: "idle", HTTP: []string{"1.1", "2"}, TLS: true, Serve: cutIdle(copyBytes)},
	{Name: "alb", HTTP: []string{"2"}, Serve: cutIdle(copyFrames)},
	{Name: "tunnel", HTTP: []string{"1.1", "2"}, TLS: true, Connect: true, Serve: tunnel},
	{Name: "reverse", HTTP: []string{"1.1", "2"}, Server: "1.1", Serve: serveHTTP(reverse)},
	{Name: "stripping", HTTP: []string{"1.1", "2"}, Server: "1.1", Serve: serveHTTP(stripping)},
	{Name: "buffering", HTTP: []string{"1.1"}, Server: "1.1", Serve: serveHTTP(buffering(true))},
	{Name: "buffering-off", HTTP: []string{"1.1"}, Server: "1.1", Serve: serveHTTP(buffering(false))},
	{Name: "nginx", HTTP: []string{"1.1"}, Server: "1.1", Program: "nginx", Serve: nginx("proxy_http_version 1.0;")},
	{Name: "nginx-impatient", HTTP: []string{"1.1"}, Server: "1.1", Program: "nginx", Serve: nginx("proxy_http_version 1.0; proxy_read_timeout 1s;")},
	{Name: "nginx-off", HTTP: []string{"1.1"}, Server: "1.1", Program: "nginx", Serve: nginx("proxy_http_version 1.0; proxy_buffering off;")},
	{Name: "nginx-upgrade", HTTP: []string{"1.1"}, Server: "1.1", Program: "nginx", Serve: nginx("proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection;")},
}

// Named is the proxy of this name.
func Named(name string) (p Proxy, ok bool) {
	i := slices.IndexFunc(All, func(p Proxy) bool { return p.Name == name })
	if i < 0 {
		return Proxy{}, false
	}
	return All[i], true
}
