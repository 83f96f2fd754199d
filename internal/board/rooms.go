package board

import (
	"fmt"
	"sync"
)

// A Patch is what subscribers are sent after a command.
type Patch string

const (
	Row   Patch = "row"   // the changed row, about 500 bytes
	Whole Patch = "board" // the whole board, about 88 KB, for the client to morph into
)

// Rooms are the boards that commands are for. They are safe for concurrent
// use.
type Rooms struct {
	// Publish, if set before the first command, is called with every patch
	// while its room is locked: a room's patches are published in the order
	// in which their commands were applied, which those who publish what Do
	// returns cannot promise. It must not call Rooms.
	Publish func(room string, patch []byte)

	patch Patch
	rooms map[string]*room // never changes
}

type room struct {
	mu    sync.Mutex
	board *Board
}

// NewRooms returns rooms with these names whose commands are answered with
// patches of this kind. It panics where [New] does.
func NewRooms(style Style, patch Patch, names ...string) *Rooms {
	if patch != Row && patch != Whole {
		panic(fmt.Sprintf("board: no patch %q; there are %s, %s", string(patch), Row, Whole))
	}
	r := &Rooms{patch: patch, rooms: map[string]*room{}}
	for _, name := range names {
		r.rooms[name] = &room{board: New(name, style)}
	}
	return r
}

// Do is the command handler: it applies the command (row, nonce) to a room,
// publishes the patch and returns it, a slice of its own which, once
// published, nobody may change. It knows neither who calls nor who listens.
// It fails with [ErrNoRoom], [ErrNoRow] or [ErrNonce], and then
// nothing has changed and nothing is published.
func (r *Rooms) Do(room string, row int, nonce string) (patch []byte, err error) {
	err = r.locked(room, func(b *Board) error {
		if err := b.Apply(row, nonce); err != nil {
			return err
		}
		if r.patch == Row {
			patch = b.Row(row)
		} else {
			patch = b.HTML()
		}
		if r.Publish != nil {
			r.Publish(room, patch)
		}
		return nil
	})
	return patch, err
}

// HTML returns a room's whole board, for those who join. Take the place in
// the log where the joiner begins before, not after: then no patch is missed,
// and one that comes twice does no harm, since the last one wins.
func (r *Rooms) HTML(room string) (html []byte, err error) {
	err = r.locked(room, func(b *Board) error {
		html = b.HTML()
		return nil
	})
	return html, err
}

func (r *Rooms) locked(name string, f func(*Board) error) error {
	room, ok := r.rooms[name]
	if !ok {
		return fmt.Errorf("board: %w: %.80q", ErrNoRoom, name)
	}
	room.mu.Lock()
	defer room.mu.Unlock()
	return f(room.board)
}
