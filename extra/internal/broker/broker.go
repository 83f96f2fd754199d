// Package broker is the NATS server between server instances, and each
// instance's way to it.
package broker

import (
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience is how long a broker in this process may take to start.
const patience = 30 * time.Second

// A Broker is a NATS server with JetStream in this process, which can be
// restarted. What it stores it keeps in files.
type Broker struct {
	dir    string
	server atomic.Pointer[server.Server] // the one that runs, or ran last
}

// New returns a broker that is yet to be started and stores below dir.
func New(dir string) *Broker { return &Broker{dir: dir} }

// Start starts the broker, with what it has stored.
func (b *Broker) Start() error {
	s, err := server.NewServer(&server.Options{
		Host:      "127.0.0.1",
		Port:      server.RANDOM_PORT,
		JetStream: true,
		StoreDir:  b.dir,
		NoLog:     true,
		NoSigs:    true,
	})
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	s.Start()
	b.server.Store(s)
	if !s.ReadyForConnections(patience) {
		b.Stop()
		return errors.New("broker: it does not start")
	}
	return nil
}

// URL is where the broker answers. A restart moves it: a port that was let go
// of may be another's by then.
func (b *Broker) URL() string { return b.server.Load().ClientURL() }

// Stop stops the broker and returns once all of it has ended.
func (b *Broker) Stop() {
	s := b.server.Load()
	s.Shutdown()
	s.WaitForShutdown()
}

// Check says what is wrong with the URL of a broker elsewhere. It should be nats://host:port, with a user
// and a password where it asks for them.
func Check(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "nats" || u.Hostname() == "" || u.Port() == "" || u.Path != "" {
		return fmt.Errorf("%q is not nats://host:port", text)
	}
	return nil
}
