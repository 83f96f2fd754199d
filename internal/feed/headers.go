package feed

import (
	"bytes"
	"embed"
	"fmt"
	"net/http"
	"os"
	"strings"

	"golang.org/x/net/http/httpguts"
)

//go:embed testdata/*.txt
var profiles embed.FS

// Headers returns a profile of request headers: "bare", what a plain program
// sends; "chrome", what a browser's tab sends; any other name is the path of
// a file with one "Name: value" a line, # beginning a comment.
func Headers(profile string) (http.Header, error) {
	data, err := profiles.ReadFile("testdata/" + profile + ".txt")
	if err != nil {
		data, err = os.ReadFile(profile)
	}
	if err != nil {
		return nil, fmt.Errorf("feed: header profile %q is neither bare nor chrome nor a file: %w", profile, err)
	}
	h := http.Header{}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("feed: %s:%d: not a header: %.60q; write Name: value", profile, n, text)
		}
		h.Add(name, value)
	}
	if h.Get("User-Agent") == "" {
		h["User-Agent"] = []string{""} // keeps net/http from adding its own
	}
	return h, nil
}
