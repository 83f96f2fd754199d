package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"pushcost/internal/fleet"
)

// A server that falls behind publishes late; its events were due all the same.
func TestLagCountsFromWhenAnEventWasDue(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	events := []fleet.Arrival{
		{First: at(1), P50: at(2), P99: at(3), Last: at(900)},       // the last client is not among the 99 %
		{First: at(200), P50: at(201), P99: at(203), Last: at(203)}, // due at 10 ms: the server was stuck
		{First: at(204), P50: at(205), P99: at(206), Last: at(206)},
	}
	assert.Equal(t, 193*time.Millisecond, lag(began, 10*time.Millisecond, events))
	assert.Equal(t, 204*time.Millisecond, lag(began, time.Millisecond, events))
}
