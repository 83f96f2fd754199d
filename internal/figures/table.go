package figures

import (
	"fmt"
	"math"
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
	return aligned(w, &text)
}

// Capacity is the table of connections: a row for every benchmark named, but
// for its state. The kernel's share is the same for all, a socket, and half of
// what is counted, which is both ends: its median, since it is the machine's.
func Capacity(names []string, ours Figures) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "transport\tserver\tHTTP\tTLS\tidle B\tused B\tkernel B\tper GiB\t")
	var kernels []float64
	for _, name := range names {
		kernels = append(kernels, ours[name+"idle"]["kernel-B/conn"]/2)
	}
	slices.Sort(kernels)
	kernel := math.Round(kernels[len(kernels)/2])
	for _, name := range names {
		value := map[string]string{"tls": "-"}
		for _, part := range strings.Split(name, "/") {
			key, v, _ := strings.Cut(part, "=")
			value[key] = v
		}
		idle, used := math.Round(ours[name+"idle"]["RSS-B/conn"]), math.Round(ours[name+"used"]["RSS-B/conn"])
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t", value["transport"], value["lib"], value["http"], value["tls"])
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", Thousands(idle), Thousands(used), Thousands(kernel), Thousands(math.Floor((1<<30)/(used+kernel))))
	}
	return aligned(w, &text)
}

// aligned is what was written to w, without blanks at the ends of lines.
func aligned(w *tabwriter.Writer, text *strings.Builder) string {
	w.Flush()
	lines := slices.Collect(strings.Lines(text.String()))
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \n") + "\n"
	}
	return strings.Join(lines, "")
}
