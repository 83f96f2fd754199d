// Package site serves a setup on the loopback, for clients that are not ours,
// and remembers what it was asked.
package site

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"pushcost/internal/hub"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// A Site is a server of one room, the one without a name.
type Site struct {
	URL   string
	Log   *hub.Log
	Heard chan []byte // what clients sent up a WebSocket, in order

	stop  func() error
	mu    sync.Mutex
	asked []Request
}

// A Request is what the server saw of one.
type Request struct {
	Path, Method, Proto string
	From                string // the client's end of the connection
	Header              http.Header
	At                  time.Time
}

// Serve serves the setup of this name until it is closed. The options' HTTP,
// Codec and IDs are the setup's. The cutter, if not nil, stands between the
// server and its sockets.
func Serve(name string, o transport.Options, cutter *Cutter) (*Site, error) {
	s, err := setup.Parse(name)
	if err != nil {
		return nil, err
	}
	contestant, err := s.Contestant()
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := hub.NewHub(1000, "")
	site := &Site{URL: "http://" + ln.Addr().String(), Log: h.Room(""), Heard: make(chan []byte, 1000)}
	if cutter != nil {
		ln = cutter.tap(ln)
	}
	if s.TLS != "" {
		protocol := "http/1.1"
		if s.HTTP == transport.HTTP2 {
			protocol = "h2"
		}
		site.URL = "https://" + ln.Addr().String()
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{protocol}})
	}
	o.HTTP, o.Codec, o.IDs = s.HTTP, s.Codec, s.IDs == "on"
	admit := o.Admit
	o.Admit = func(r *http.Request) *transport.Refusal {
		site.mu.Lock()
		site.asked = append(site.asked, Request{r.URL.Path, r.Method, r.Proto, r.RemoteAddr, r.Header.Clone(), time.Now()})
		site.mu.Unlock()
		if r.URL.Path == "/favicon.ico" { // one not found would keep a connection of Chromium's six
			return &transport.Refusal{Status: http.StatusNoContent}
		}
		if admit == nil {
			return nil
		}
		return admit(r)
	}
	o.Message = func(_ *http.Request, data []byte) *transport.Refusal {
		site.Heard <- slices.Clone(data)
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- contestant.Serve(ctx, ln, h, o) }()
	site.stop = func() error {
		cancel()
		return <-served
	}
	return site, nil
}

// Page is the URL of a document of the site's: the answer that there is no
// such room.
func (s *Site) Page() string { return s.URL + "/nowhere/page" }

// Asked returns the requests for a path so far, in the order they came.
func (s *Site) Asked(path string) (requests []Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.asked {
		if r.Path == path {
			requests = append(requests, r)
		}
	}
	return requests
}

// Close ends the server and all its streams.
func (s *Site) Close() error { return s.stop() }

// certificate is self-signed, with ECDSA, since browsers know no Ed25519.
func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // there is randomness
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err) // the template is constant
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
