// Package bench prepares a test binary for a run of benchmarks.
package bench

import (
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"strings"

	"pushcost/internal/measure"
)

var requirement = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`) // without the indirect ones

// Prepare parses the flags. If they ask for benchmarks it prints what
// benchstat and the gate need to know, the versions of a go.mod's modules among
// it, and makes one run of each benchmark, named alike on every machine, the
// default.
func Prepare(goMod string) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		return
	}
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if !set["test.benchtime"] {
		flag.Set("test.benchtime", "1x")
	}
	runtime.GOMAXPROCS(1) // no -N suffix; children use all cores
	fmt.Println("go:", runtime.Version())
	for _, m := range requirement.FindAllStringSubmatch(goMod, -1) {
		fmt.Printf("%s: %s\n", strings.ToLower(m[1]), m[2]) // a configuration key has no capitals
	}
	for _, u := range measure.Units {
		fmt.Println("Unit", u.Name, u.Policy)
	}
}
