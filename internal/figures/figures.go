// Package figures reads figures from files in Go's benchmark format, the
// documents' and our own, and keeps those quoted in prose true.
package figures

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// Figures are the values of a benchmark file by name, without "Benchmark",
// and unit.
type Figures map[string]map[string]float64

// Read reads a file in benchmark format. A benchmark's repetition replaces it.
func Read(path string) (Figures, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	figures := Figures{}
	r := benchfmt.NewReader(f, path)
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, rec
		case *benchfmt.Result:
			units := map[string]float64{}
			for _, v := range rec.Values {
				units[v.Unit] = v.Value
				if v.OrigUnit != "" { // benchfmt turns what it takes for nanoseconds into seconds
					units[v.OrigUnit] = v.OrigValue
				}
			}
			figures[rec.Name.String()] = units
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if len(figures) == 0 {
		return nil, fmt.Errorf("%s holds no benchmark", path)
	}
	return figures, nil
}

// quoted is a figure in Markdown with a comment that names its source:
// 119,952<!--Bytes/transport=ws/http=1.1/headers=chrome wire-B-->.
var quoted = regexp.MustCompile(`[-0-9.,]*<!--(\S+) (\S+)-->`)

// Fill returns the text with every quoted figure as it is in f.
func (f Figures) Fill(text string) (string, error) {
	var missing []string
	text = quoted.ReplaceAllStringFunc(text, func(match string) string {
		m := quoted.FindStringSubmatch(match)
		value, ok := f[m[1]][m[2]]
		if !ok {
			missing = append(missing, m[1]+" "+m[2])
		}
		return fmt.Sprintf("%s<!--%s %s-->", Thousands(value), m[1], m[2])
	})
	if missing != nil {
		return "", fmt.Errorf("no such figure: %s", strings.Join(missing, ", "))
	}
	return text, nil
}

// Thousands writes a figure with commas between its thousands.
func Thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	whole, fraction, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return whole
}
