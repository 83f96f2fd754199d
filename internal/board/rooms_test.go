package board

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPatchesAreTheRowOrTheBoard(t *testing.T) {
	for _, style := range []Style{Utility, Semantic} {
		b := New("r1", style)
		rows, whole := NewRooms(style, Row, "r1"), NewRooms(style, Whole, "r1")
		for _, c := range Script(20, Rows) {
			require.NoError(t, b.Apply(c.Row, c.Nonce))
			patch, err := rows.Do("r1", c.Row, c.Nonce)
			require.NoError(t, err)
			assert.Equal(t, string(b.Row(c.Row)), string(patch))
			patch, err = whole.Do("r1", c.Row, c.Nonce)
			require.NoError(t, err)
			assert.Equal(t, string(b.HTML()), string(patch))
		}
		joined, err := rows.HTML("r1")
		require.NoError(t, err)
		assert.Equal(t, string(b.HTML()), string(joined), "who joins sees what the others see")
	}
}

// C15: the handler is a function of (room, id, nonce). Here a route, a timer
// and a webhook call it.
func TestTheHandlerDoesNotKnowWhoCalls(t *testing.T) {
	for _, mode := range []Patch{Row, Whole} {
		callers := map[string]func(*Rooms, Command){
			"route": func(r *Rooms, c Command) {
				mux := http.NewServeMux()
				mux.HandleFunc("POST /rooms/{room}/rows/{row}/{nonce}", func(_ http.ResponseWriter, req *http.Request) {
					row, err := strconv.Atoi(req.PathValue("row"))
					require.NoError(t, err)
					_, err = r.Do(req.PathValue("room"), row, req.PathValue("nonce"))
					assert.NoError(t, err)
				})
				mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/rooms/r1/rows/"+strconv.Itoa(c.Row)+"/"+c.Nonce, nil))
			},
			"timer": func(r *Rooms, c Command) {
				time.AfterFunc(time.Hour, func() {
					_, err := r.Do("r1", c.Row, c.Nonce)
					assert.NoError(t, err)
				})
				time.Sleep(time.Hour)
				synctest.Wait()
			},
			"webhook": func(r *Rooms, c Command) {
				body, err := json.Marshal(c)
				require.NoError(t, err)
				var hook Command
				require.NoError(t, json.NewDecoder(bytes.NewReader(body)).Decode(&hook))
				_, err = r.Do("r1", hook.Row, hook.Nonce)
				assert.NoError(t, err)
			},
		}
		want := NewRooms(Semantic, mode, "r1")
		var patches []string
		for _, c := range Script(5, Rows) {
			patch, err := want.Do("r1", c.Row, c.Nonce)
			require.NoError(t, err)
			patches = append(patches, string(patch))
		}
		for name, call := range callers {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				r := NewRooms(Semantic, mode, "r1")
				r.Publish = func(_ string, patch []byte) { got = append(got, string(patch)) }
				for _, c := range Script(5, Rows) {
					call(r, c)
				}
				assert.Equal(t, patches, got, "a %s's commands cause the same %s patches", name, mode)
			})
		}
	}
}

func TestRoomsAreSafeForConcurrentUse(t *testing.T) {
	const clients, each = 8, 10
	script := Script(clients*each, Rows)
	nonce := map[string]Command{}
	for _, c := range script {
		nonce[c.Nonce] = c
	}
	for _, mode := range []Patch{Row, Whole} {
		r := NewRooms(Semantic, mode, "a", "b")
		// Not locked: a room's own lock must be enough.
		published := map[string]*[]string{"a": {}, "b": {}}
		r.Publish = func(room string, patch []byte) {
			*published[room] = append(*published[room], string(patch))
		}
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				for _, c := range script[i*each : (i+1)*each] {
					for _, room := range []string{"a", "b"} {
						patch, err := r.Do(room, c.Row, c.Nonce)
						assert.NoError(t, err)
						assert.Contains(t, string(patch), c.Nonce, "a caller gets its own command's patch")
						_, err = r.HTML(room)
						assert.NoError(t, err)
					}
				}
			})
		}
		wg.Wait()
		for room, patches := range published {
			require.Len(t, *patches, len(script))
			replay := New(room, Semantic)
			for i, patch := range *patches {
				revision := strconv.Itoa(i + 1)
				at := strings.Index(patch, `data-revision="`+revision+`"><th`)
				require.Positive(t, at, "patch %s of room %s is published in its turn", revision, room)
				c := nonce[patch[at-len(`00000000" `):at-len(`" `)]]
				require.NoError(t, replay.Apply(c.Row, c.Nonce))
			}
			html, err := r.HTML(room)
			require.NoError(t, err)
			assert.Equal(t, string(replay.HTML()), string(html), "the patches tell the whole story of the room")
		}
	}
}

func TestWhatRoomsRefuse(t *testing.T) {
	r := NewRooms(Utility, Row, "r1")
	r.Publish = func(string, []byte) { t.Error("nothing is published of a command that fails") }
	before, err := r.HTML("r1")
	require.NoError(t, err)

	_, err = r.Do("r9", 0, "a")
	assert.ErrorIs(t, err, ErrNoRoom)
	assert.EqualError(t, err, `board: no such room: "r9"`)
	_, err = r.HTML("r9")
	assert.ErrorIs(t, err, ErrNoRoom)
	for _, c := range []struct {
		row   int
		nonce string
		want  error
	}{{Rows, "a", ErrNoRow}, {-1, "a", ErrNoRow}, {0, `"`, ErrNonce}} {
		patch, err := r.Do("r1", c.row, c.nonce)
		assert.ErrorIs(t, err, c.want)
		assert.Nil(t, patch)
	}
	_, err = r.Do(strings.Repeat("x", 10_000), 0, "a")
	assert.Less(t, len(err.Error()), 200, "an error does not repeat a long name")

	after, err := r.HTML("r1")
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
}
