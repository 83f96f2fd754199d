package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"path"
)

// The way up: a WebSocket sends commands on its own connection; beside SSE and
// long polling they are POSTs.

// A Refusal is a server's word that it did not do what a command asked for. A
// POST has it in its status and body; on a WebSocket it is a message.
type Refusal struct {
	Status int    `json:"status"` // as HTTP would say it
	Text   string `json:"text"`
}

func (r *Refusal) Error() string { return fmt.Sprintf("refused: %d: %s", r.Status, r.Text) }

// refusalStart marks a message that is not an event.
var refusalStart = []byte(`{"error":`)

type refusalMessage struct {
	Error *Refusal `json:"error"`
}

func (r *Refusal) encode() []byte {
	data, _ := json.Marshal(refusalMessage{r}) // a number and a string
	return data
}

func decodeRefusal(data []byte) *Refusal {
	var m refusalMessage
	if !bytes.HasPrefix(data, refusalStart) || json.Unmarshal(data, &m) != nil {
		return nil
	}
	return m.Error
}

// orCommand handles the commands that come beside a stream, and leaves the
// other requests to it.
func (o Options) orCommand(stream http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if o.Commands != nil && path.Base(r.URL.Path) == "commands" {
			o.Commands.ServeHTTP(w, r)
			return
		}
		stream(w, r)
	}
}

func (o Options) message(r *http.Request, data []byte) *Refusal {
	if o.Message == nil {
		return nil // nobody asked for any: what comes is dropped
	}
	return o.Message(r, data)
}

// poster sends commands beside a stream.
type poster struct {
	ctx    context.Context
	client *Client
}

// Send posts a command. It returns once the request is written, so that
// commands are written in the order of calls; ack waits for the answer.
func (p poster) Send(data []byte) (ack func() error, err error) {
	wrote, answered := make(chan error, 1), make(chan error, 1)
	ctx := httptrace.WithClientTrace(p.ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		select {
		case wrote <- i.Err:
		default: // a second try, on another connection
		}
	}})
	go func() { answered <- p.client.post(ctx, data) }()
	select {
	case err := <-wrote:
		return func() error { return <-answered }, err
	case err := <-answered:
		return func() error { return err }, nil
	}
}

// post sends a command and returns what the server says of it.
func (c *Client) post(ctx context.Context, data []byte) error {
	req, err := http.NewRequestWithContext(ctx, "POST", c.URL+c.path("/commands"), bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header = with(c.Header, "Content-Type", "application/json")
	c.Count()
	resp, err := c.HTTP.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return &Refusal{resp.StatusCode, string(bytes.TrimSpace(text))}
	}
	return nil
}
