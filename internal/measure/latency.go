package measure

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/aclements/go-moremath/stats"

	"pushcost/internal/hub"
	"pushcost/internal/netpath"
	"pushcost/internal/setup"
)

// Latencies are the figures of a delivery's latency, and how many requests it
// took.
func (d Delivery) Latencies() []Metric {
	return append(quantiles(d.Latency), Metric{"requests", float64(d.Requests)})
}

// Wall are the figures of a delivery over real sockets: the software's share.
func (d Delivery) Wall() []Metric { return wall(d.Latency, d.CPU, "cpu-ns/event") }

// quantiles describe durations, in nanoseconds.
func quantiles(all []time.Duration) []Metric {
	sample := nanoseconds(all)
	return []Metric{
		{"mean-ns", math.Round(sample.Mean())},
		{"p50-ns", math.Round(sample.Quantile(0.50))},
		{"p95-ns", math.Round(sample.Quantile(0.95))},
		{"p99-ns", math.Round(sample.Quantile(0.99))},
	}
}

func nanoseconds(all []time.Duration) *stats.Sample {
	sample := &stats.Sample{}
	for _, d := range all {
		sample.Xs = append(sample.Xs, float64(d))
	}
	return sample.Sort()
}

// Connect returns how many round trips of the path it takes from dialing to an
// event that was published before: the connection, TLS, and the request or
// upgrade with its answer.
func Connect(ctx context.Context, s setup.Setup, path netpath.Path) (roundTrips float64, err error) {
	r, err := assemble(ctx, s, site{path: path, hub: hub.NewHub(1, "")})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	event := r.hub.Room("").Publish([]byte(`"here"`))
	begin := time.Now()
	stream, err := r.open(r.client(""), 0)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	if err := arrives(stream, event.ID, event.Data); err != nil {
		return 0, err
	}
	return float64(time.Since(begin)) / float64(path.RTT()), nil
}
