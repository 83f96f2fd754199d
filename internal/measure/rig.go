// Package measure holds the experiments: what is published over which setup
// and network, and what of it is counted. It is the only place that names
// units.
package measure

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"pushcost/internal/certificate"
	"pushcost/internal/feed"
	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/proxy"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// host is what clients ask for. It is the same on every network, so that a
// port's digits are not part of a measurement.
const host = "localhost:8080"

// A rig is the server of a setup and the network before it.
type rig struct {
	setup      setup.Setup
	contestant transport.Transport
	network    netpath.Network // the one that clients are on
	behind     netpath.Network // between the proxy and the server; nil without a proxy
	hub        *hub.Hub
	clients    []*transport.Client
	header     http.Header
	tls        *tls.Config // the clients'; nil without TLS
	addr       string
	site       site
	serverTLS  *tls.Config
	ctx        context.Context
	halt       func() error // stops the server and waits for it
	stop       func() error // closes everything, the clients too
}

// A site is what a setup is served with.
type site struct {
	path    netpath.Path
	fate    func(n int) netpath.Fate // of the n-th connection, in memory; nil: none is cut
	hub     *hub.Hub
	options transport.Options // of which a setup decides HTTP, Codec and IDs

	// tap, if not nil, stands between the server and its sockets.
	tap func(net.Listener) net.Listener
}

// assemble starts the server of a setup.
func assemble(ctx context.Context, s setup.Setup, at site) (*rig, error) {
	contestant, err := s.Contestant()
	if err != nil {
		return nil, err
	}
	header, err := feed.Headers(s.Headers)
	if err != nil {
		return nil, err
	}
	network := netpath.Fragile(at.path, at.fate)
	if s.Net == "loopback" {
		network = netpath.Loopback(at.path)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &rig{setup: s, contestant: contestant, network: network, hub: at.hub, header: header, site: at, ctx: ctx}
	o := &r.site.options
	o.HTTP, o.Codec, o.IDs = s.HTTP, s.Codec, s.IDs == "on"
	if p, ok := proxy.Named(s.Proxy); ok {
		o.HTTP = cmp.Or(transport.HTTP(p.Server), s.HTTP)
		r.behind = netpath.Memory(netpath.Path{}) // next to the server
		if s.Net == "loopback" {
			r.behind = netpath.Loopback(netpath.Path{})
		}
	}
	if s.TLS != "" {
		r.serverTLS, r.tls = certificate.Configs(s.HTTP)
	}
	r.stop = func() error {
		cancel() // which also ends every stream
		err := r.halt()
		for _, c := range r.clients {
			c.HTTP.CloseIdleConnections()
		}
		return err
	}
	if err := r.start(); err != nil {
		cancel()
		return nil, err
	}
	return r, nil
}

// start starts the server: once halted, anew at the same address. What was
// published is in the hub, which is no part of the server: it outlives it as a
// broker or a database would.
func (r *rig) start() error {
	ln, err := r.network.Listen(cmp.Or(r.addr, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	if r.addr == "" {
		r.addr = ln.Addr().String()
	}
	ctx, cancel := context.WithCancel(r.ctx)
	served := make(chan error, 2)
	servers := 1
	if p, ok := proxy.Named(r.setup.Proxy); ok {
		servers++
		front := ln
		if ln, err = r.behind.Listen("127.0.0.1:0"); err != nil {
			cancel()
			return errors.Join(err, front.Close())
		}
		to := proxy.Server{Addr: ln.Addr().String()}
		to.Dial = func(ctx context.Context) (net.Conn, error) { return r.behind.Dial(ctx, "tcp", to.Addr) }
		go func() { served <- p.Serve(ctx, front, to) }()
	}
	if r.site.tap != nil {
		ln = r.site.tap(ln)
	}
	if r.serverTLS != nil {
		ln = tls.NewListener(ln, r.serverTLS)
	}
	go func() { served <- r.contestant.Serve(ctx, ln, r.hub, r.site.options) }()
	r.halt = sync.OnceValue(func() (err error) {
		cancel()
		for range servers {
			err = errors.Join(err, <-served)
		}
		return err
	})
	return nil
}

// client returns a new client of a room.
func (r *rig) client(room string) *transport.Client {
	scheme := "http"
	if r.tls != nil {
		scheme = "https"
	}
	c := &transport.Client{
		URL:    scheme + "://" + host,
		Header: r.header,
		Codec:  r.setup.Codec,
		Room:   room,
		HTTP: &http.Transport{
			Protocols:          transport.Protocols(r.setup.HTTP),
			TLSClientConfig:    r.tls,
			DisableCompression: true, // a setup says itself what it accepts
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return r.network.Dial(ctx, network, r.addr)
			},
		},
	}
	if r.setup.HTTP == transport.HTTP1 { // a browser's six connections per origin: a stream and five for commands
		c.HTTP.MaxConnsPerHost, c.HTTP.MaxIdleConnsPerHost = 6, 6
	}
	if p, _ := proxy.Named(r.setup.Proxy); p.Connect {
		c.HTTP.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy:3128"})
	}
	r.clients = append(r.clients, c)
	return c
}

// open subscribes a client to the events after the one with the id after. The
// stream ends with the rig.
func (r *rig) open(c *transport.Client, after uint64) (transport.Stream, error) {
	return r.contestant.Open(r.ctx, c, after)
}

// countBehind is what has crossed between the proxy and the server.
func (r *rig) countBehind() netpath.Count {
	if r.behind == nil {
		return netpath.Count{}
	}
	return r.behind.Count()
}

// subscribed waits until the server has sent a room's events to a subscriber
// that waits for more, and then for the path to fall quiet.
func (r *rig) subscribed(room string) error {
	select {
	case <-r.hub.Room(room).Parked():
		return r.quiet()
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// quiet lets what is in flight land. That takes a clock that waits for it,
// which real sockets do not have: there only figures that do not depend on it
// are taken.
func (r *rig) quiet() error {
	if r.setup.Net == "loopback" {
		return nil
	}
	return netpath.Sleep(r.ctx, time.Second)
}
