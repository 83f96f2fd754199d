package board

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func apply(t *testing.T, b *Board, script []Command) {
	for _, c := range script {
		require.NoError(t, b.Apply(c.Row, c.Nonce))
	}
}

// Every figure about boards was measured with these bytes. A change of them is a
// change of every published figure: make it knowingly or not at all.
func TestInputsNeverChangeByAccident(t *testing.T) {
	type pin struct {
		size int
		sum  string
	}
	for style, want := range map[Style]struct{ first, after, chat pin }{
		Utility: {
			first: pin{88_815, "4edf718a00605a6cf38125ccaf850f47d6b3cb10c362d66995c9ac5b06dd211c"},
			after: pin{88_809, "1d7e9287f243aac13c21a702eab62eb6a1e74463f2dc9adcf5dff821fdbede07"},
			chat:  pin{40_080, "b7a08b1f3ff8bd4a68a1e473226131393c14664504e143eb6a4786940ca1cf38"},
		},
		Semantic: {
			first: pin{88_412, "62945b164575d3ab21ba8f13dfa767e0908956b1038281f65fcf5eb9d50e37f5"},
			after: pin{88_475, "9f6dbb551e05611cfcd8c5598201b8b58cf74cd03a2dcb168902c10c0b0ae197"},
			chat:  pin{40_100, "1c6f1a86a8d772add7b1ee8e4e9f8b76174ec90371c84c39fa3de04eb9186874"},
		},
	} {
		t.Run(string(style), func(t *testing.T) {
			b := New("r1", style)
			first := b.HTML()
			apply(t, b, Script(100, Rows))
			c := NewChat(style)
			c.Grow(40_000)
			for what, p := range map[string]struct {
				html []byte
				want pin
			}{
				"the first board":              {first, want.first},
				"the board after 100 commands": {b.HTML(), want.after},
				"a chat log grown to 40,000 B": {c.HTML(), want.chat},
			} {
				assert.Equal(t, p.want, pin{len(p.html), sha(p.html)}, what)
			}
		})
	}
}

func TestSizesAreTheDocuments(t *testing.T) {
	for _, style := range []Style{Utility, Semantic} {
		for _, room := range []string{"r1", "lobby"} {
			b := New(room, style)
			patches := 0
			for _, c := range Script(1000, Rows) {
				require.NoError(t, b.Apply(c.Row, c.Nonce))
				patches += len(b.Row(c.Row))
			}
			size := len(b.HTML())
			assert.True(t, 86_000 <= size && size <= 90_000, "a whole board of %s has about 88 KB, not %d", style, size)
			assert.InDelta(t, 495, float64(patches)/1000, 10, "a row patch of %s has about 500 bytes", style)
		}
		c := NewChat(style)
		for range 300 {
			c.Next()
		}
		mean := len(c.HTML()) / 300
		assert.True(t, 100 <= mean && mean <= 130, "a message of %s has 100 to 130 bytes of HTML on average, not %d", style, mean)
	}
}

func TestACommandChangesOneRow(t *testing.T) {
	for _, style := range []Style{Utility, Semantic} {
		b := New("r1", style)
		for i, c := range Script(50, Rows) {
			before := make([][]byte, b.Rows())
			for k := range before {
				before[k] = b.Row(k)
			}
			require.NoError(t, b.Apply(c.Row, c.Nonce))
			for k := range before {
				if k != c.Row {
					require.Equal(t, string(before[k]), string(b.Row(k)), "command %d leaves row %d alone", i, k)
				}
			}
			require.NotEqual(t, string(before[c.Row]), string(b.Row(c.Row)))
			stamp := []byte(`data-nonce="` + c.Nonce + `"`)
			require.Equal(t, 1, bytes.Count(b.Row(c.Row), stamp), "a client finds its command's patch by the nonce")
			require.Equal(t, 1, bytes.Count(b.HTML(), stamp), "in the whole board too")
			require.Equal(t, 1, bytes.Count(b.HTML(), b.Row(c.Row)), "the whole board shows the row as the row patch does")
		}
	}
}

func TestACommandFollowsFromItsArguments(t *testing.T) {
	for _, style := range []Style{Utility, Semantic} {
		// What the command chooses, without what the row was before.
		choice := func(room string, row int, nonce string) string {
			b := New(room, style)
			require.NoError(t, b.Apply(row, nonce))
			switch r := b.rows[row].(type) {
			case *utilityRow:
				return r.text
			case *semanticRow:
				return fmt.Sprint(r.quantity, r.changed, r.by, r.remark)
			}
			panic(style)
		}
		a := choice("r1", 7, "0000000a")
		assert.Equal(t, a, choice("r1", 7, "0000000a"), "two replays are the same")
		assert.NotEqual(t, a, choice("r1", 7, "0000000b"), "the nonce decides")
		assert.NotEqual(t, a, choice("r1", 8, "0000000a"), "the row decides")
		assert.NotEqual(t, a, choice("r2", 7, "0000000a"), "the room decides")
	}
}

func TestABoardOfAnotherSize(t *testing.T) {
	for _, style := range []Style{Utility, Semantic} {
		small := Sized("r1", style, 3)
		assert.Equal(t, 3, small.Rows())
		assert.Equal(t, New("r1", style).Row(2), small.Row(2), "begins as the larger one does")
		assert.NoError(t, small.Apply(2, "a"))
		assert.ErrorIs(t, small.Apply(3, "a"), ErrNoRow)
	}
}

func TestCallersOwnWhatTheyGet(t *testing.T) {
	b := New("r1", Utility)
	want := string(b.HTML())
	clear(b.Row(0))
	clear(b.HTML())
	assert.Equal(t, want, string(b.HTML()))
	c := NewChat(Utility)
	clear(c.Post("ana", "hi"))
	clear(c.HTML())
	assert.Contains(t, string(c.HTML()), "hi")
}

func TestACommandThatFailsChangesNothing(t *testing.T) {
	b := New("r1", Utility)
	want := string(b.HTML())
	for _, row := range []int{-1, Rows, 1 << 40} {
		err := b.Apply(row, "a")
		assert.ErrorIs(t, err, ErrNoRow)
		assert.EqualError(t, err, fmt.Sprintf("board: no such row: %d; room r1 has 179 rows, from 0", row))
	}
	for _, nonce := range []string{"", `"`, `a" onclick="x`, "'", "<", ">", "&quot;", "`", `\`, "a b", "a\nb", "a\x00", "\x7f", "é", "\xff", strings.Repeat("a", 65)} {
		assert.ErrorIs(t, b.Apply(0, nonce), ErrNonce, "%q is never in an attribute", nonce)
	}
	assert.EqualError(t, b.Apply(0, `a"b`), `board: not a nonce: "a\"b"; it has 1 to 64 ASCII letters, digits, or punctuation but for "&'<>\`+"`")
	assert.Equal(t, want, string(b.HTML()))
	for _, nonce := range []string{"0", "00c0ffee", "-._~!#$%()*+,/:;=?@[]^{|}", "q83vEjRWeJA=", strings.Repeat("a", 64)} {
		require.NoError(t, b.Apply(0, nonce), "any attribute-safe string will do")
		assert.Contains(t, string(b.Row(0)), `data-nonce="`+nonce+`"`)
	}
}

func TestMistakesOfTheProgramPanic(t *testing.T) {
	assert.PanicsWithValue(t, `board: no style "bold"; there are utility, semantic`, func() { New("r1", "bold") })
	assert.PanicsWithValue(t, `board: room "a'b": a name has 1 to 64 letters, digits, or -._~`, func() { New("a'b", Utility) })
	assert.PanicsWithValue(t, `board: no patch "rows"; there are row, board`, func() { NewRooms(Utility, "rows", "r1") })
}

func TestAScriptHasDifferentNonces(t *testing.T) {
	script := Script(20_000, Rows)
	assert.Equal(t, script[:100], Script(100, Rows), "a longer script begins with the shorter")
	nonces, rows := map[string]bool{}, map[int]bool{}
	for _, c := range script {
		assert.Len(t, c.Nonce, 8)
		nonces[c.Nonce], rows[c.Row] = true, true
	}
	assert.Len(t, nonces, len(script))
	assert.Len(t, rows, Rows, "all rows are changed")
}

func TestChatEscapesAndAppends(t *testing.T) {
	for _, style := range []Style{Utility, Semantic} {
		c, twin := NewChat(style), NewChat(style)
		before := c.HTML()
		message := c.Post(`<b>"ana"</b>`, `</p><script>alert('x') & co`)
		assert.Contains(t, string(message), "&lt;b&gt;&#34;ana&#34;&lt;/b&gt;")
		assert.Contains(t, string(message), "&lt;/p&gt;&lt;script&gt;alert(&#39;x&#39;) &amp; co")
		assert.NotContains(t, string(message), "<script>")
		assert.Equal(t, len(before)+len(message), len(c.HTML()), "a log grows by its message")
		assert.Contains(t, string(c.HTML()), string(message))

		for size := 1_000; size < 4_000; size += 7 {
			before := len(c.HTML())
			c.Grow(size)
			if before >= size {
				assert.Len(t, c.HTML(), before, "a log that has the size stays")
			} else {
				assert.GreaterOrEqual(t, len(c.HTML()), size, "a log grows to a size")
				assert.Less(t, len(c.HTML()), size+200, "and no further than its last message")
			}
		}

		twin.Post("", "")
		assert.Equal(t, twin.Next(), twin.again(1), "a line follows from the number of messages before it")
		assert.NotEqual(t, twin.Next(), twin.again(1))
	}
}

// again is the line that another log has after n messages.
func (c *Chat) again(n int) []byte {
	other := &Chat{page: c.page}
	for range n {
		other.Post("someone", "something else")
	}
	return other.Next()
}
