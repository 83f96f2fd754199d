package measure

import (
	"context"
	"errors"
	"math"

	"github.com/aclements/go-moremath/stats"

	"pushcost/internal/crowd"
	"pushcost/internal/setup"
)

// A Fit is a line through what servers of several populations hold.
type Fit struct {
	Base     float64 // bytes, without connections
	PerConn  float64 // bytes
	Residual float64 // the furthest that a population is off the line, of what it holds
}

// At is what the line says of n connections, in bytes.
func (f Fit) At(n int) float64 { return f.Base + f.PerConn*float64(n) }

// Line fits a line to the resident bytes of a server with so many idle
// connections, in ascending order.
func Line(ctx context.Context, s setup.Setup, populations ...int) (f Fit, err error) {
	g, err := gather(ctx, crowd.StartArgs{Setup: s})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	var conns, bytes []float64
	for _, n := range populations {
		if _, err := g.grow(n, 0); err != nil {
			return f, err
		}
		m, err := g.server.Memory()
		if err != nil {
			return f, err
		}
		conns, bytes = append(conns, float64(n)), append(bytes, float64(m.RSS))
	}
	x, y := stats.Mean(conns), stats.Mean(bytes)
	var xy, xx float64
	for i := range conns {
		xy += (conns[i] - x) * (bytes[i] - y)
		xx += (conns[i] - x) * (conns[i] - x)
	}
	f.PerConn = xy / xx // least squares
	f.Base = y - f.PerConn*x
	for i, n := range populations {
		f.Residual = max(f.Residual, math.Abs(f.At(n)-bytes[i])/bytes[i])
	}
	return f, nil
}
