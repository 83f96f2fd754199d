package broker

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheck(t *testing.T) {
	for _, good := range []string{"nats://127.0.0.1:4222", "nats://user:secret@broker.example:4222", "nats://[::1]:4222"} {
		assert.NoError(t, Check(good))
	}
	for _, bad := range []string{"", "localhost", "localhost:4222", "nats://", "nats://localhost", "nats://:4222", "nats://localhost:", "http://localhost:4222", "nats://localhost:4222/events", "nats://localhost:port", "nats://\x00"} {
		assert.ErrorContains(t, Check(bad), "is not nats://host:port")
	}
}
