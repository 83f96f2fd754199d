package fleet

import (
	"fmt"

	"pushcost/internal/setup"
	"pushcost/internal/transport"
)

// Opening is what every client of a setup sends first over HTTP/1.1.
func Opening(s setup.Setup) ([]byte, error) {
	if s.HTTP != transport.HTTP1 {
		return nil, fmt.Errorf("fleet: %s: a client's opening is known over HTTP/1.1 only", s)
	}
	o, err := newOpener(nil, DialArgs{Setup: s, Addr: "127.0.0.1:1"})
	if err != nil {
		return nil, fmt.Errorf("fleet: %s: %w", s, err)
	}
	return o.dialect.request(nil), nil
}
