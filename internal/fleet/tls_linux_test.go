package fleet

import (
	"crypto/tls"
	"net/http/httptest"
	"testing"

	"pushcost/internal/transport"
)

// serverTLS is a TLS server's configuration with a certificate that nobody checks.
func serverTLS(t *testing.T, h transport.HTTP) *tls.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS13, NextProtos: []string{alpn(h)}}
}
