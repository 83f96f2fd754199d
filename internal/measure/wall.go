package measure

import (
	"math"
	"os"
	"time"

	"github.com/shirou/gopsutil/v4/process"
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

// processCPU is the CPU time that this process has taken so far, with the
// resolution of the kernel's clock tick (10 ms on Linux). Zero where the
// system does not tell.
func processCPU() time.Duration {
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return 0
	}
	t, err := p.Times()
	if err != nil {
		return 0
	}
	return time.Duration((t.User + t.System) * float64(time.Second))
}
