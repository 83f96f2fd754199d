// Package browser runs pages in a headless Chromium and says what they see.
package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a page is watched at most: what it does not see would
// otherwise be waited for without end.
const patience = time.Minute

// A Browser is a process with a profile of its own. Its tabs share connections
// as the tabs of one window do.
type Browser struct {
	ctx context.Context

	mu   sync.Mutex
	idle []context.Context // of tabs to use again: a new one costs a process
}

// Start runs the Chromium at this path. It takes every certificate and
// resolves every name to the loopback.
func Start(path string) (*Browser, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // which root and containers do not have; the pages are ours
		chromedp.DisableGPU,
		chromedp.IgnoreCertErrors,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-back-forward-cache", true), // a page that was left is gone, and its connections
		chromedp.Flag("host-resolver-rules", "MAP * 127.0.0.1"),
	)
	ctx, _ := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(options...))
	if err := chromedp.Do(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("browser: %s: %w", path, err), chromedp.Cancel(ctx))
	}
	return &Browser{ctx: ctx}, nil
}

// Close ends the process and waits for it.
func (b *Browser) Close() error { return chromedp.Cancel(b.ctx) }

// A Tab shows a page.
type Tab struct {
	ctx   context.Context // of watching the page
	next  func() (runtime.EventBindingCalled, error, bool)
	close func()
}

// A Note is what a page says that it saw: of the stream with this name that
// it opened, was sent a message, or that an error occurred.
type Note struct {
	Stream string // the name given
	Saw    string // open, message, error, close, or what a script said
	ID     string // of an EventSource's last event
	Text   string // a message's data; when a WebSocket opens, its extensions
}

// script has what the pages of this project do. A call of note becomes a Note.
const script = `
	const streams = {};
	const say = (stream, saw, id, text) => note(JSON.stringify({ stream: String(stream), saw, id, text }));
	const listen = (name, url, options) => {
		const s = streams[name] = new EventSource(url, options);
		s.onopen = () => say(name, 'open');
		s.onmessage = (m) => say(name, 'message', m.lastEventId, m.data);
		s.onerror = () => say(name, s.readyState === EventSource.CLOSED ? 'close' : 'error');
	};
	const dial = (name, url) => {
		const s = streams[name] = new WebSocket(url);
		s.onopen = () => say(name, 'open', '', s.extensions);
		s.onmessage = (m) => { say(name, 'message', '', m.data); s.send(m.data); };
		s.onclose = () => say(name, 'close');
	};
	const get = (name, url, options) => fetch(url, options).then(() => say(name, 'answer'), () => say(name, 'error'));
`

// Open opens a tab with the page at this URL, whatever its status.
//
// In the page, listen(name, url, options) opens an EventSource; dial(name, url)
// a WebSocket that sends every message back; get(name, url, options) fetches.
// All of them say what they see. streams has them by name.
func (b *Browser) Open(url string) (*Tab, error) {
	tab, err := b.tab()
	if err != nil {
		return nil, fmt.Errorf("browser: opening a tab: %w", err)
	}
	ctx, cancel := context.WithTimeout(tab, patience)
	next, stop := iter.Pull2(chromedp.Events(ctx, runtime.BindingCalled))
	t := &Tab{ctx: ctx, next: next, close: func() {
		cancel()
		stop()
		b.leave(tab)
	}}
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Close()
		return nil, fmt.Errorf("browser: opening %s: %w", url, err)
	}
	return t, nil
}

// tab returns the context of a tab that shows nothing.
func (b *Browser) tab() (context.Context, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.idle); n > 0 {
		tab := b.idle[n-1]
		b.idle = b.idle[:n-1]
		return tab, nil
	}
	tab, _ := chromedp.NewContext(b.ctx)
	if _, err := chromedp.Call(tab, runtime.AddBinding, runtime.AddBindingParams{Name: "note"}); err != nil {
		return nil, err
	}
	_, err := chromedp.Call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	return tab, err
}

// leave leaves a tab's page.
func (b *Browser) leave(tab context.Context) {
	ctx, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	if chromedp.Do(ctx, chromedp.Navigate("about:blank")) != nil {
		return // whoever opens the next will hear what is wrong
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, tab)
}

// Run runs a script in the page.
func (t *Tab) Run(script string) error {
	return chromedp.Do(t.ctx, chromedp.Evaluate[chromedp.Void](script))
}

// Next waits for what the page says next.
func (t *Tab) Next() (n Note, err error) {
	event, err, ok := t.next()
	if !ok {
		return Note{}, errors.New("browser: the tab is closed")
	}
	if err == nil {
		err = json.Unmarshal([]byte(event.Payload), &n)
	}
	return n, err
}

// Close leaves the page and with it its streams.
func (t *Tab) Close() { t.close() }
