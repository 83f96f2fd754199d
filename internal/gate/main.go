// Gate compares a fresh benchmark run with the committed baseline and fails on a regression.
//
//	go test -run '^$' -bench . . | tee new.txt
//	go tool gate testdata/baseline.txt new.txt           # judge the run
//	go tool gate -update testdata/baseline.txt new.txt   # accept the run as the new baseline
//
// Both files are in Go benchmark format, as `go test -bench` prints it. The policy is the Unit lines of the baseline,
// so that a change cannot loosen the policy it is judged by:
//
//	assume=exact           any change fails, an improvement too, until the baseline is updated
//	gate=5%                fails if worse by more than 5 %
//	gate=3x                fails if more than 3 times worse
//	slack=128              beside gate=: a change within 128, in the metric's own unit, passes as well
//	better=lower|higher    which way is worse; gate= needs it
//
// A unit with neither assume=exact nor gate= is reported, not judged. Repeated lines of one benchmark (-count) are
// samples: the median is compared, and an exact unit must not vary at all. Beyond the figures themselves, the gate fails
// where nothing can be judged: a benchmark or metric that vanished, one the baseline does not know yet, a gated zero
// that is zero no more, and Unit lines that differ from the baseline's.
//
// Configuration lines (go, goos, goarch, library versions) that differ are named first and do not fail; cpu and pkg are
// ignored. Memory (units ending in -B/conn) is compared only where go, goos and goarch agree.
//
// -update holds the new run to everything that would make a file unusable, then replaces the baseline atomically, and
// prints what changed. The baseline may be missing or malformed; the new run may not.
//
// Exit status: 0 as in the baseline (or updated), 1 something fails, 2 no verdict: a missing or malformed file, a failed
// run, wrong arguments. With 2, one line on standard error says where, what and how to go on.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = "usage: go tool gate [-update] BASELINE NEW"

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	update := flags.Bool("update", false, "")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stdout, usage)
		return 0
	}
	if err == nil && flags.NArg() != 2 {
		err = fmt.Errorf("got %d arguments, want 2 files", flags.NArg())
	}
	if err != nil {
		fmt.Fprintf(stderr, "gate: %v; %s\n", err, usage)
		return 2
	}

	verdict := judge
	if *update {
		verdict = accept
	}
	text, ok, err := verdict(flags.Arg(0), flags.Arg(1))
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	fmt.Fprintln(stdout, text)
	if !ok {
		return 1
	}
	return 0
}

// judge compares the new run with the baseline.
func judge(baseline, fresh string) (text string, ok bool, err error) {
	old, err := loadBaseline(baseline, fresh)
	if err != nil {
		return "", false, err
	}
	new, err := loadRun(fresh)
	if err != nil {
		return "", false, err
	}
	r := compare(old, new)
	if !r.fails() {
		return r.String() + r.summary(), true, nil
	}
	return fmt.Sprintf("%s\nTo accept: %s", r, updateCommand(baseline, fresh)), false, nil
}

// accept makes the new run the baseline and says what that changed.
func accept(baseline, fresh string) (text string, ok bool, err error) {
	new, err := loadRun(fresh)
	if err == nil {
		err = new.fitForBaseline()
	}
	if err != nil {
		return "", false, err
	}
	old, broken := loadBaseline(baseline, fresh)
	if err := replaceFile(baseline, new.essence); err != nil {
		return "", false, fmt.Errorf("%s: cannot be written: %w; it is as it was", baseline, err)
	}

	updated := fmt.Sprintf("%s now has the %d figures of %d benchmarks in %s", baseline, len(new.samples), len(new.names), fresh)
	switch {
	case errors.Is(broken, os.ErrNotExist):
		return updated + "; there was no baseline before", true, nil
	case broken != nil:
		return updated + "; the baseline before was unusable", true, nil
	}
	r := compare(old, new)
	if !r.fails() {
		return r.String() + updated + "; nothing that is judged changed", true, nil
	}
	return fmt.Sprintf("%s\n%s", r, updated), true, nil
}
