// Package board is the domain of the documents' command architectures, with
// no transport in it: rooms whose boards are pages of HTML, commands that
// change one row, the patches that they cause, and a chat log.
//
// Everything follows from its arguments: what a command does from (room, row,
// nonce) and the board before it, whoever sends it, whenever. Two replays
// give the same bytes, in every process.
package board

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Rows is how many rows a board has unless it is [Sized]: with about 490
// bytes a row, the documents' 88 KB.
const Rows = 179

// A Style is a way of writing pages. There are two that have nothing in
// common but their sizes, so that no result hangs on one generator.
type Style string

const (
	Utility  Style = "utility"  // a list dressed in utility classes; short words
	Semantic Style = "semantic" // a table of order lines; sentences, prices, times
)

// Errors that name what is wrong wrap one of these.
var (
	ErrNoRoom = errors.New("no such room")
	ErrNoRow  = errors.New("no such row")
	ErrNonce  = errors.New("not a nonce")
)

// A page is what a style decides.
type page struct {
	head    func(room string, revision int) []byte // of a board, up to its first row
	foot    string
	row     func(*rand.Rand) row
	log     [2]string // around a chat log's messages
	message func(dst []byte, id int, author, text string) []byte
	line    func(*rand.Rand) (author, text string)
}

// A row has been changed by commands, the last of which is its nonce.
type row interface {
	change(r *rand.Rand, nonce string, revision int) // revision is the board's
	html(room string, i int) []byte
}

var pages = map[Style]page{Utility: utilityPage, Semantic: semanticPage}

func (s Style) page() page {
	p, ok := pages[s]
	if !ok {
		panic(fmt.Sprintf("board: no style %q; there are %s, %s", string(s), Utility, Semantic))
	}
	return p
}

// A Board is one room's page. It is not safe for concurrent use; see [Rooms].
type Board struct {
	room     string
	page     page
	revision int // how many commands it has seen
	rows     []row
	html     [][]byte // of each row; replaced when it changes, never written to
	size     int      // of html
}

// New returns a room's board as it is before the first command. It panics if
// the room's name would have to be escaped in HTML or a URL: rooms are named
// by the program.
func New(room string, style Style) *Board { return Sized(room, style, Rows) }

// Sized is [New] with another number of rows.
func Sized(room string, style Style, rows int) *Board {
	if !safe(room, "-._~") {
		panic(fmt.Sprintf("board: room %q: a name has 1 to %d letters, digits, or -._~", room, maxName))
	}
	b := &Board{room: room, page: style.page(), rows: make([]row, rows), html: make([][]byte, rows)}
	for i := range b.rows {
		b.rows[i] = b.page.row(seeded(room, strconv.Itoa(i)))
		b.render(i)
	}
	return b
}

// Rows returns the number of rows; they are numbered from 0.
func (b *Board) Rows() int { return len(b.rows) }

// Apply executes the command (row, nonce), which changes this row and nothing
// else but the board's revision. A nonce is at most 64 letters, digits and
// punctuation that is the same in an attribute and in JSON, by convention
// eight hex digits. A command that fails, with [ErrNoRow] or [ErrNonce],
// changes nothing.
func (b *Board) Apply(row int, nonce string) error {
	if row < 0 || row >= len(b.rows) {
		return fmt.Errorf("board: %w: %d; room %s has %d rows, from 0", ErrNoRow, row, b.room, len(b.rows))
	}
	if !safe(nonce, "-._~!#$%()*+,/:;=?@[]^{|}") {
		return fmt.Errorf("board: %w: %.80q; it has 1 to %d ASCII letters, digits, or punctuation but for \"&'<>\\`", ErrNonce, nonce, maxName)
	}
	b.revision++
	b.rows[row].change(seeded(b.room, strconv.Itoa(row), nonce), nonce, b.revision)
	b.render(row)
	return nil
}

func (b *Board) render(i int) {
	b.size -= len(b.html[i])
	b.html[i] = b.rows[i].html(b.room, i)
	b.size += len(b.html[i])
}

// Row returns a row's HTML, which has data-nonce="…" of the last command that
// changed it. The slice is the caller's. It panics if there is no such row.
func (b *Board) Row(row int) []byte { return append([]byte(nil), b.html[row]...) }

// HTML returns the whole board. The slice is the caller's.
func (b *Board) HTML() []byte {
	head := b.page.head(b.room, b.revision)
	html := append(make([]byte, 0, len(head)+b.size+len(b.page.foot)), head...)
	for _, row := range b.html {
		html = append(html, row...)
	}
	return append(html, b.page.foot...)
}

const maxName = 64

// safe reports whether s is a short word of letters, digits and these others.
func safe(s, others string) bool {
	for _, c := range []byte(s) {
		if !('0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || strings.IndexByte(others, c) >= 0) {
			return false
		}
	}
	return 0 < len(s) && len(s) <= maxName
}

// A Command is what a client asks of a room.
type Command struct {
	Row   int    `json:"row"`
	Nonce string `json:"nonce"`
}

// Script returns the n commands of every experiment, for boards with this
// many rows: rows at random, nonces of eight hex digits, all different. A
// longer script begins with the shorter.
func Script(n, rows int) []Command {
	r := rand.New(rand.NewPCG(uint64(rows), 0))
	script := make([]Command, n)
	for i := range script {
		script[i] = Command{r.IntN(rows), fmt.Sprintf("%08x", scramble(uint32(i)))}
	}
	return script
}

// scramble maps numbers one to one to numbers that look random (the finish
// of MurmurHash3).
func scramble(h uint32) uint32 {
	h = (h + 1) * 0x9e3779b1
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// seeded returns the randomness that belongs to these words.
func seeded(words ...string) *rand.Rand {
	h := fnv.New64a()
	for _, w := range words {
		h.Write([]byte(w))
		h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(h.Sum64(), 0))
}

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

func phrase(r *rand.Rand, from []string, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = pick(r, from)
	}
	return strings.Join(words, " ")
}
