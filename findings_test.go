package pushcost

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/figures"
)

// FINDINGS.md and README.md are true: findings and tests name each other, and
// quoted figures are those of the two baselines.

// A finding is a row of FINDINGS.md.
type finding struct {
	id, verdict string
	tests       []string
}

var (
	findingRow = regexp.MustCompile(`(?m)^\| ([A-Z]\d+[a-z]?) \|.*$`)
	findingID  = regexp.MustCompile(`\b[ESCVBX]\d{1,2}[a-z]?\b`)
	testName   = regexp.MustCompile("`((?:Test|Benchmark)\\w+)`")
	verdicts   = []string{"reproduced", "same shape", "differs", "new", "out of scope", "not yet"}
)

func findings(t *testing.T) map[string]finding {
	text, err := os.ReadFile("FINDINGS.md")
	require.NoError(t, err)
	all := map[string]finding{}
	for _, row := range findingRow.FindAllStringSubmatch(string(text), -1) {
		columns := strings.Split(row[0], " | ")
		require.Len(t, columns, 6, "a row has six columns: %s", row[0])
		f := finding{id: row[1]}
		f.verdict, _, _ = strings.Cut(columns[4], ":")
		for _, name := range testName.FindAllStringSubmatch(columns[5], -1) {
			f.tests = append(f.tests, name[1])
		}
		assert.NotContains(t, all, f.id, "an id has one row")
		all[f.id] = f
	}
	return all
}

// claims are the ids that the comments of tests and benchmarks name, here and
// in extra.
func claims(t *testing.T) map[string][]string {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	extra, err := filepath.Glob("extra/*_test.go")
	require.NoError(t, err)
	all := map[string][]string{}
	for _, file := range append(files, extra...) {
		if base := filepath.Base(file); base == "findings_test.go" || base == "harness_test.go" { // they find nothing themselves
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range tree.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Benchmark")) {
				all[f.Name.Name] = findingID.FindAllString(f.Doc.Text(), -1)
			}
		}
	}
	return all
}

func TestFindingsAndTestsNameEachOther(t *testing.T) {
	rows, tests := findings(t), claims(t)
	require.NotEmpty(t, rows)
	require.NotEmpty(t, tests)
	for _, f := range rows {
		assert.Contains(t, verdicts, f.verdict, "%s has a verdict", f.id)
		open := f.verdict == "not yet" || f.verdict == "out of scope"
		assert.Equal(t, open, len(f.tests) == 0, "%s is tested, or says why not", f.id)
		for _, name := range f.tests {
			assert.Contains(t, tests[name], f.id, "the comment of %s names %s", name, f.id)
		}
	}
	for name, ids := range tests {
		assert.NotEmpty(t, ids, "the comment of %s names its finding", name)
		for _, id := range ids {
			assert.Contains(t, rows[id].tests, name, "the row of %s names %s", id, name)
		}
	}
}

func TestFindingsAreInTheContents(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	listed := findingID.FindAllString(string(text), -1)
	for id := range findings(t) {
		assert.Contains(t, listed, id, "doc.go says where %s is", id)
	}
}

func TestFindingsQuoteTheBaseline(t *testing.T) {
	baseline := figuresOf(t, "testdata/baseline.txt")
	maps.Copy(baseline, figuresOf(t, "extra/testdata/baseline.txt"))
	for _, file := range []string{"FINDINGS.md", "README.md"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		want, err := baseline.Fill(string(text))
		require.NoError(t, err, file)
		want = byteTable.ReplaceAllLiteralString(want, "<!-- byte table -->\n```\n"+baselineTable(t, baseline)+"```\n")
		want = capacityTable.ReplaceAllLiteralString(want, "<!-- capacity table -->\n```\n"+capacity(t, baseline)+"```\n")
		if os.Getenv("PUSHCOST_UPDATE") != "" {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o666))
			continue
		}
		var stale []string
		lines := strings.Split(want, "\n")
		for i, line := range strings.Split(string(text), "\n") {
			if line != lines[i] {
				stale = append(stale, fmt.Sprintf("%s:%d", file, i+1))
			}
		}
		assert.Empty(t, stale, "figures are stale: PUSHCOST_UPDATE=1 go test -run Findings . writes them anew")
	}
}

// byteTable is the table in README.md.
var byteTable = regexp.MustCompile("<!-- byte table -->\n```\n[^`]*```\n")

func baselineTable(t *testing.T, baseline figures.Figures) string {
	var rows []string
	for _, s := range cells(t, "transport=ws|sse|poll/http=1.1|2/headers=bare|chrome") {
		rows = append(rows, "Bytes/"+s.String())
	}
	return figures.Table(rows, baseline, figuresOf(t, "testdata/published/events.txt"))
}

// capacityTable is the table of connections in README.md.
var capacityTable = regexp.MustCompile("<!-- capacity table -->\n```\n[^`]*```\n")

func capacity(t *testing.T, baseline figures.Figures) string {
	var rows []string
	for _, name := range contestants {
		s := cell(t, name)
		if _, conns := populations(s); s.Transport != "floor" {
			rows = append(rows, fmt.Sprintf("Idle/%s/conns=%d/state=", name, conns[0]))
		}
	}
	return figures.Capacity(rows, baseline)
}

// Every figure of the documents is in testdata/published.
func TestFindingsHaveAllPublishedFigures(t *testing.T) {
	for document, want := range map[string]int{"events": 65, "cqrs": 237, "socketio": 26, "vertx": 26} {
		got := 0
		for _, units := range figuresOf(t, "testdata/published/"+document+".txt") {
			got += len(units)
		}
		assert.Equal(t, want, got, document)
	}
}
