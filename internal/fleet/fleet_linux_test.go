package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryEventReachesEveryClient(t *testing.T) {
	for _, name := range []string{
		"transport=floor",
		"transport=ws/http=1.1",
		"transport=sse/http=1.1",
	} {
		t.Run(name, func(t *testing.T) {
			const n = 40
			f, srv := fleetOf(t, cell(t, name), DialArgs{N: n})
			for i, size := range []int{1, 20, 125, 126, 5000, 70000} {
				data := fmt.Sprintf("%d%s", i, strings.Repeat("x", size-1))
				require.NoError(t, f.Expect(ExpectArgs{[]byte(data), 2}, nil))
				srv.broadcast(data)
				srv.broadcast(data)
				got := await(t, f)
				require.Len(t, got.Each, 2)
				for _, e := range got.Each {
					assert.False(t, e.First.After(e.P50) || e.P50.After(e.P99) || e.P99.After(e.Last), "half come after the first, and before most")
				}
				assert.Equal(t, got.Each[0].First, got.First)
				assert.Equal(t, got.Each[1].Last, got.Last)
			}
			var c Counts
			require.NoError(t, f.Counts(0, &c))
			assert.Equal(t, int64(12*n), c.Events)
			assert.Equal(t, n, c.Open)
			assert.Zero(t, c.Closed)
			assert.Greater(t, c.Bytes, int64(2*n*75272), "they are made of bytes")
		})
	}
}
