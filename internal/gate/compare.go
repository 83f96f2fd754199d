package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A report is the outcome of a comparison: what differs and does not fail, and what fails.
type report struct {
	notes    []string   // for people
	policies [][]string // Unit lines that differ: unit, baseline, new, why
	figures  [][]string // benchmark, unit, baseline, new, change, why

	benchmarks, judged, reported int
}

func (r *report) fails() bool { return len(r.policies)+len(r.figures) > 0 }

func compare(old, new *file) *report {
	r := &report{benchmarks: len(old.names)}
	for _, key := range sortedKeys(old.config, new.config) {
		a, b := old.configured(key), new.configured(key)
		if a != b && key != "cpu" && key != "pkg" {
			r.notes = append(r.notes, fmt.Sprintf("%s: %s -> %s", key, a, b))
		}
	}
	for _, unit := range sortedKeys(old.policies, new.policies) {
		a, b := old.policies[unit], new.policies[unit]
		switch {
		case a == nil:
			r.policies = append(r.policies, []string{b.unit, "none", b.String(), "Unit line is not in the baseline"})
		case b == nil:
			r.policies = append(r.policies, []string{a.unit, a.String(), "none", "Unit line vanished"})
		case a.String() != b.String():
			r.policies = append(r.policies, []string{a.unit, a.String(), b.String(), "Unit line differs"})
		}
	}

	skipped := map[string]int{} // memory figures by unit
	skip := func(unit string) bool { return false }
	if slices.ContainsFunc([]string{"go", "goos", "goarch"}, func(key string) bool { return old.configured(key) != new.configured(key) }) {
		skip = func(unit string) bool { return strings.HasSuffix(unit, "-B/conn") }
	}
	for _, name := range old.names {
		if new.units[name] == nil {
			r.fail(name, "", count(old.units[name]), "missing", "", "benchmark vanished")
			continue
		}
		for _, unit := range old.units[name] {
			if skip(unit) {
				skipped[unit]++
			} else {
				r.compare(figure{name, unit}, old, new)
			}
		}
		for _, unit := range new.units[name] {
			fig := figure{name, unit}
			if old.samples[fig] == nil && !skip(unit) {
				_, is, _ := new.summary(fig, old.policy(unit).exact)
				r.fail(name, unit, "missing", is, "", "not gated yet: metric is not in the baseline")
			}
		}
	}
	for _, name := range new.names {
		if old.units[name] == nil {
			r.fail(name, "", "missing", count(new.units[name]), "", "not gated yet: benchmark is not in the baseline")
		}
	}
	if len(skipped) > 0 {
		r.notes = append(r.notes, fmt.Sprintf("not compared, since go, goos or goarch differs: %s", strings.Join(sortedKeys(skipped), ", ")))
	}
	return r
}

func (r *report) compare(fig figure, old, new *file) {
	p := old.policy(fig.unit)
	if p.judges() {
		r.judged++
	} else {
		r.reported++
	}
	a, was, variedBefore := old.summary(fig, p.exact)
	if new.samples[fig] == nil {
		r.fail(fig.benchmark, fig.unit, was, "missing", "", "metric vanished")
		return
	}
	b, is, variesNow := new.summary(fig, p.exact)
	if variedBefore || variesNow {
		r.fail(fig.benchmark, fig.unit, was, is, "", "exact, but varies between repeated runs")
	} else if why := p.judge(a, b); why != "" {
		r.fail(fig.benchmark, fig.unit, was, is, change(a, b), why)
	}
}

func (r *report) fail(benchmark, unit, baseline, new, change, why string) {
	r.figures = append(r.figures, []string{benchmark, unit, baseline, new, change, why})
}

// String is what differs, in whole lines.
func (r *report) String() string {
	var parts []string
	if len(r.notes) > 0 {
		parts = append(parts, strings.Join(r.notes, "\n")+"\n")
	}
	if len(r.policies) > 0 {
		parts = append(parts, table(append([][]string{{"policy of", "baseline", "new", "why"}}, r.policies...), "<<<<"))
	}
	if len(r.figures) > 0 {
		parts = append(parts, table(append([][]string{{"benchmark", "unit", "baseline", "new", "change", "why"}}, r.figures...), "<<>>><"))
	}
	return strings.Join(parts, "\n")
}

// summary is the line of a success.
func (r *report) summary() string {
	s := fmt.Sprintf("ok: %d figures of %d benchmarks as in the baseline", r.judged, r.benchmarks)
	if r.reported > 0 {
		s += fmt.Sprintf(" (reported, not judged: %d)", r.reported)
	}
	return s
}

// table aligns columns to the left (<) or the right (>), and leaves out a first cell that repeats the one above.
func table(rows [][]string, align string) string {
	width := make([]int, len(align))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	above := ""
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i == 0 && cell == above {
				cell = ""
			}
			w := width[i]
			if align[i] == '<' {
				w = -w
			}
			fmt.Fprintf(&line, "%*s  ", w, cell)
		}
		above = row[0]
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

func (f *file) configured(key string) string {
	return cmp.Or(strings.Join(f.config[key], ", "), "none")
}

func count(units []string) string {
	if len(units) == 1 {
		return "1 figure"
	}
	return fmt.Sprintf("%d figures", len(units))
}

// number prints every digit of an integer (a byte more is what this is about) and no rounding error of a fraction.
func number(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 12, 64)
}

// change is the difference, and the percentage where there is one.
func change(old, new float64) string {
	diff := number(new - old)
	if new > old {
		diff = "+" + diff
	}
	if old == 0 {
		return diff
	}
	return fmt.Sprintf("%s (%+.2f%%)", diff, (new-old)/old*100)
}

func sortedKeys[V any](ms ...map[string]V) []string {
	all := map[string]bool{}
	for _, m := range ms {
		for k := range m {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
