package measure

import (
	"math"
	"time"
)

// wall are figures taken on real sockets, where server and client share a
// process: medians of latency and CPU time for each of n things done.
func wall(took []time.Duration, cpu time.Duration, unit string) []Metric {
	sample := nanoseconds(took)
	return []Metric{
		{"wall-p50-ns", math.Round(sample.Quantile(0.50))},
		{"wall-p99-ns", math.Round(sample.Quantile(0.99))},
		{unit, math.Round(float64(cpu) / float64(len(took)))},
	}
}
