package extra

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushcost/extra/internal/browser"
	"pushcost/extra/internal/site"
	"pushcost/internal/transport"
)

var closeChromium = func() error { return nil }

// chromium is one for all tests.
var chromium = sync.OnceValues(func() (*browser.Browser, error) {
	for _, name := range []string{"chromium", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		b, err := browser.Start(path)
		if err == nil {
			closeChromium = b.Close
		}
		return b, err
	}
	return nil, exec.ErrNotFound
})

// A page is one in Chromium.
type page struct {
	*testing.T
	tab *browser.Tab
}

// open opens a page in a new tab, or skips the test where there is no browser.
func open(t *testing.T, url string) page {
	t.Helper()
	b, err := chromium()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("needs a Chromium: apt-get install chromium")
	}
	require.NoError(t, err)
	tab, err := b.Open(url)
	require.NoError(t, err)
	t.Cleanup(tab.Close)
	return page{t, tab}
}

// run runs a script, a format, in the page.
func (p page) run(script string, args ...any) {
	p.Helper()
	require.NoError(p, p.tab.Run(fmt.Sprintf(script, args...)))
}

// next waits for what the page sees next.
func (p page) next() browser.Note {
	p.Helper()
	n, err := p.tab.Next()
	require.NoError(p, err, "the page sees nothing more")
	return n
}

// nextBut waits for what the page sees next that is none of these.
func (p page) nextBut(saw ...string) (n browser.Note) {
	p.Helper()
	for n = p.next(); slices.Contains(saw, n.Saw); n = p.next() {
	}
	return n
}

// sees waits for what the page sees next and expects it to be this.
func (p page) sees(stream, saw string) browser.Note {
	p.Helper()
	n := p.next()
	require.Equal(p, []string{stream, saw}, []string{n.Stream, n.Saw}, "%+v", n)
	return n
}

// serve serves a setup until the test ends.
func serve(t *testing.T, name string, o transport.Options, cutter *site.Cutter) *site.Site {
	t.Helper()
	s, err := site.Serve(name, o, cutter)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// A remoteSite is a site in a child process.
type remoteSite struct{ *site.Site }

func (r *remoteSite) Serve(name string, page *string) (err error) {
	if r.Site, err = site.Serve(name, transport.Options{}, nil); err != nil {
		return err
	}
	*page = r.Page()
	return nil
}

func (r *remoteSite) Publish(data []byte, id *uint64) error {
	*id = r.Log.Publish(data).ID
	return nil
}

func (r *remoteSite) Asked(path string, requests *[]site.Request) error {
	*requests = r.Site.Asked(path)
	return nil
}

// Hear waits for the next message that came up.
func (r *remoteSite) Hear(_ int, data *[]byte) error {
	*data = <-r.Heard
	return nil
}

// in is a time to reconnect in, the same for everybody; 0: none is told.
func in(d time.Duration) func() time.Duration {
	if d == 0 {
		return nil
	}
	return func() time.Duration { return d }
}
