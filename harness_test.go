package pushcost

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pushcost/internal/bench"
	"pushcost/internal/child"
	"pushcost/internal/feed"
	"pushcost/internal/figures"
	"pushcost/internal/measure"
	"pushcost/internal/setup"
	"pushcost/internal/virtual"
)

// TestMain plays a child's role where this process is one, prepares a
// benchmark run, and looks for goroutines left behind.
func TestMain(m *testing.M) {
	roles := map[string]any{
		"deliver": child.Once(deliveries),
		"connect": child.Once(roundTripsToConnect),
		"weather": child.Once(weather),
		"resume":  child.Once(resumption),
		"slow":    child.Once(slow),
	}
	maps.Copy(roles, measure.Roles)
	child.Main(roles)
	bench.Prepare(goMod)
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// A test binary does not know its modules' versions, so they are read here.
//
//go:embed go.mod
var goMod string

// A job is a delivery as a child process is told it.
type job struct {
	Setup setup.Setup
	Plan  measure.Plan
}

func (j job) run() (d measure.Delivery, err error) {
	err = experiment(j.Setup, func(ctx context.Context) (err error) {
		d, err = measure.Deliver(ctx, j.Setup, j.Plan)
		return err
	})
	return d, err
}

// patience is for real sockets, where an event that is lost would never come.
const patience = time.Minute

// experiment runs f on real sockets if the setup says so, and in virtual time
// otherwise.
func experiment(s setup.Setup, f func(context.Context) error) error {
	if s.Net != "loopback" {
		return virtual.Run(f)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return f(ctx)
}

func deliveries(jobs []job) (all []measure.Delivery, err error) {
	for _, j := range jobs {
		d, err := j.run()
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// apart plays a role in a process of its own, with this setting of GODEBUG.
func apart[In, Out any](tb testing.TB, role, godebug string, in In, out *Out) error {
	return child.Run(tb.Context(), role, godebug, in, out)
}

// play runs f: as a role of TestMain's, in a process of its own, where the setup
// needs one.
func play[In, Out any](tb testing.TB, role string, f func(In) (Out, error), s setup.Setup, in In) (out Out, err error) {
	tb.Helper()
	contestant, err := s.Contestant()
	require.NoError(tb, err)
	if contestant.GODEBUG == "" {
		return f(in)
	}
	err = apart(tb, role, contestant.GODEBUG, in, &out)
	return out, err
}

// deliver runs a plan over a setup: on real sockets if the setup says so and
// in virtual time otherwise; in a process of its own where one is needed.
func deliver(tb testing.TB, s setup.Setup, p measure.Plan) measure.Delivery {
	tb.Helper()
	all, err := play(tb, "deliver", deliveries, s, []job{{s, p}})
	require.NoError(tb, err, "every event arrives once, in order and unchanged")
	return all[0]
}

// trades delivers the documents' feed at the documents' pace over a setup.
func trades(tb testing.TB, name string) measure.Delivery {
	tb.Helper()
	return deliver(tb, cell(tb, name), measure.Paced(feed.Trades()))
}

func figuresOf(tb testing.TB, path string) figures.Figures {
	tb.Helper()
	f, err := figures.Read(path)
	require.NoError(tb, err)
	return f
}

// cell is the setup of this name.
func cell(tb testing.TB, name string) setup.Setup {
	tb.Helper()
	s, err := setup.Parse(name)
	require.NoError(tb, err)
	return s
}

// cells are the setups of patterns, with blanks between them.
func cells(tb testing.TB, patterns string) (all []setup.Setup) {
	tb.Helper()
	for _, pattern := range strings.Fields(patterns) {
		cells, err := setup.Cross(pattern)
		require.NoError(tb, err)
		require.NotEmpty(tb, cells)
		all = append(all, cells...)
	}
	return all
}

// run makes a subtest of every setup.
func run(t *testing.T, pattern string, f func(*testing.T, setup.Setup)) {
	t.Helper()
	for _, s := range cells(t, pattern) {
		t.Run(s.String(), func(t *testing.T) { f(t, s) })
	}
}

// report makes a benchmark of every setup.
func report(b *testing.B, pattern string, f func(*testing.B, setup.Setup) []measure.Metric) {
	b.Helper()
	for _, s := range cells(b, pattern) {
		b.Run(s.String(), func(b *testing.B) {
			reportOf(b, func() []measure.Metric { return f(b, s) })
		})
	}
}

// reportOf reports an experiment's figures. How long it takes is none of them:
// the feed sets the pace.
func reportOf(b *testing.B, experiment func() []measure.Metric) {
	var metrics []measure.Metric
	for b.Loop() {
		metrics = experiment()
	}
	for _, m := range metrics {
		b.ReportMetric(m.Value, m.Unit)
	}
	b.ReportMetric(0, "ns/op")
}
