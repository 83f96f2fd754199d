package codec

import (
	"errors"
	"fmt"
	"io"
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

func TestAnUnknownCodingIsNamed(t *testing.T) {
	_, err := NewWriter(Deflate, io.Discard)
	assert.EqualError(t, err, `codec: "deflate" is not a content coding`)
	_, err = NewReader("snappy", nil)
	assert.EqualError(t, err, `codec: "snappy" is not a content coding`)
}
