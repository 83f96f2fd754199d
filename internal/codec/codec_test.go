package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAFlushedEventDecodesBeforeTheNextIsWritten(t *testing.T) {
	for _, name := range []Name{Identity, Gzip, Brotli, Zstd} {
		t.Run("coding="+string(name), func(t *testing.T) {
			wire, server := io.Pipe()
			decoded := make(chan struct{})
			go func() {
				w, err := NewWriter(name, server)
				for i := 0; i < 100 && err == nil; i++ {
					fmt.Fprintf(w, "event %03d, and what all events share\n", i)
					err = w.Flush()
					<-decoded
				}
				server.CloseWithError(errors.Join(err, w.Close()))
			}()
			r, err := NewReader(name, wire)
			require.NoError(t, err)
			for i := range 100 {
				want := fmt.Sprintf("event %03d, and what all events share\n", i)
				got := make([]byte, len(want))
				_, err := io.ReadFull(r, got)
				require.NoError(t, err)
				require.Equal(t, want, string(got))
				decoded <- struct{}{}
			}
			rest, err := io.ReadAll(r)
			assert.NoError(t, err)
			assert.Empty(t, rest)
		})
	}
}

// sent are the messages that a coding makes of some texts, each decoded.
func sent(t *testing.T, p Params, texts ...string) (messages []string) {
	t.Helper()
	var wire bytes.Buffer
	w, err := p.NewWriter(&wire)
	require.NoError(t, err)
	r, err := p.NewReader(&wire)
	require.NoError(t, err)
	for _, text := range texts {
		_, err = io.WriteString(w, text)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		messages = append(messages, wire.String())
		decoded, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, text, string(decoded))
	}
	return messages
}

// RFC 7692, section 7.2.3, has "Hello" as a message, and again with takeover.
func TestMessagesAreThoseOfPermessageDeflate(t *testing.T) {
	hello, again := "\xf2\x48\xcd\xc9\xc9\x07\x00", "\xf2\x00\x11\x00\x00"
	takeover := sent(t, Params{Name: Deflate}, "Hello", "Hello")
	assert.Equal(t, hello, takeover[0])
	assert.Less(t, len(takeover[1]), len(hello), "a message may refer to the one before")
	assert.Equal(t, []string{hello, hello}, sent(t, Params{Name: DeflateNoTakeover}, "Hello", "Hello"), "or must not")
	assert.Equal(t, []string{"\x00", hello}, sent(t, Params{Name: Deflate}, "", "Hello"), "a message may be empty")

	var wire bytes.Buffer
	r, err := NewReader(Deflate, &wire)
	require.NoError(t, err)
	for _, message := range []string{hello, again} {
		wire.WriteString(message)
		decoded, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.Equal(t, "Hello", string(decoded))
	}
	r, err = NewReader(DeflateNoTakeover, strings.NewReader(again))
	require.NoError(t, err)
	_, err = io.ReadAll(r)
	assert.ErrorContains(t, err, "corrupt input", "without takeover there is nothing to refer to")
}

func TestAWindowIsAsLargeAsItSays(t *testing.T) {
	long := strings.Repeat("0123456789abcdefghijklmnopqrstuv", 8) // 256 B that begin with a line of 32
	line := "a line that comes again, later; "
	for _, p := range []Params{{Deflate, 0, 8}, {Brotli, 5, 10}, {Zstd, 3, 10}} {
		size := func(before int) int {
			filler := strings.Repeat(long, before/len(long))
			var wire bytes.Buffer
			w, err := p.NewWriter(&wire)
			require.NoError(t, err)
			io.WriteString(w, line+filler)
			require.NoError(t, w.Flush())
			wire.Reset()
			io.WriteString(w, line)
			require.NoError(t, w.Flush())
			return wire.Len()
		}
		assert.Less(t, size(0)+15, size(1<<p.Window), "%s has lost a line %d B ago", p, 1<<p.Window)
	}
}

func TestAResetWriterStartsAnew(t *testing.T) {
	for _, p := range []Params{{}, {Gzip, 9, 0}, {Brotli, 4, 17}, {Zstd, 3, 19}, {Deflate, 9, 0}, {Deflate, 0, 13}, {DeflateNoTakeover, 0, 13}} {
		t.Run(p.String(), func(t *testing.T) {
			var wire, other bytes.Buffer
			w, err := p.NewWriter(&wire)
			require.NoError(t, err)
			io.WriteString(w, "Hello, Hello")
			require.NoError(t, w.Flush())
			want := wire.String()
			io.WriteString(w, "Hello, lost")
			w.Reset(&other)
			io.WriteString(w, "Hello, Hello")
			require.NoError(t, w.Flush())
			assert.Equal(t, want, other.String())
		})
	}
}

func TestAMessageThatIsNoneIsAnError(t *testing.T) {
	r, err := Params{Name: Deflate}.NewReader(strings.NewReader("\xff"))
	require.NoError(t, err)
	_, err = r.Read(make([]byte, 1))
	assert.ErrorContains(t, err, "corrupt input")
	failing := errors.New("cut")
	r, err = Params{Name: Deflate}.NewReader(io.MultiReader(strings.NewReader("\xf2\x48"), errReader{failing}))
	require.NoError(t, err)
	_, err = r.Read(make([]byte, 1))
	assert.ErrorIs(t, err, failing, "half a message is none")
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestWhatThereIsNot(t *testing.T) {
	for want, p := range map[string]Params{
		`codec: "snappy" is not a coding`:                  {Name: "snappy"},
		"codec: there is no identity/level=1":              {Level: 1},
		"codec: there is no gzip/level=10":                 {Name: Gzip, Level: 10},
		"codec: there is no gzip/window=15":                {Name: Gzip, Window: 15},
		"codec: there is no br/level=12/window=22":         {Brotli, 12, 22},
		"codec: there is no br/level=5/window=25":          {Brotli, 5, 25},
		"codec: there is no br/level=-1":                   {Name: Brotli, Level: -1},
		"codec: there is no zstd/level=5":                  {Name: Zstd, Level: 5},
		"codec: there is no zstd/window=24":                {Name: Zstd, Window: 24}, // browsers refuse more than 8 MB
		"codec: there is no deflate/window=7":              {Name: Deflate, Window: 7},
		"codec: there is no deflate/level=6/window=13":     {Deflate, 6, 13},
		"codec: there is no deflate-no-takeover/window=16": {Name: DeflateNoTakeover, Window: 16},
	} {
		_, err := p.NewWriter(io.Discard)
		assert.EqualError(t, err, want)
		_, err = p.NewReader(strings.NewReader(""))
		assert.EqualError(t, err, want)
	}
}
