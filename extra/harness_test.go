package extra

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pushcost/extra/internal/socketio"
	"pushcost/internal/bench"
	"pushcost/internal/child"
	"pushcost/internal/crowd"
	"pushcost/internal/measure"
	"pushcost/internal/setup"
	"pushcost/internal/transport"
	"pushcost/internal/virtual"
)

// TestMain plays a child's role where this process is one, adds this module's
// contestants to the table, and closes and looks for what the tests leave behind.
func TestMain(m *testing.M) {
	transport.All = append(transport.All, socketio.Transports...)
	crowd.All = append(crowd.All, socketio.Crowds...)
	roles := maps.Clone(measure.Roles)
	roles["site"], roles["machinery"] = new(remoteSite), machinery{}
	child.Main(roles)
	bench.Prepare(goMod)
	code := m.Run()
	if err := errors.Join(closeChromium(), goleak.Find()); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// A test binary does not know its modules' versions, so they are read here.
//
//go:embed go.mod
var goMod string

// cell is the setup of this name.
func cell(tb testing.TB, name string) setup.Setup {
	tb.Helper()
	s, err := setup.Parse(name)
	require.NoError(tb, err)
	return s
}

// deliver delivers events in virtual time.
func deliver(tb testing.TB, s setup.Setup, p measure.Plan) (d measure.Delivery) {
	tb.Helper()
	require.NoError(tb, virtual.Run(func(ctx context.Context) (err error) {
		d, err = measure.Deliver(ctx, s, p)
		return err
	}), "every event arrives once, in order and unchanged")
	return d
}
