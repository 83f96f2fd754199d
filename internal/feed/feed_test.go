package feed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTradesAreTheDocumentsFeed(t *testing.T) {
	events := Trades()
	require.Len(t, events, Size)
	for i, e := range events {
		var trade struct {
			ID   int
			TS   int64
			Type string
		}
		require.NoError(t, json.Unmarshal(e, &trade), "an event is JSON")
		assert.Equal(t, i+1, trade.ID)
		assert.Equal(t, 1_760_000_000_000+3*int64(i), trade.TS, "events are 3 ms apart")
		assert.Equal(t, "trade", trade.Type)
	}
	assert.Equal(t, 116_925, len(bytes.Join(events, nil)), "116.9 bytes an event")
	sum := sha256.Sum256(bytes.Join(events, []byte("\n")))
	assert.Equal(t, "c88353e4468aeedf41bcfc17c249fb67856941b619988504e503b6b73f28ed74", hex.EncodeToString(sum[:]), "every figure in this repository was measured with the same feed")
}

func TestTextAndBinaryHaveTheSizeAskedFor(t *testing.T) {
	for _, size := range []int{16, 117, 64 << 10} {
		for _, e := range Text(3, size) {
			assert.Len(t, e, size)
			assert.True(t, json.Valid(e), "text is a JSON string")
		}
		events := Binary(3, size)
		assert.Len(t, events[0], size)
		assert.NotEqual(t, events[0], events[1], "events differ")
		assert.Equal(t, events, Binary(3, size), "and are the same in every run")
	}
}

// ownFile puts content into a file that an environment variable names.
func ownFile(t *testing.T, variable, content string) (path string) {
	path = filepath.Join(t.TempDir(), "own.txt")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
	t.Setenv(variable, path)
	return path
}

func TestAFeedOfOnesOwn(t *testing.T) {
	t.Setenv(EventsVariable, "")
	events, err := Events()
	require.NoError(t, err)
	assert.Equal(t, Trades(), events, "without one it is the documents'")

	ownFile(t, EventsVariable, "{\"a\":1}\r\n\n  [2, 3] \n\"x\"")
	events, err = Events()
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte(`{"a":1}`), []byte(`[2, 3]`), []byte(`"x"`)}, events)

	path := ownFile(t, EventsVariable, "{\"a\":1}\n\n{oops}\n")
	_, err = Events()
	assert.EqualError(t, err, "feed: "+path+`:3: not a JSON value: "{oops}"; an event is one JSON value on a line of its own`)

	path = ownFile(t, EventsVariable, "1\n[2,\r3]\n")
	_, err = Events()
	assert.EqualError(t, err, "feed: "+path+`:2: an event stream cannot carry it: it has a carriage return or is not UTF-8: "[2,\r3]"`)

	path = ownFile(t, EventsVariable, "\n")
	_, err = Events()
	assert.EqualError(t, err, "feed: "+path+" has no events; write one JSON value a line")

	t.Setenv(EventsVariable, "no/such/file")
	_, err = Events()
	assert.EqualError(t, err, "feed: PUSHCOST_FEED: open no/such/file: no such file or directory")
}

func TestHeaderProfiles(t *testing.T) {
	bare, err := Headers("bare")
	require.NoError(t, err)
	assert.Equal(t, "*/*", bare.Get("Accept"))
	assert.Len(t, bare, 2, "Accept, and the empty User-Agent that keeps net/http from sending one")

	chrome, err := Headers("chrome")
	require.NoError(t, err)
	assert.Greater(t, len(chrome.Get("Cookie")), 117, "the cookie outweighs an event")
	assert.Contains(t, chrome.Get("User-Agent"), "Chrome/")

	ownFile(t, HeadersVariable, "# mine\nX-Token: a:b\n\nX-Token: c\n")
	mine, err := Headers(Own)
	require.NoError(t, err)
	assert.Equal(t, []string{"a:b", "c"}, mine["X-Token"])
}

func TestABadHeaderFileSaysWhere(t *testing.T) {
	for _, line := range []string{"Cookie", "Bad Name: x", "X: a\x00b"} {
		path := ownFile(t, HeadersVariable, "Accept: */*\n"+line+"\n")
		_, err := Headers(Own)
		assert.ErrorContains(t, err, path+":2: not a header: ", line)
	}
	for _, name := range []string{"Host", "content-length", "Upgrade", "Sec-WebSocket-Key"} {
		path := ownFile(t, HeadersVariable, "Accept: */*\n"+name+": x\n")
		_, err := Headers(Own)
		assert.EqualError(t, err, "feed: "+path+":2: "+name+" is the transport's own to send; leave it out")
	}
	_, err := Headers("fireox")
	assert.ErrorContains(t, err, `header profile "fireox" is not to be had`)
}
