package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the command, as a user starts it.
func TestMain(m *testing.M) {
	if os.Getenv("GATE_TEST_COMMAND") != "" {
		main()
	}
	os.Exit(m.Run())
}

const (
	baselineFile = "testdata/baseline.txt"
	sameFile     = "testdata/run/same.txt" // what the baseline was made from
)

// A fixture is a pair of files and, beside the one that is the point of it, the expected outcome: the exit status and
// what is printed, with status 2 on standard error.
type fixture struct {
	name, baseline, run string
	status              int
	out                 string
}

func fixtures(t *testing.T) (all []fixture) {
	for _, dir := range []string{"run", "baseline"} {
		files, err := filepath.Glob("testdata/" + dir + "/*.txt")
		require.NoError(t, err)
		for _, path := range files {
			f := fixture{name: strings.TrimSuffix(path[len("testdata/"):], ".txt"), baseline: baselineFile, run: path}
			if dir == "baseline" {
				f.baseline, f.run = path, sameFile
			}
			want := read(t, strings.TrimSuffix(path, ".txt")+".out")
			first, rest, _ := strings.Cut(want, "\n")
			_, err := fmt.Sscanf(first, "exit status %d", &f.status)
			require.NoError(t, err, path)
			f.out = rest
			all = append(all, f)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// gate runs the command; everything it prints must be on the stream that belongs to its status.
func gate(t *testing.T, args ...string) (status int, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(args, &stdout, &stderr)
	if status == 2 {
		assert.Empty(t, stdout.String(), "status 2 prints nothing on standard output")
		assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), "status 2 prints one line: %q", stderr.String())
		return status, stderr.String()
	}
	assert.Empty(t, stderr.String(), "a verdict prints nothing on standard error")
	return status, stdout.String()
}

func TestGateFailsOnWhatItMustAndOnNothingElse(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			status, out := gate(t, f.baseline, f.run)
			assert.Equal(t, f.status, status, "exit status")
			assert.Equal(t, f.out, out)
			if status == 1 {
				assert.True(t, strings.HasSuffix(out, "\nTo accept: go tool gate -update "+f.baseline+" "+f.run+"\n"), "the last line is the remedy")
			}
		})
	}
}

// Every run is either refused, with the baseline untouched, or becomes a baseline it passes against.
func TestUpdateAcceptsARunThatPassesAfterwardsOrLeavesTheBaselineAlone(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			baseline := filepath.Join(t.TempDir(), "baseline.txt")
			before := read(t, f.baseline)
			write(t, baseline, before)
			status, out := gate(t, "-update", baseline, f.run)
			left, err := os.ReadDir(filepath.Dir(baseline))
			require.NoError(t, err)
			assert.Len(t, left, 1, "no temporary file is left")

			badRun := f.status == 2 && strings.HasPrefix(f.name, "run/")
			switch {
			case badRun:
				assert.Equal(t, 2, status, "exit status")
				assert.Equal(t, f.out, out, "the same complaint as without -update")
				assert.Equal(t, before, read(t, baseline), "the baseline is as it was")
				return
			case f.name == "run/samples-of-exact-vary": // status 1 without -update, but no update would ever cure it
				assert.Equal(t, 2, status, "exit status")
				assert.Equal(t, f.run+":21: steady-down-B of Bytes/transport=ws/http=1.1/headers=chrome is assume=exact but varies: \"118900..118901\"; run it again: go test -run '^$' -bench . . | tee "+f.run+"\n", out)
				assert.Equal(t, before, read(t, baseline), "the baseline is as it was")
				return
			}

			require.Equal(t, 0, status, out)
			if f.status == 1 {
				table, _, _ := strings.Cut(f.out, "\nTo accept")
				assert.True(t, strings.HasPrefix(out, table), "the table of what changed, want\n%s\ngot\n%s", table, out)
			}
			now := read(t, baseline)
			for _, noise := range []string{"cpu:", "PASS", "ok  ", " \n", "\r"} {
				assert.NotContains(t, now, noise)
			}
			if f.run == sameFile {
				assert.Equal(t, read(t, baselineFile), now, "config, Unit and Benchmark lines stay as they are")
			}
			status, out = gate(t, baseline, f.run)
			assert.Equal(t, 0, status, out)
			assert.Regexp(t, `^ok: \d+ figures of \d+ benchmarks as in the baseline( \(reported, not judged: \d+\))?\n$`, out)
		})
	}
}

func TestUpdateSaysWhatItDid(t *testing.T) {
	same, err := filepath.Abs(sameFile)
	require.NoError(t, err)
	other, err := filepath.Abs("testdata/run/other-go-and-a-byte.txt")
	require.NoError(t, err)
	noUnits := strings.Join(slices.DeleteFunc(strings.SplitAfter(read(t, sameFile), "\n"), func(l string) bool { return strings.HasPrefix(l, "Unit") }), "")
	t.Chdir(t.TempDir())
	write(t, "new.txt", read(t, same))

	step := func(says, newFile string, wantStatus int, want string) {
		t.Helper()
		status, out := gate(t, "-update", "base.txt", newFile)
		assert.Equal(t, wantStatus, status, says)
		assert.Equal(t, want, out, says)
	}
	write(t, "bare.txt", noUnits)
	step("a run without a policy is no baseline", "bare.txt", 2,
		"bare.txt: no Unit line, so no policy to judge by; run it again: go test -run '^$' -bench . . | tee bare.txt\n")
	assert.NoFileExists(t, "base.txt")
	step("a first baseline", "new.txt", 0,
		"base.txt now has the 27 figures of 8 benchmarks in new.txt; there was no baseline before\n")
	step("nothing new", "new.txt", 0,
		"base.txt now has the 27 figures of 8 benchmarks in new.txt; nothing that is judged changed\n")
	write(t, "other.txt", read(t, other))
	step("a change", "other.txt", 0, `go: go1.26.8 -> go1.27.0
not compared, since go, goos or goarch differs: RSS-B/conn, heap-B/conn

benchmark                                    unit        baseline    new       change  why
Bytes/transport=sse/http=1.1/headers=chrome  overhead-B     14000  14001  +1 (+0.01%)  exact

base.txt now has the 27 figures of 8 benchmarks in other.txt
`)
	write(t, "base.txt", "FAIL\n")
	step("a broken baseline", "new.txt", 0,
		"base.txt now has the 27 figures of 8 benchmarks in new.txt; the baseline before was unusable\n")

	require.NoError(t, os.Chmod("base.txt", 0o600))
	step("again", "base.txt", 0, "base.txt now has the 27 figures of 8 benchmarks in base.txt; nothing that is judged changed\n")
	info, err := os.Stat("base.txt")
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode(), "the mode stays")
}

func TestUpdateThatCannotWriteSaysSo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	for _, baseline := range []string{filepath.Join(dir, "sub"), filepath.Join(dir, "no", "baseline.txt")} {
		status, out := gate(t, "-update", baseline, sameFile)
		assert.Equal(t, 2, status)
		assert.True(t, strings.HasPrefix(out, baseline+": cannot be written: "), out)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "no temporary file is left")
}

func TestFilesAndArgumentsThatAreNoneAreNamed(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, "long.txt")
	write(t, long, read(t, sameFile)+"BenchmarkLong "+strings.Repeat("1 ", 1<<16)+"\n")
	noise := filepath.Join(dir, "noise.txt")
	write(t, noise, "BenchmarkNoise \t "+strings.Repeat("x", 1000)+"\n")
	const rerun = "; run it again: go test -run '^$' -bench . . | tee "
	for _, c := range []struct {
		want string
		args []string
	}{
		{"gate: got 0 arguments, want 2 files; " + usage, nil},
		{"gate: got 1 arguments, want 2 files; " + usage, []string{baselineFile}},
		{"gate: got 3 arguments, want 2 files; " + usage, []string{baselineFile, sameFile, "-update"}},
		{"gate: got 1 arguments, want 2 files; " + usage, []string{"-update", sameFile}},
		{"gate: flag provided but not defined: -force; " + usage, []string{"-force", baselineFile, sameFile}},
		{"none.txt: no such file or directory; restore it, or write it anew: go tool gate -update none.txt " + sameFile, []string{"none.txt", sameFile}},
		{"none.txt: no such file or directory" + rerun + "none.txt", []string{baselineFile, "none.txt"}},
		{"none.txt: no such file or directory" + rerun + "none.txt", []string{"-update", baselineFile, "none.txt"}},
		{dir + ": is a directory" + rerun + dir, []string{baselineFile, dir}},
		{long + ":31: bufio.Scanner: token too long" + rerun + long, []string{baselineFile, long}},
		{noise + ":1: parsing iteration count: invalid syntax: \"BenchmarkNoise " + strings.Repeat("x", 385) + "...\"" + rerun + noise, []string{baselineFile, noise}},
	} {
		status, out := gate(t, c.args...)
		assert.Equal(t, 2, status, c.args)
		assert.Equal(t, c.want+"\n", out)
	}
	status, out := gate(t, "-h")
	assert.Equal(t, 0, status)
	assert.Equal(t, usage+"\n", out)
}

func TestLineEndsOfWindowsAreLineEnds(t *testing.T) {
	dir := t.TempDir()
	crlf, updated := filepath.Join(dir, "crlf.txt"), filepath.Join(dir, "baseline.txt")
	write(t, crlf, strings.ReplaceAll(read(t, sameFile), "\n", "\r\n"))
	status, out := gate(t, baselineFile, crlf)
	assert.Equal(t, 0, status, out)
	status, out = gate(t, "-update", updated, crlf)
	assert.Equal(t, 0, status, out)
	assert.Equal(t, read(t, baselineFile), read(t, updated))
}

func TestTheCommandExitsWithTheStatus(t *testing.T) {
	for _, f := range []struct {
		run    string
		status int
	}{
		{"same", 0}, {"sse-event-one-byte-longer", 1}, {"failed-cell", 2},
	} {
		cmd := exec.Command(os.Args[0], baselineFile, "testdata/run/"+f.run+".txt")
		cmd.Env = append(os.Environ(), "GATE_TEST_COMMAND=1")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run() // the status is what is looked at
		assert.Equal(t, f.status, cmd.ProcessState.ExitCode(), f.run)
		assert.Equal(t, f.status == 2, stdout.Len() == 0, f.run)
		assert.Equal(t, f.status != 2, stderr.Len() == 0, f.run)
	}
}

func TestPolicyAtItsLimits(t *testing.T) {
	for _, c := range []struct {
		policy   string
		old, new float64
		want     string
	}{
		{"better=lower", 1, 1e9, ""},
		{"", 1, 1e9, ""},
		{"assume=nothing better=lower", 0, 5, ""},
		{"assume=exact", 7, 7, ""},
		{"assume=exact", 7, 6, "exact"},
		{"assume=exact better=lower", 7, 6, "exact: an improvement is accepted by an update"},
		{"assume=exact better=higher", 7, 6, "exact"},
		{"better=lower gate=0.5%", 1000, 1005, ""},
		{"better=lower gate=0.5%", 1000, 1006, "worse by more than 0.5%"},
		{"better=lower gate=0.5%", 1000, 1, ""},
		{"better=higher gate=0.5%", 1000, 995, ""},
		{"better=higher gate=0.5%", 1000, 994, "worse by more than 0.5%"},
		{"better=higher gate=0.5%", 1000, 1e9, ""},
		{"better=lower gate=0%", 1000, 1001, "worse by more than 0%"},
		{"better=lower gate=0%", 1000, 999, ""},
		{"better=lower gate=3x", 10, 30, ""},
		{"better=lower gate=3x", 10, 31, "more than 3 times worse"},
		{"better=higher gate=3x", 30, 10, ""},
		{"better=higher gate=3x", 30, 9, "more than 3 times worse"},
		{"better=higher gate=3x", 30, 0, "more than 3 times worse"},
		{"better=lower gate=5% slack=128", 1000, 1128, ""},
		{"better=lower gate=5% slack=128", 1000, 1129, "worse by more than 5% and 128"},
		{"better=lower gate=5% slack=128", 10000, 10500, ""},
		{"better=lower gate=5% slack=128", 10000, 10501, "worse by more than 5% and 128"},
		{"better=lower gate=5% slack=128", -1000, -872, ""},
		{"better=lower gate=5%", -1000, -950, ""},
		{"better=lower gate=5%", -1000, -949, "worse by more than 5%"},
		{"better=lower gate=5%", -1000, -2000, ""},
		{"better=lower gate=5%", 0, 0, ""},
		{"better=lower gate=5%", 0, 1, "was zero, which has no percentage"},
		{"better=lower gate=3x", 0, 1, "was zero, which has no percentage"},
		{"better=lower gate=5% slack=128", 0, 1, "was zero, which has no percentage"},
		{"better=lower gate=5%", 1, 0, ""},
		{"better=lower gate=5%", 1, math.MaxFloat64, "worse by more than 5%"},
	} {
		p := &policy{}
		for kv := range strings.FieldsSeq(c.policy) {
			key, value, _ := strings.Cut(kv, "=")
			require.Empty(t, p.set(key, value))
		}
		require.Empty(t, p.contradiction())
		assert.Equal(t, c.want, p.judge(c.old, c.new), "%s: %v -> %v", c.policy, c.old, c.new)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}
