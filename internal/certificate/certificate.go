// Package certificate is the identity of every server here.
package certificate

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"sync"
	"time"

	"pushcost/internal/transport"
)

// certificate is self-signed, with a fixed key, serial number and validity.
// It is Ed25519, whose signatures are 64 bytes: an ECDSA one varies by two,
// and with it every handshake.
var certificate = sync.OnceValues(func() (tls.Certificate, *x509.CertPool) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7),
		Subject:      pkix.Name{CommonName: "pushcost"},
		DNSNames:     []string{"localhost"},
		NotBefore:    time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), // virtual time begins in 2000
		NotAfter:     time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err) // every input is a constant
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
})

// Configs are the settings of a server and a client that speak TLS 1.3 and,
// in it, only this version of HTTP.
func Configs(version transport.HTTP) (server, client *tls.Config) {
	cert, pool := certificate()
	protocols := []string{"http/1.1"}
	if version == transport.HTTP2 {
		protocols = []string{"h2"}
	}
	server = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, NextProtos: protocols}
	client = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13, NextProtos: protocols, ServerName: "localhost"}
	return server, client
}
