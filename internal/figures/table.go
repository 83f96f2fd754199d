package figures

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Table is the byte table: a row for every benchmark named, ours beside what
// was published under the same name.
func Table(names []string, ours, published Figures) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "transport\tHTTP\theaders\topening\tup\tdown\ttotal B\t× payload\tpublished\t")
	for _, name := range names {
		row := ours[name]
		for _, part := range strings.Split(name, "/")[1:] {
			_, value, _ := strings.Cut(part, "=")
			fmt.Fprintf(w, "%s\t", value)
		}
		up := row["steady-up-B"] + row["hpack-up-B"] // a row has one of them
		for _, v := range []float64{row["open-B"] + row["h2-open-B"], up, row["steady-down-B"], row["wire-B"]} {
			fmt.Fprintf(w, "%s\t", Thousands(v))
		}
		theirs := "-"
		if v, ok := published[name]["wire-B"]; ok {
			theirs = Thousands(v)
		}
		fmt.Fprintf(w, "%.2f\t%s\t\n", row["wire-B"]/(row["steady-down-B"]-row["overhead-B"]), theirs)
	}
	w.Flush()
	lines := slices.Collect(strings.Lines(text.String()))
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \n") + "\n"
	}
	return strings.Join(lines, "")
}
