// Package feed makes what is pushed, and the headers of those who ask for it:
// the inputs of every experiment, the same in every run.
package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"unicode/utf8"
)

// Size is the number of events in the documents' feed.
const Size = 1000

// Trades returns the documents' feed: [Size] trades as JSON, 116.9 bytes on
// average. Their time stamps are three milliseconds apart and fixed, since a
// clock's digits would change the bytes.
func Trades() [][]byte {
	r := rand.New(rand.NewPCG(1, 0))
	price := map[string]float64{"BTCUSDT": 60009.59, "ETHUSDT": 3011.25, "SOLUSDT": 151.77, "ADAUSDT": 0.4512, "DOGEUSDT": 0.1234, "XRPUSDT": 0.5127}
	symbols := []string{"BTCUSDT", "ETHUSDT", "SOLUSDT", "ADAUSDT", "DOGEUSDT", "XRPUSDT"}
	events := make([][]byte, Size)
	for i := range events {
		sym := symbols[r.IntN(len(symbols))]
		price[sym] *= 1 + (r.Float64()-0.5)/1000
		event, err := json.Marshal(struct {
			ID    int     `json:"id"`
			Time  int64   `json:"ts"`
			Type  string  `json:"type"`
			Sym   string  `json:"sym"`
			Price decimal `json:"px"`
			Qty   decimal `json:"qty"`
			Side  string  `json:"side"`
			Trade int     `json:"tid"`
			Maker bool    `json:"maker,omitempty"` // the buyer's order was waiting; one trade in twelve says so
		}{
			i + 1, 1_760_000_000_000 + 3*int64(i), "trade", sym, decimal(price[sym]), decimal(r.ExpFloat64() * 3),
			[]string{"buy", "sell"}[r.IntN(2)], 1_000_000 + r.IntN(9_000_000), r.IntN(12) == 0,
		})
		if err != nil {
			panic(err) // a struct of numbers and strings always encodes
		}
		events[i] = event
	}
	return events
}

// A decimal is a number as exchanges print it: at most five decimals.
type decimal float64

func (d decimal) MarshalJSON() ([]byte, error) {
	s := fmt.Appendf(nil, "%.5f", float64(d))
	return bytes.TrimRight(bytes.TrimRight(s, "0"), "."), nil
}

// Text returns n events of exactly size bytes (at least 2): JSON strings of
// base64 letters, which no coding shrinks below three quarters.
func Text(n, size int) [][]byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	events := Binary(n, size)
	for _, event := range events {
		for i, b := range event {
			event[i] = letters[b%64]
		}
		event[0], event[size-1] = '"', '"'
	}
	return events
}

// Binary returns n events of size random bytes.
func Binary(n, size int) [][]byte {
	r := rand.NewChaCha8([32]byte{1})
	events := make([][]byte, n)
	for i := range events {
		events[i] = make([]byte, size)
		r.Read(events[i])
	}
	return events
}

// EventsVariable names a feed of the user's own: a file with one JSON value a
// line (JSON Lines), each an event. Blank lines are skipped.
const EventsVariable = "PUSHCOST_FEED"

// Events returns the user's own feed, or else [Trades].
func Events() ([][]byte, error) {
	path := os.Getenv(EventsVariable)
	if path == "" {
		return Trades(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("feed: %s: %w", EventsVariable, err)
	}
	var events [][]byte
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if bytes.ContainsRune(line, '\r') || !utf8.Valid(line) {
			return nil, fmt.Errorf("feed: %s:%d: an event stream cannot carry it: it has a carriage return or is not UTF-8: %.40q", path, n, line)
		}
		if !json.Valid(line) {
			return nil, fmt.Errorf("feed: %s:%d: not a JSON value: %.40q; an event is one JSON value on a line of its own", path, n, line)
		}
		events = append(events, line)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("feed: %s has no events; write one JSON value a line", path)
	}
	return events, nil
}
