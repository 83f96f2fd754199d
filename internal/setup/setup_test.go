package setup

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pushcost/internal/codec"
)

func TestNamesAreUniqueAndParseBack(t *testing.T) {
	all, err := Cross("transport=ws|sse|poll/lib=|gorilla|coder|gws/http=1.1|2/tls=|1.3/headers=bare|chrome" +
		"/codec=|gzip|br|zstd|deflate|deflate-no-takeover/ids=|on/proxy=|idle|reverse|nginx/net=|loopback")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, s := range all {
		name := s.String()
		assert.False(t, seen[name], "%s names one setup", name)
		seen[name] = true
		assert.NotRegexp(t, `[ ,]|-\d+$`, name, "benchstat would read that as something else")
		back, err := Parse(name)
		require.NoError(t, err)
		assert.Equal(t, s, back)
	}
	_, err = Parse("transport=ws/colour=red")
	assert.EqualError(t, err, `setup "transport=ws/colour=red": there is no key "colour"`)
}

func TestCrossLeavesOutWhatCannotExist(t *testing.T) {
	var names []string
	cells, err := Cross("transport=ws|sse/lib=|gws/http=1.1|2")
	require.NoError(t, err)
	for _, s := range cells {
		names = append(names, s.String())
	}
	assert.Equal(t, []string{
		"transport=ws/http=1.1", "transport=ws/http=2", "transport=ws/lib=gws/http=1.1",
		"transport=sse/http=1.1", "transport=sse/http=2",
	}, names)
	_, err = Cross("transport=ws|sse|pol/http=1.1")
	assert.EqualError(t, err, `setup "transport=ws|sse|pol/http=1.1": no setup with transport=pol can exist`)
	_, err = Cross("transport=ws|sse/http=1.1|3")
	assert.EqualError(t, err, `setup "transport=ws|sse/http=1.1|3": no setup with http=3 can exist`)
	_, err = Cross("transport=ws|sse/colour=red")
	assert.EqualError(t, err, `setup "transport=ws|sse/colour=red": there is no key "colour"`)
}

func TestAProxyHasToUnderstand(t *testing.T) {
	for _, name := range []string{
		"transport=sse/http=1.1/proxy=nobody",
		"transport=sse/http=1.1/proxy=alb",
		"transport=sse/http=1.1/tls=1.3/proxy=reverse",
		"transport=ws/http=2/proxy=reverse",
		"transport=sse/http=1.1/proxy=nginx", // in memory
	} {
		s, err := Parse(name)
		require.NoError(t, err)
		assert.Contains(t, s.Impossible(), "no proxy is called "+s.Proxy, name)
	}
	for _, name := range []string{
		"transport=ws/http=2/tls=1.3/proxy=idle",
		"transport=sse/http=2/proxy=alb",
		"transport=ws/http=1.1/proxy=reverse",
		"transport=sse/http=1.1/proxy=nginx/net=loopback",
	} {
		s, err := Parse(name)
		require.NoError(t, err)
		assert.Empty(t, s.Impossible(), name)
	}
}

func TestADefaultIsTheFirstRowThatFits(t *testing.T) {
	for s, lib := range map[Setup]string{
		{Transport: "ws", HTTP: "1.1"}:             "gorilla",
		{Transport: "ws", HTTP: "2"}:               "coder",
		{Transport: "ws", HTTP: "1.1", Lib: "gws"}: "gws",
		{Transport: "sse", HTTP: "2"}:              "",
	} {
		c, err := s.Contestant()
		require.NoError(t, err)
		assert.Equal(t, lib, c.Lib, s.String())
	}
}

func TestWhatCannotExistSaysWhy(t *testing.T) {
	for s, why := range map[Setup]string{
		{Transport: "pigeon", HTTP: "1.1"}:                                 `no contestant is called pigeon, with lib "", over HTTP/1.1`,
		{Transport: "ws", Lib: "gws", HTTP: "2"}:                           `no contestant is called ws, with lib "gws", over HTTP/2`,
		{Transport: "ws", HTTP: "1.1", Codec: codec.Brotli}:                "ws gorilla has no br",
		{Transport: "ws", HTTP: "1.1", IDs: "on"}:                          "ws sends no ids",
		{Transport: "sse", HTTP: "1.1", IDs: "yes"}:                        `ids is on or absent, not "yes"`,
		{Transport: "sse", HTTP: "1.1", TLS: "1.2"}:                        `tls is 1.3 or absent, not "1.2"`,
		{Transport: "sse", HTTP: "1.1", Net: "wlan"}:                       `net is loopback or absent, not "wlan"`,
		{Transport: "poll", HTTP: "2", TLS: "1.3", Codec: codec.Gzip}:      "",
		{Transport: "sse", HTTP: "2", Codec: codec.Brotli, IDs: "on"}:      "",
		{Transport: "ws", Lib: "gws", HTTP: "1.1", Codec: codec.Deflate}:   "",
		{Transport: "ws", HTTP: "2", Codec: codec.DeflateNoTakeover}:       "",
		{Transport: "ws", HTTP: "1.1", Codec: codec.DeflateNoTakeover}:     "",
		{Transport: "poll", HTTP: "1.1", Headers: "bare", Net: "loopback"}: "",
	} {
		assert.Equal(t, why, s.Impossible(), s.String())
		_, err := s.Contestant()
		assert.Equal(t, why == "", err == nil, s.String())
	}
}
