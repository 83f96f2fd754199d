// Package setup is the matrix: which contestant runs over what.
package setup

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"pushcost/internal/codec"
	"pushcost/internal/proxy"
	"pushcost/internal/transport"
)

// A Setup is one cell. It is comparable, and its String is its name in tests
// and benchmarks: key=value, an empty field omitted.
type Setup struct {
	Transport string         `key:"transport"` // ws, sse, poll; of a crowd also floor
	Lib       string         `key:"lib"`       // a row of transport.All or crowd.All; empty: the first that fits
	HTTP      transport.HTTP `key:"http"`      // 1.1, 2
	TLS       string         `key:"tls"`       // 1.3; empty: none (HTTP/2 is then h2c)
	Headers   string         `key:"headers"`   // a profile of package feed
	Codec     codec.Name     `key:"codec"`
	IDs       string         `key:"ids"`   // on: an id: line per event
	Proxy     string         `key:"proxy"` // one of package proxy, between client and server
	Net       string         `key:"net"`   // loopback: real sockets; empty: memory
}

// String is the setup's name: transport=sse/http=2/headers=chrome.
func (s Setup) String() string {
	var parts []string
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if value := v.Field(i).String(); value != "" {
			parts = append(parts, v.Type().Field(i).Tag.Get("key")+"="+value)
		}
	}
	return strings.Join(parts, "/")
}

// Parse reads what String writes.
func Parse(name string) (s Setup, err error) {
	for part := range strings.SplitSeq(name, "/") {
		key, value, _ := strings.Cut(part, "=")
		if err := s.set(key, value); err != nil {
			return Setup{}, fmt.Errorf("setup %q: %w", name, err)
		}
	}
	return s, nil
}

func (s *Setup) set(key, value string) error {
	f, ok := s.field(key)
	if !ok {
		return fmt.Errorf("there is no key %q", key)
	}
	f.SetString(value)
	return nil
}

func (s *Setup) get(key string) string {
	f, _ := s.field(key)
	return f.String()
}

func (s *Setup) field(key string) (f reflect.Value, ok bool) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("key") == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// Contestant returns the transport a setup names.
func (s Setup) Contestant() (transport.Transport, error) {
	if why := s.Impossible(); why != "" {
		return transport.Transport{}, fmt.Errorf("setup %s: %s", s, why)
	}
	return transport.All[slices.IndexFunc(transport.All, s.fits)], nil
}

func (s Setup) fits(t transport.Transport) bool {
	return t.Name == s.Transport && (s.Lib == "" || t.Lib == s.Lib) && slices.Contains(t.Over, s.HTTP)
}

// Impossible says why a setup cannot exist; it is empty for one that can.
func (s Setup) Impossible() string {
	i := slices.IndexFunc(transport.All, s.fits)
	if i < 0 {
		return fmt.Sprintf("no contestant is called %s, with lib %q, over HTTP/%s", s.Transport, s.Lib, s.HTTP)
	}
	t := transport.All[i]
	switch {
	case s.Codec != codec.Identity && !slices.Contains(t.Codecs, s.Codec):
		return fmt.Sprintf("%s %s has no %s", t.Name, t.Lib, s.Codec)
	case s.IDs != "" && s.IDs != "on":
		return fmt.Sprintf("ids is on or absent, not %q", s.IDs)
	case s.IDs != "" && !t.IDs:
		return fmt.Sprintf("%s sends no ids", t.Name)
	case s.TLS != "" && s.TLS != "1.3":
		return fmt.Sprintf("tls is 1.3 or absent, not %q", s.TLS)
	case s.Proxy != "" && !s.passes():
		return fmt.Sprintf("no proxy is called %s, or it cannot carry this", s.Proxy)
	case s.Net != "" && s.Net != "loopback":
		return fmt.Sprintf("net is loopback or absent, not %q", s.Net)
	}
	return ""
}

// passes says whether there is a proxy of this name that can carry the setup.
func (s Setup) passes() bool {
	p, ok := proxy.Named(s.Proxy)
	return ok && slices.Contains(p.HTTP, string(s.HTTP)) && (s.TLS == "" || p.TLS) &&
		(p.Program == "" || s.Net == "loopback") &&
		(p.Server == "" || s.Transport != "ws" || s.HTTP == transport.HTTP1) // no RFC 8441
}

// Cross returns every setup a pattern stands for that can exist. A pattern is a
// name with alternatives: transport=ws|sse/http=1.1|2. An empty alternative
// omits its key: tls=|1.3. One that no setup is left with is an error, since
// it would go unmeasured: it is misspelt, or cannot go with the rest.
func Cross(pattern string) ([]Setup, error) {
	cells := []Setup{{}}
	parts := strings.Split(pattern, "/")
	for _, part := range parts {
		key, values, _ := strings.Cut(part, "=")
		var wider []Setup
		for _, s := range cells {
			for value := range strings.SplitSeq(values, "|") {
				if err := s.set(key, value); err != nil {
					return nil, fmt.Errorf("setup %q: %w", pattern, err)
				}
				wider = append(wider, s)
			}
		}
		cells = wider
	}
	cells = slices.DeleteFunc(cells, func(s Setup) bool { return s.Impossible() != "" })
	for _, part := range parts {
		key, values, _ := strings.Cut(part, "=")
		for value := range strings.SplitSeq(values, "|") {
			if !slices.ContainsFunc(cells, func(s Setup) bool { return s.get(key) == value }) {
				return nil, fmt.Errorf("setup %q: no setup with %s=%s can exist", pattern, key, value)
			}
		}
	}
	return cells, nil
}
