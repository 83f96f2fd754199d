package eventstream

import (
	"bytes"
	"errors"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// result is all that a stream means to its reader.
type result struct {
	Events []event
	Retry  string // "" if there was no valid retry field
}

// event is an Event that prints its data as text.
type event struct{ ID, Type, Data string }

func message(data string) event           { return event{"", "message", data} }
func messageWithID(id, data string) event { return event{id, "message", data} }

// parse reads src to its end. It calls got, if not nil, after each event.
func parse(t *testing.T, src io.Reader, got func()) result {
	t.Helper()
	var res result
	r := NewReader(src)
	for {
		ev, err := r.Next()
		if err != nil {
			require.Equal(t, io.EOF, err)
			break
		}
		res.Events = append(res.Events, event{ev.ID, ev.Type, string(ev.Data)})
		if got != nil {
			got()
		}
	}
	if d, ok := r.Retry(); ok {
		res.Retry = d.String()
	}
	return res
}

// chunkings are the ways a stream can arrive that must make no difference.
var chunkings = []struct {
	name string
	wrap func(io.Reader) io.Reader
}{
	{"whole", func(r io.Reader) io.Reader { return r }},
	{"byte by byte", iotest.OneByteReader},
	{"half of what is asked for", iotest.HalfReader},
	{"the last bytes with the EOF", iotest.DataErrReader},
	{"the last byte with the EOF", func(r io.Reader) io.Reader {
		return iotest.DataErrReader(iotest.OneByteReader(r))
	}},
}

var streams = []struct {
	name  string
	input string
	want  result
}{
	{
		"§9.2.6: three data lines make one event with two line breaks",
		"data: YHOO\ndata: +2\ndata: 10\n\n",
		result{Events: []event{message("YHOO\n+2\n10")}},
	},
	{
		"§9.2.6: a comment, an event with an id, an event that resets the id, and one that keeps its second space",
		": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
		result{Events: []event{messageWithID("1", "first event"), message("second event"), message(" third event")}},
	},
	{
		"§9.2.6: empty data fields make events, and the block without a blank line is discarded",
		"data\n\ndata\ndata\n\ndata:",
		result{Events: []event{message(""), message("\n")}},
	},
	{
		"§9.2.6: the space after the colon is ignored, so both events are the same",
		"data:test\n\ndata: test\n\n",
		result{Events: []event{message("test"), message("test")}},
	},
	{
		"§9.2.1: the event field sets the type of one event",
		"event: add\ndata: 73857293\n\ndata: plain\n\nevent: remove\ndata: 2153\n\n",
		result{Events: []event{{"", "add", "73857293"}, message("plain"), {"", "remove", "2153"}}},
	},
	{
		"an empty stream has no events",
		"",
		result{},
	},
	{
		"one leading BOM is dropped",
		"\uFEFFdata: x\n\n",
		result{Events: []event{message("x")}},
	},
	{
		"a second BOM is part of the field name",
		"\uFEFF\uFEFFdata: x\n\ndata: y\n\n",
		result{Events: []event{message("y")}},
	},
	{
		"a BOM before the second line is part of the field name",
		"data: x\n\uFEFFdata: y\n\n",
		result{Events: []event{message("x")}},
	},
	{
		"a BOM alone on the first line leaves it blank",
		"\uFEFF\ndata: x\n\n",
		result{Events: []event{message("x")}},
	},
	{
		"a part of a BOM is not dropped",
		"\xEF\xBBdata: x\n\ndata: y\n\n",
		result{Events: []event{message("y")}},
	},
	{
		"LF ends a line",
		"data: a\ndata: b\n\ndata: c\n\n",
		result{Events: []event{message("a\nb"), message("c")}},
	},
	{
		"CR ends a line",
		"data: a\rdata: b\r\rdata: c\r\r",
		result{Events: []event{message("a\nb"), message("c")}},
	},
	{
		"CRLF ends a line, and is one line end",
		"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n",
		result{Events: []event{message("a\nb"), message("c")}},
	},
	{
		"line ends mix freely",
		"data: a\r\ndata: b\rdata: c\n\r\ndata: d\r\n\ndata: e\n\rdata: f\r\r\n",
		result{Events: []event{message("a\nb\nc"), message("d"), message("e"), message("f")}},
	},
	{
		"LF and CR are two line ends",
		"data: a\n\rdata: b\n\n",
		result{Events: []event{message("a"), message("b")}},
	},
	{
		"a comment is ignored, also one that looks like a field",
		":\n: data: x\n:data: x\ndata: y\n:id: 1\n\n",
		result{Events: []event{message("y")}},
	},
	{
		"only the first colon ends the name",
		"data: a: b:c\ndata::\n\n",
		result{Events: []event{message("a: b:c\n:")}},
	},
	{
		"one space after the colon is dropped, and no other white space",
		"data:a\ndata: b\ndata:  c\ndata:\td\ndata: \ndata:  \ndata: e \n\n",
		result{Events: []event{message("a\nb\n c\n\td\n\n \ne ")}},
	},
	{
		"a line without a colon is a field with an empty value",
		"event: x\nevent\nid: 1\nid\ndata: a\ndata\n\n",
		result{Events: []event{message("a\n")}},
	},
	{
		"an unknown field is ignored, and names are compared exactly",
		"foo: x\nDATA: x\n data: x\ndata : x\ndat: x\ndatas: x\ndata: y\n\n",
		result{Events: []event{message("y")}},
	},
	{
		"a block without data dispatches nothing, and its type does not reach the next event",
		"event: x\n\ndata: a\n\n",
		result{Events: []event{message("a")}},
	},
	{
		"blank lines alone dispatch nothing",
		"\n\n\r\r\r\n\r\n",
		result{},
	},
	{
		"the last of several event fields counts",
		"event: x\nevent: y\ndata: a\n\n",
		result{Events: []event{{"", "y", "a"}}},
	},
	{
		"an id stays in force until the next one",
		"id: 1\ndata: a\n\ndata: b\n\nid: 2\ndata: c\n\n",
		result{Events: []event{messageWithID("1", "a"), messageWithID("1", "b"), messageWithID("2", "c")}},
	},
	{
		"an id counts for its event wherever it stands",
		"data: a\nid: 1\n\n",
		result{Events: []event{messageWithID("1", "a")}},
	},
	{
		"an id counts for the next event if its block has no data",
		"id: 1\n\ndata: a\n\n",
		result{Events: []event{messageWithID("1", "a")}},
	},
	{
		"an id does not count before its blank line",
		"id: 1\ndata: a\n\nid: 2\ndata: b\n",
		result{Events: []event{messageWithID("1", "a")}},
	},
	{
		"an id that contains NUL is ignored",
		"id: 1\nid: 2\x003\ndata: a\n\nid:\x00\ndata: b\n\n",
		result{Events: []event{messageWithID("1", "a"), messageWithID("1", "b")}},
	},
	{
		"a NUL in other fields is kept",
		"event: \x00\ndata: \x00\n\n",
		result{Events: []event{{"", "\x00", "\x00"}}},
	},
	{
		"a retry field is milliseconds, in force as soon as its line ends",
		"retry: 1500\n",
		result{Retry: "1.5s"},
	},
	{
		"a retry of zero is valid",
		"retry: 0\n",
		result{Retry: "0s"},
	},
	{
		"a retry may have leading zeros, and the last valid one counts",
		"retry: 1000\nretry: 0002000\n",
		result{Retry: "2s"},
	},
	{
		"a retry that is not all ASCII digits is ignored",
		"retry: 1\nretry: +2\nretry: -2\nretry: 2.0\nretry: 2 \nretry:  2\nretry: 0x2\nretry: 2_0\nretry: 2e1\nretry: ٢\n",
		result{Retry: "1ms"},
	},
	{
		"a retry without a value is ignored",
		"retry\nretry:\nretry: \n",
		result{},
	},
	{
		"the largest retry that fits a Duration is taken",
		"retry: 9223372036854\n",
		result{Retry: (9223372036854 * time.Millisecond).String()},
	},
	{
		"a retry too large for a Duration is ignored",
		"retry: 1\nretry: 9223372036855\nretry: 18446744073709551615\nretry: 18446744073709551617\nretry: 100000000000000000000000000\n",
		result{Retry: "1ms"},
	},
	{
		"a last line without a line end is discarded",
		"data: a\n\nretry: 1",
		result{Events: []event{message("a")}},
	},
	{
		"a last event without a blank line is discarded",
		"data: a\n\ndata: b\n",
		result{Events: []event{message("a")}},
	},
	{
		"valid UTF-8 comes through untouched, including U+FFFD",
		"event: é\nid: ☃\ndata: 𝄞\uFFFD\uFEFF\n\n",
		result{Events: []event{{"☃", "é", "𝄞\uFFFD\uFEFF"}}},
	},
	{
		"invalid UTF-8 is replaced in every field",
		"event: \xFF\nid: \xFF\ndata: \xFF\n\n",
		result{Events: []event{{"\uFFFD", "\uFFFD", "\uFFFD"}}},
	},
	{
		"each byte that starts no sequence is replaced on its own",
		"data: \x80\xBF\xFF\xC0\xAF\n\n",
		result{Events: []event{message("\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD")}},
	},
	{
		"the start of a sequence that breaks off is replaced as one",
		"data: \xE2\x98x\xF0\x9D\x84\xE2\x98\x83\xC3\n\n",
		result{Events: []event{message("\uFFFDx\uFFFD☃\uFFFD")}},
	},
	{
		"surrogates, overlong forms and code points out of range are replaced byte by byte",
		"data: \xED\xA0\x80 \xE0\x80\x80 \xF4\x90\x80\x80\n\n",
		result{Events: []event{message("\uFFFD\uFFFD\uFFFD \uFFFD\uFFFD\uFFFD \uFFFD\uFFFD\uFFFD\uFFFD")}},
	},
	{
		"a sequence does not continue on the next data line",
		"data: \xE2\ndata: \x98\x83\n\n",
		result{Events: []event{message("\uFFFD\n\uFFFD\uFFFD")}},
	},
	{
		"a line may be longer than any buffer, and end in CRLF",
		"data: " + strings.Repeat("x", 100_000) + "\r\ndata: " + strings.Repeat("y", 10_000) + "\r\n\r\ndata: z\n\n",
		result{Events: []event{message(strings.Repeat("x", 100_000) + "\n" + strings.Repeat("y", 10_000)), message("z")}},
	},
}

func TestReaderInterpretsTheStream(t *testing.T) {
	for _, tt := range streams {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range chunkings {
				assert.Equal(t, tt.want, parse(t, c.wrap(strings.NewReader(tt.input)), nil), "the stream arrives %s", c.name)
			}
		})
	}
}

// readerFunc is a function as an io.Reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestNextReturnsAnEventAsSoonAsItsBlankLineHasArrived(t *testing.T) {
	for _, tt := range []struct{ name, input, rest string }{
		{"the blank line ends in LF", "data: a\n\n", ""},
		{"the blank line ends in CR", "data: a\r\r", ""},
		{"the blank line ends in CRLF", "data: a\r\n\r\n", ""},
		{"the blank line ends in CRLF and its LF is still to come", "data: a\r\n\r", "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range chunkings {
				waited := false
				wait := readerFunc(func([]byte) (int, error) {
					waited = true
					return 0, io.EOF
				})
				r := NewReader(io.MultiReader(
					c.wrap(strings.NewReader(tt.input)),
					wait, // a read that gets here would block on a connection
					strings.NewReader(tt.rest+"data: b\n\n"),
				))

				ev, err := r.Next()
				require.NoError(t, err)
				assert.Equal(t, "a", string(ev.Data))
				assert.False(t, waited, "Next waits for bytes after the blank line when the stream arrives %s", c.name)

				ev, err = r.Next()
				require.NoError(t, err)
				assert.Equal(t, "b", string(ev.Data))
				assert.True(t, waited, "the second event is beyond the wait")
			}
		})
	}
}

func TestNextReportsTheErrorOfTheUnderlyingReader(t *testing.T) {
	broken := errors.New("cable cut")
	for _, tt := range []struct {
		name string
		err  error
	}{
		{"an error is wrapped", broken},
		{"a truncated body is not the end of the stream", io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, src := range []io.Reader{
				io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(tt.err)),
				failOnceWithData("data: a\n\ndata: b\n", tt.err),
			} {
				r := NewReader(src)

				ev, err := r.Next()
				require.NoError(t, err, "the event before the error is delivered")
				assert.Equal(t, "a", string(ev.Data))

				for range 2 {
					ev, err = r.Next()
					require.ErrorIs(t, err, tt.err)
					require.EqualError(t, err, "eventstream: reading the stream: "+tt.err.Error())
					assert.Zero(t, ev, "the unfinished event is discarded")
				}
			}
		})
	}
}

// failOnceWithData returns data and err from one Read, and then io.EOF.
func failOnceWithData(data string, err error) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, e := copy(p, data), err
		data, err = "", io.EOF
		return n, e
	})
}

func TestNextKeepsReturningEOF(t *testing.T) {
	r := NewReader(strings.NewReader("data: a"))
	for range 3 {
		_, err := r.Next()
		assert.Equal(t, io.EOF, err)
	}
}

func TestNextTakesAnEmptyReadForNoNews(t *testing.T) {
	empty := true
	src := strings.NewReader("data: a\n\n")
	got := parse(t, readerFunc(func(p []byte) (int, error) {
		empty = !empty
		if !empty {
			return 0, nil
		}
		return src.Read(p[:1])
	}), nil)
	assert.Equal(t, result{Events: []event{message("a")}}, got)
}

func TestDataBelongsToTheCaller(t *testing.T) {
	r := NewReader(strings.NewReader("data: aaaa\n\ndata: bbbb\n\n"))
	first, err := r.Next()
	require.NoError(t, err)
	second, err := r.Next()
	require.NoError(t, err)
	assert.Equal(t, "aaaa", string(first.Data), "the next event does not overwrite it")

	for i := range second.Data {
		first.Data = append(first.Data, 'x')
		second.Data[i] = 'y'
	}
	assert.Equal(t, "aaaaxxxx", string(first.Data))
	assert.Equal(t, "yyyy", string(second.Data))
}

func TestRetryIsThatOfTheStreamSoFar(t *testing.T) {
	r := NewReader(strings.NewReader("data: a\n\nretry: 5\n\ndata: b\n\n"))
	_, err := r.Next()
	require.NoError(t, err)
	_, ok := r.Retry()
	assert.False(t, ok, "the retry field is behind the first event")

	_, err = r.Next()
	require.NoError(t, err)
	d, ok := r.Retry()
	assert.True(t, ok)
	assert.Equal(t, 5*time.Millisecond, d)
}

func TestALineMayHaveAnyLength(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		var stream strings.Builder
		var want []event
		for n := range 2100 { // beyond two of the blocks that lineEnd searches
			data := strings.Repeat("x", n)
			stream.WriteString("data:" + data + end + end)
			want = append(want, message(data))
		}
		got := parse(t, strings.NewReader(stream.String()), nil)
		assert.True(t, slices.Equal(want, got.Events), "every event comes out when lines end in %q", end)
	}
}

// Were the time quadratic in the length, this would take the better part of an
// hour and run into the timeout of the test binary.
func TestTimeIsLinearInTheLength(t *testing.T) {
	const size = 8 << 20
	long := strings.Repeat("x", size)
	short := strings.Repeat("\r", size)

	t.Run("a line of 8 MB that arrives byte by byte", func(t *testing.T) {
		got := parse(t, iotest.OneByteReader(strings.NewReader("data: "+long+"\n\n")), nil)
		require.Len(t, got.Events, 1)
		assert.True(t, got.Events[0].Data == long)
	})
	t.Run("millions of lines that end in CR in the buffer that a long line has left", func(t *testing.T) {
		got := parse(t, strings.NewReader(":"+long+"\r"+short+"data: a\r\r"), nil)
		assert.Equal(t, result{Events: []event{message("a")}}, got)
	})
}

func TestAnEventWithOneLineOfDataIsOneAllocation(t *testing.T) {
	var stream []byte
	for range 1000 {
		stream = AppendComment(stream)
		stream = AppendEvent(stream, "", bytes.Repeat([]byte("x"), 1024))
	}
	r := NewReader(bytes.NewReader(stream))
	allocs := testing.AllocsPerRun(900, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	})
	assert.Equal(t, 1.0, allocs)
}

func TestAppendEvent(t *testing.T) {
	for _, tt := range []struct{ name, id, data, want string }{
		{"one line of data is one data field", "", "a", "data: a\n\n"},
		{"an id comes first", "7", "a", "id: 7\ndata: a\n\n"},
		{"empty data is one empty data field", "", "", "data: \n\n"},
		{"each line of data is a data field", "", "a\nb\n\nc", "data: a\ndata: b\ndata: \ndata: c\n\n"},
		{"a line break at either end is an empty line", "", "\na\n", "data: \ndata: a\ndata: \n\n"},
		{"CR and CRLF break the line like LF", "", "a\rb\r\nc\n\rd\r", "data: a\ndata: b\ndata: c\ndata: \ndata: d\ndata: \n\n"},
		{"a CR cannot smuggle in a field", "", "a\rid: 1\r\rdata: b", "data: a\ndata: id: 1\ndata: \ndata: data: b\n\n"},
		{"leading spaces and colons are data", " 7", " a\n:b", "id:  7\ndata:  a\ndata: :b\n\n"},
		{"invalid UTF-8 is left to the reader", "", "\xFF", "data: \xFF\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, "before"+tt.want, string(AppendEvent([]byte("before"), tt.id, []byte(tt.data))))
		})
	}
}

func TestAppendRetry(t *testing.T) {
	assert.Equal(t, "beforeretry: 1500\n", string(AppendRetry([]byte("before"), 1500*time.Millisecond+1)))
}

func TestAppendComment(t *testing.T) {
	assert.Equal(t, "before:\n", string(AppendComment([]byte("before"))))
}

// FuzzReader compares the Reader with reference, for every way to split the
// input into two reads.
func FuzzReader(f *testing.F) {
	for _, tt := range streams {
		f.Add([]byte(tt.input))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 1<<10 {
			return // every split of it would take too long
		}
		want := reference(input)
		for i := range len(input) + 1 {
			events, early := 0, 0
			first, second := input[:i], bytes.NewReader(input[i:])
			got := parse(t, io.MultiReader(bytes.NewReader(first), readerFunc(func(p []byte) (int, error) {
				if int64(second.Len()) == second.Size() { // the first read of it
					early = events
				}
				return second.Read(p)
			})), func() { events++ })
			require.Equal(t, want, got, "split %q %q", first, input[i:])
			require.Equal(t, len(reference(first).Events), early,
				"Next delivers what is complete in %q before it reads %q", first, input[i:])
		}
	})
}

// FuzzRoundTrip reads back what AppendEvent and AppendComment write.
func FuzzRoundTrip(f *testing.F) {
	for _, id := range []string{"", "1", " ", ":", "é\xFF"} {
		for _, data := range []string{"", "a", " a", "a\nb", "\n", "\r", "\r\n\n\r", "id: 1\n\n:", "\uFEFF\x00☃\xE2\x98"} {
			f.Add(id, []byte(data))
		}
	}
	f.Fuzz(func(t *testing.T, id string, data []byte) {
		if strings.ContainsAny(id, "\r\n\x00") {
			return // the format cannot carry this id
		}
		var stream []byte
		stream = AppendComment(stream)
		stream = AppendEvent(stream, "before", data)
		stream = AppendComment(stream)
		stream = AppendEvent(stream, id, data)
		stream = AppendComment(stream)

		carried := lines.ReplaceAllString(decodeUTF8(data), "\n")
		last := "before"
		if id != "" {
			last = decodeUTF8([]byte(id))
		}
		want := result{
			Events: []event{messageWithID("before", carried), messageWithID(last, carried)},
		}
		for _, c := range chunkings {
			require.Equal(t, want, parse(t, c.wrap(bytes.NewReader(stream)), nil), "the stream arrives %s", c.name)
		}
	})
}

var (
	lines  = regexp.MustCompile(`\r\n|\n|\r`)
	fields = regexp.MustCompile(`(?s)^([^:]+)(?:: ?(.*))?$`)
	digits = regexp.MustCompile(`^[0-9]+$`)
)

// reference is §9.2.5 and §9.2.6 in the words of the standard, on the whole
// stream as one string.
func reference(stream []byte) result {
	var res result
	var data, typ, id string
	all := lines.Split(strings.TrimPrefix(decodeUTF8(stream), "\uFEFF"), -1)
	for _, line := range all[:len(all)-1] { // the last has no line end
		if line == "" {
			if data != "" {
				if typ == "" {
					typ = "message"
				}
				res.Events = append(res.Events, event{id, typ, strings.TrimSuffix(data, "\n")})
			}
			data, typ = "", ""
			continue
		}
		field := fields.FindStringSubmatch(line)
		if field == nil {
			continue // a comment
		}
		switch name, value := field[1], field[2]; {
		case name == "event":
			typ = value
		case name == "data":
			data += value + "\n"
		case name == "id" && !strings.Contains(value, "\x00"):
			id = value
		case name == "retry" && digits.MatchString(value):
			ms, _ := new(big.Int).SetString(value, 10)
			ns := ms.Mul(ms, big.NewInt(1e6))
			if ns.IsInt64() {
				res.Retry = time.Duration(ns.Int64()).String()
			}
		}
	}
	return res
}

// decodeUTF8 is the UTF-8 decoder of the Encoding Standard, §8.1.1, with the
// error mode "replacement" and without BOM handling.
func decodeUTF8(input []byte) string {
	var out strings.Builder
	var codePoint rune
	needed := 0
	lower, upper := byte(0x80), byte(0xBF)
	for i := 0; i < len(input); i++ {
		b := input[i]
		switch {
		case needed == 0 && b <= 0x7F:
			out.WriteByte(b)
		case needed == 0 && b >= 0xC2 && b <= 0xDF:
			needed, codePoint = 1, rune(b&0x1F)
		case needed == 0 && b >= 0xE0 && b <= 0xEF:
			if b == 0xE0 {
				lower = 0xA0
			}
			if b == 0xED {
				upper = 0x9F
			}
			needed, codePoint = 2, rune(b&0xF)
		case needed == 0 && b >= 0xF0 && b <= 0xF4:
			if b == 0xF0 {
				lower = 0x90
			}
			if b == 0xF4 {
				upper = 0x8F
			}
			needed, codePoint = 3, rune(b&0x7)
		case needed == 0:
			out.WriteRune('\uFFFD')
		case b < lower || b > upper:
			out.WriteRune('\uFFFD')
			needed, lower, upper = 0, 0x80, 0xBF
			i-- // the byte is looked at again
		default:
			lower, upper = 0x80, 0xBF
			codePoint = codePoint<<6 | rune(b&0x3F)
			if needed--; needed == 0 {
				out.WriteRune(codePoint)
			}
		}
	}
	if needed > 0 {
		out.WriteRune('\uFFFD')
	}
	return out.String()
}

func BenchmarkReader(b *testing.B) {
	for _, bb := range []struct {
		name string
		size int
	}{{"100B", 100}, {"1KB", 1 << 10}, {"64KB", 64 << 10}, {"8MB", 8 << 20}} {
		b.Run(bb.name, func(b *testing.B) {
			one := AppendEvent(nil, "1", bytes.Repeat([]byte("x"), bb.size))
			src := bytes.NewReader(one)
			r := NewReader(readerFunc(func(p []byte) (int, error) {
				if src.Len() == 0 {
					src.Reset(one)
				}
				return src.Read(p)
			}))
			b.SetBytes(int64(len(one)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
