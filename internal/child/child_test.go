package child

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Main(map[string]func([]byte) (any, error){
		"greeter": func(in []byte) (any, error) {
			var name string
			err := json.Unmarshal(in, &name)
			return map[string]any{"hello": name, "env": os.Getenv("GODEBUG"), "pid": os.Getpid()}, err
		},
		"broken":  func([]byte) (any, error) { return nil, errors.New("out of order") },
		"patient": func([]byte) (any, error) { time.Sleep(time.Hour); return nil, nil },
	})
	os.Exit(m.Run())
}

func TestAChildAnswersFromAProcessOfItsOwn(t *testing.T) {
	var out struct {
		Hello, Env string
		Pid        int
	}
	t.Setenv("GODEBUG", "http2debug=0")
	require.NoError(t, Run(t.Context(), "greeter", "panicnil=1", "you", &out))
	assert.Equal(t, "you", out.Hello)
	assert.Equal(t, "http2debug=0,panicnil=1", out.Env, "the child's settings are added to those of its parent")
	assert.NotEqual(t, os.Getpid(), out.Pid)
}

func TestWhatAChildSaysOfItsFailureIsKept(t *testing.T) {
	assert.EqualError(t, Run(t.Context(), "broken", "", nil, nil), "child broken: exit status 1: out of order")
	assert.EqualError(t, Run(t.Context(), "juggler", "", nil, nil), "child juggler: exit status 1: nobody plays this role")
}

func TestAChildEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Run(ctx, "patient", "", nil, nil) }()
	cancel()
	assert.Error(t, <-done)
}
