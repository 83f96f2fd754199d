package figures

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(t *testing.T, content string) (Figures, error) {
	path := filepath.Join(t.TempDir(), "bench.txt")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
	return Read(path)
}

func TestReadKeepsNamesAndUnitsAsWritten(t *testing.T) {
	f, err := read(t, "goos: linux\nUnit wire-B gate=1%\nBenchmarkA/k=v 1 12 wire-B 25000000 p50-ns\nBenchmarkB 1 0.5 x\nPASS\n")
	require.NoError(t, err)
	assert.Equal(t, 12.0, f["A/k=v"]["wire-B"])
	assert.Equal(t, 25e6, f["A/k=v"]["p50-ns"])
	assert.Equal(t, 0.5, f["B"]["x"])
}

func TestReadRefusesWhatIsNoBenchmark(t *testing.T) {
	_, err := read(t, "BenchmarkA 1 twelve wire-B\n")
	assert.ErrorContains(t, err, "bench.txt:1:")
	_, err = read(t, "PASS\n")
	assert.ErrorContains(t, err, "holds no benchmark")
	_, err = Read("no/such/file")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestFillCorrectsQuotedFiguresAndNothingElse(t *testing.T) {
	f := Figures{"A": {"B": 1234567, "C": -1000, "D": 14.25, "E": 999}}
	got, err := f.Fill("| 7 | 1<!--A B--> and <!--A C-->, 3.1<!--A D--> <!-- a remark --> 9,9<!--A E-->.")
	require.NoError(t, err)
	assert.Equal(t, "| 7 | 1,234,567<!--A B--> and -1,000<!--A C-->, 14.25<!--A D--> <!-- a remark --> 999<!--A E-->.", got)
	_, err = f.Fill("1<!--A X--> 2<!--Z B-->")
	assert.EqualError(t, err, "no such figure: A X, Z B")
}

func TestCapacityCountsTheKernelsShareOfOneEnd(t *testing.T) {
	f := Figures{
		"Idle/transport=ws/lib=a/http=1.1/state=idle":        {"RSS-B/conn": 1000.4, "kernel-B/conn": 8000},
		"Idle/transport=ws/lib=a/http=1.1/state=used":        {"RSS-B/conn": 2000.4},
		"Idle/transport=sse/lib=b/http=2/tls=1.3/state=idle": {"RSS-B/conn": 3000, "kernel-B/conn": 99_000},
		"Idle/transport=sse/lib=b/http=2/tls=1.3/state=used": {"RSS-B/conn": 4000},
		"Idle/transport=poll/lib=c/http=1.1/state=idle":      {"RSS-B/conn": 5000, "kernel-B/conn": 7000},
		"Idle/transport=poll/lib=c/http=1.1/state=used":      {"RSS-B/conn": 6000},
	}
	assert.Equal(t, strings.TrimPrefix(`
  transport  server  HTTP  TLS  idle B  used B  kernel B  per GiB
         ws       a   1.1    -   1,000   2,000     4,000  178,956
        sse       b     2  1.3   3,000   4,000     4,000  134,217
       poll       c   1.1    -   5,000   6,000     4,000  107,374
`, "\n"), Capacity([]string{
		"Idle/transport=ws/lib=a/http=1.1/state=", "Idle/transport=sse/lib=b/http=2/tls=1.3/state=", "Idle/transport=poll/lib=c/http=1.1/state=",
	}, f))
}
