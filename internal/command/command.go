// Package command is the write path: a command as it travels, the handler
// that executes it and knows of no transport, and the two ways up to it, a
// POST and a WebSocket's message.
package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"pushcost/internal/board"
	"pushcost/internal/hub"
)

// A Command is what a client sends, in JSON and the same on every way up.
type Command struct {
	ID    int    `json:"id"`            // of the row
	Nonce string `json:"nonce"`         // tells the command's patch from others
	Seq   uint64 `json:"seq,omitempty"` // its place among its client's commands, from 1; 0: it has none
}

// Encode returns the command in JSON.
func (c Command) Encode() []byte {
	data, _ := json.Marshal(c) // numbers and a string
	return data
}

// Decode reads what Encode writes and nothing else: a field it does not know,
// a command without a nonce and anything behind it are errors that say so.
func Decode(data []byte) (c Command, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("command: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return c, errors.New("command: there is something behind it")
	}
	if c.Nonce == "" {
		return c, errors.New("command: it has no nonce")
	}
	return c, nil
}

// A Handler executes the command (id, nonce) in a room: a function of these
// three and of nothing else, whoever calls it.
type Handler func(room string, id int, nonce string) error

// OnBoard returns the handler that applies a command to its room's board and
// publishes the patch on the room's log, patches in the order of application.
// The hub has every room that has a board. Its errors are those of
// [board.Rooms.Do].
func OnBoard(rooms *board.Rooms, h *hub.Hub) Handler {
	rooms.Publish = func(room string, patch []byte) { h.Room(room).Publish(patch) }
	return func(room string, id int, nonce string) error {
		_, err := rooms.Do(room, id, nonce)
		return err
	}
}
