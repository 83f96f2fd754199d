package figures

import (
	"os"
	"path/filepath"
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
