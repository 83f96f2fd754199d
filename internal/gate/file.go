package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchunit"
)

// A file is one benchmark file: what it measured, under which policy, with which versions.
type file struct {
	path     string
	remedy   string              // what to do if it is unusable
	config   map[string][]string // every value a key had; normally one
	policies map[string]*policy  // by tidied unit: 0 ns is written as it is, 1 ns as a second
	names    []string            // benchmarks in order of appearance
	units    map[string][]string // of each benchmark, as written, in order of appearance
	samples  map[figure][]float64
	lines    map[figure]int // where each figure first appeared
	essence  []byte         // the lines a baseline consists of
}

type figure struct{ benchmark, unit string }

func updateCommand(baseline, fresh string) string {
	return fmt.Sprintf("go tool gate -update %s %s", baseline, fresh)
}

// loadBaseline loads the file that has the policy.
func loadBaseline(path, fresh string) (*file, error) {
	f, err := load(path, "restore it, or write it anew: "+updateCommand(path, fresh))
	if err == nil && len(f.policies) == 0 {
		err = f.errNoPolicy()
	}
	return f, err
}

// loadRun loads a fresh run.
func loadRun(path string) (*file, error) {
	return load(path, "run it again: go test -run '^$' -bench . . | tee "+path)
}

var (
	// What go test prints where a run did not end well. A panic cuts off the line of the benchmark it happened in.
	failedLine = regexp.MustCompile(`^\s*(--- FAIL|FAIL$|FAIL\s|exit status |signal: |testing: |\*\*\* Test killed|(Benchmark\S+\s+)?(panic|fatal error): )`)
	// The key: value lines of the benchmark format.
	configLine = regexp.MustCompile(`^\p{Ll}[^\s\p{Lu}:]*:([ \t]|$)`)
)

func load(path, remedy string) (*file, error) {
	f := &file{
		path: path, remedy: remedy,
		config: map[string][]string{}, policies: map[string]*policy{},
		units: map[string][]string{}, samples: map[figure][]float64{}, lines: map[figure]int{},
	}
	text, err := os.ReadFile(path)
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err // the path is named already
		}
		return nil, fmt.Errorf("%s: %w; %s", path, err, remedy)
	}
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for i, line := range lines {
		if failedLine.MatchString(line) {
			return nil, f.errAt(i+1, "a failed run: %q", squeeze(line))
		}
	}

	keep := map[int]bool{}
	r := benchfmt.NewReader(bytes.NewReader(text), path)
	for r.Scan() {
		_, line := r.Result().Pos()
		keep[line] = true
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, f.errAt(line, "%s: %q", rec.Msg, squeeze(lines[line-1]))
		case *benchfmt.UnitMetadata:
			err = f.addPolicy(rec, line)
		case *benchfmt.Result:
			err = f.addResult(rec, line)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.Err(); err != nil {
		long := slices.IndexFunc(lines, func(line string) bool { return len(line) >= bufio.MaxScanTokenSize })
		return nil, f.errAt(long+1, "%v", errors.Unwrap(err)) // what is in memory can only have a line too long
	}
	if len(f.names) == 0 {
		return nil, fmt.Errorf("%s: no benchmark in %d bytes; %s", path, len(text), remedy)
	}
	if n := len(lines); lines[n-1] != "" && keep[n] {
		return nil, f.errAt(n, "cut off, no line end: %q", squeeze(lines[n-1]))
	}
	for _, unit := range sortedKeys(f.policies) {
		if p := f.policies[unit]; p.contradiction() != "" {
			return nil, f.errAt(p.line, "Unit %s: %s: %q", p.unit, p.contradiction(), p)
		}
	}

	for i, line := range lines {
		if keep[i+1] || configLine.MatchString(line) && !strings.HasPrefix(line, "cpu:") {
			f.essence = append(append(f.essence, strings.TrimRight(line, " \t")...), '\n')
		}
	}
	return f, nil
}

func (f *file) addResult(res *benchfmt.Result, line int) error {
	for _, c := range res.Config {
		if v := strings.TrimSpace(string(c.Value)); c.File && !slices.Contains(f.config[c.Key], v) {
			f.config[c.Key] = append(f.config[c.Key], v)
		}
	}
	name := res.Name.String()
	if f.units[name] == nil {
		f.names = append(f.names, name)
	}
	for _, v := range res.Values {
		value, unit := v.Value, v.Unit
		if v.OrigUnit != "" {
			value, unit = v.OrigValue, v.OrigUnit
		}
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return f.errAt(line, "not a number: \"%v %s\"", value, unit)
		}
		fig := figure{name, unit}
		if f.samples[fig] == nil {
			f.units[name] = append(f.units[name], unit)
			f.lines[fig] = line
		}
		f.samples[fig] = append(f.samples[fig], value)
	}
	return nil
}

func (f *file) addPolicy(m *benchfmt.UnitMetadata, line int) error {
	p := f.policies[m.Unit]
	if p == nil {
		p = &policy{unit: m.OrigUnit, line: line}
		f.policies[m.Unit] = p
	}
	if want := p.set(m.Key, m.Value); want != "" {
		return f.errAt(line, "Unit %s: \"%s=%s\", want %s", m.OrigUnit, m.Key, m.Value, want)
	}
	return nil
}

// policy of a unit as written; a unit without a Unit line has one that judges nothing.
func (f *file) policy(unit string) *policy {
	_, tidied := benchunit.Tidy(1, unit)
	if p := f.policies[tidied]; p != nil {
		return p
	}
	return &policy{unit: unit}
}

// summary is the value that stands for all samples of a figure, as a number and as a table's cell. Exact samples must not
// vary; a cell shows their range if they do.
func (f *file) summary(fig figure, exact bool) (value float64, cell string, varies bool) {
	sample := benchmath.NewSample(f.samples[fig], &benchmath.DefaultThresholds)
	if !exact {
		s := benchmath.AssumeNothing.Summary(sample, 0.95)
		return s.Center, number(s.Center), false
	}
	s := benchmath.AssumeExact.Summary(sample, 1)
	if s.Lo != s.Hi {
		return s.Center, number(s.Lo) + ".." + number(s.Hi), true
	}
	return s.Center, number(s.Center), false
}

// fitForBaseline refuses what every later comparison would fail on.
func (f *file) fitForBaseline() error {
	if len(f.policies) == 0 {
		return f.errNoPolicy()
	}
	for _, name := range f.names {
		for _, unit := range f.units[name] {
			fig := figure{name, unit}
			if _, cell, varies := f.summary(fig, f.policy(unit).exact); varies {
				return f.errAt(f.lines[fig], "%s of %s is assume=exact but varies: %q", unit, name, cell)
			}
		}
	}
	return nil
}

func (f *file) errNoPolicy() error {
	return fmt.Errorf("%s: no Unit line, so no policy to judge by; %s", f.path, f.remedy)
}

func (f *file) errAt(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s; %s", f.path, line, fmt.Sprintf(format, args...), f.remedy)
}

// squeeze shortens a line for a message.
func squeeze(line string) string {
	line = strings.Join(strings.Fields(line), " ")
	if len(line) > 400 {
		line = line[:400] + "..."
	}
	return line
}

// replaceFile writes a file so that it is there either as it was or complete.
func replaceFile(path string, content []byte) (err error) {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".gate-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	if err = cmp.Or(err, tmp.Chmod(mode), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
