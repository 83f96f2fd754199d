//go:build race

package virtual

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"pushcost/internal/child"
)

// A race fails whoever has it, hence the child.
func TestMain(m *testing.M) {
	child.Main(map[string]any{"racer": child.Once(race)})
	os.Exit(m.Run())
}

func race(int) (n int, err error) {
	return n, Run(func(context.Context) error {
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { n++ })
		}
		all.Wait()
		return nil
	})
}

func TestARaceIsAnError(t *testing.T) {
	err := child.Run(t.Context(), "racer", "", 0, new(int))
	assert.ErrorContains(t, err, "child racer: "+errRace.Error())
	assert.ErrorContains(t, err, "virtual.race.func1.1()", "the child's report comes along")
}
