package feed

import (
	"bytes"
	"embed"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"

	"golang.org/x/net/http/httpguts"
)

//go:embed testdata/*.txt
var profiles embed.FS

// Own is the profile of the user's own headers: those in the file that
// [HeadersVariable] names, with one "Name: value" a line, # beginning a comment.
const (
	Own             = "own"
	HeadersVariable = "PUSHCOST_HEADERS"
)

// own are the headers that a transport sets itself.
var own = regexp.MustCompile(`(?i)^(host|content-length|content-type|transfer-encoding|trailer|te|upgrade|last-event-id|sec-websocket-.*)$`)

// Headers returns a profile of request headers: "bare", what a plain program
// sends; "chrome", what a browser's tab sends; or [Own].
func Headers(profile string) (http.Header, error) {
	path := "testdata/" + profile + ".txt"
	read := profiles.ReadFile
	if profile == Own {
		path = os.Getenv(HeadersVariable)
		read = os.ReadFile
	}
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("feed: header profile %q is not to be had: %w; there are bare, chrome and, with a file in %s, own", profile, err, HeadersVariable)
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
			return nil, fmt.Errorf("feed: %s:%d: not a header: %.60q; write Name: value", path, n, text)
		}
		if own.MatchString(name) {
			return nil, fmt.Errorf("feed: %s:%d: %s is the transport's own to send; leave it out", path, n, name)
		}
		h.Add(name, value)
	}
	if h.Get("User-Agent") == "" {
		h["User-Agent"] = []string{""} // keeps net/http from adding its own
	}
	return h, nil
}
