package measure

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"pushcost/internal/hub"
	"pushcost/internal/setup"
)

// Offer opens a WebSocket that offers these extensions (RFC 6455, section
// 9.1) and returns those the server accepts.
func Offer(ctx context.Context, s setup.Setup, extensions string) (accepted string, err error) {
	r, err := assemble(ctx, s, site{hub: hub.NewHub(1, "")})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	client := r.client("")
	req, err := http.NewRequestWithContext(ctx, "GET", client.URL+"/ws", nil)
	if err != nil {
		return "", err
	}
	req.Header = http.Header{
		"Connection":               {"Upgrade"},
		"Upgrade":                  {"websocket"},
		"Sec-Websocket-Version":    {"13"},
		"Sec-Websocket-Key":        {"dGhlIHNhbXBsZSBub25jZQ=="}, // RFC 6455's example
		"Sec-Websocket-Extensions": {extensions},
	}
	resp, err := client.HTTP.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return "", fmt.Errorf("%s: no upgrade: %s", s, resp.Status)
	}
	return resp.Header.Get("Sec-Websocket-Extensions"), nil
}
