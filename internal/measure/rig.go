// Package measure holds the experiments: what is published over which setup
// and network, and what of it is counted. It is the only place that names
// units.
package measure

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"pushcost/internal/feed"
	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// host is what clients ask for. It is the same on every network, so that a
// port's digits are not part of a measurement.
const host = "localhost:8080"

// A rig is one server and the client of a setup, with a network in between.
type rig struct {
	network netpath.Network
	log     *hub.Log
	client  *transport.Client
	open    func(after uint64) (transport.Stream, error)
	stop    func() error // closes everything and waits for the server
}

// assemble starts the server of a setup. It keeps the last keep events.
func assemble(ctx context.Context, s setup.Setup, path netpath.Path, heartbeat time.Duration, keep int) (*rig, error) {
	contestant, err := s.Contestant()
	if err != nil {
		return nil, err
	}
	header, err := feed.Headers(s.Headers)
	if err != nil {
		return nil, err
	}
	network := netpath.Memory(path)
	if s.Net == "loopback" {
		network = netpath.Loopback(path)
	}
	ln, err := network.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &rig{network: network, log: hub.NewLog(keep)}
	addr := ln.Addr().String()
	scheme, serving := "http", ln
	var clientTLS *tls.Config
	if s.TLS != "" {
		var serverTLS *tls.Config
		serverTLS, clientTLS = tlsConfigs(s.HTTP)
		scheme, serving = "https", tls.NewListener(ln, serverTLS)
	}
	r.client = &transport.Client{
		URL:    scheme + "://" + host,
		Header: header,
		Codec:  s.Codec,
		HTTP: &http.Transport{
			Protocols:          transport.Protocols(s.HTTP),
			TLSClientConfig:    clientTLS,
			DisableCompression: true, // a setup says itself what it accepts
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return r.network.Dial(ctx, network, addr)
			},
		},
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- contestant.Serve(ctx, serving, r.log, transport.Options{
			HTTP: s.HTTP, Codec: s.Codec, IDs: s.IDs == "on", Heartbeat: heartbeat,
		})
	}()
	var stream transport.Stream
	r.open = func(after uint64) (_ transport.Stream, err error) {
		stream, err = contestant.Open(ctx, r.client, after)
		return stream, err
	}
	r.stop = func() (err error) {
		if stream != nil {
			err = stream.Close()
		}
		cancel()
		r.client.HTTP.CloseIdleConnections()
		return errors.Join(err, <-served)
	}
	return r, nil
}

// subscribed waits until the server has sent what there is and waits for
// more, and then for the path to fall quiet.
func (r *rig) subscribed(ctx context.Context, quiet time.Duration) error {
	select {
	case <-r.log.Parked():
	case <-ctx.Done():
		return ctx.Err()
	}
	return sleep(ctx, quiet)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
