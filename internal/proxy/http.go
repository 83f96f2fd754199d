package proxy

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// serveHTTP serves a proxy that reads HTTP.
func serveHTTP(proxy func(Server) *httputil.ReverseProxy) func(context.Context, net.Listener, Server) error {
	return func(ctx context.Context, ln net.Listener, to Server) error {
		handler := proxy(to)
		srv := &http.Server{
			Handler:     handler,
			Protocols:   new(http.Protocols),
			BaseContext: func(net.Listener) context.Context { return ctx },
			ErrorLog:    log.New(io.Discard, "", 0), // what goes wrong, the client is told
		}
		srv.Protocols.SetHTTP1(true)
		srv.Protocols.SetUnencryptedHTTP2(true)
		handler.ErrorLog = srv.ErrorLog
		defer context.AfterFunc(ctx, func() { srv.Close() })()
		err := srv.Serve(ln)
		if t, ok := handler.Transport.(*http.Transport); ok {
			t.CloseIdleConnections()
		}
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
}

// reverse is Go's own reverse proxy, as its documentation sets it up. It speaks
// HTTP/1.1 to the server.
func reverse(to Server) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: to.Addr})
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return to.Dial(ctx) },
			DisableCompression: true, // what a server is to compress is the client's to say
		},
	}
}

// stripping does not know of upgrades. Upgrade is a field for the next hop
// only, and a proxy that does not forward it is within its rights (RFC 9110,
// section 7.8).
func stripping(to Server) *httputil.ReverseProxy {
	p := reverse(to)
	rewrite := p.Rewrite
	p.Rewrite = func(r *httputil.ProxyRequest) {
		rewrite(r)
		r.Out.Header.Del("Connection")
		r.Out.Header.Del("Upgrade")
	}
	return p
}
