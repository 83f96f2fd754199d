package hub

// A Hub is a log for each of its rooms. Which rooms there are is said once: a
// client cannot make one by asking for it.
type Hub struct{ rooms map[string]*Log }

// NewHub returns a hub of these rooms, whose logs keep the last n events. The
// room without a name is the one for whoever names none.
func NewHub(n int, rooms ...string) *Hub {
	h := &Hub{rooms: make(map[string]*Log, len(rooms))}
	for _, name := range rooms {
		h.rooms[name] = NewLog(n)
	}
	return h
}

// Room returns a room's log, or nil where there is no such room.
func (h *Hub) Room(name string) *Log { return h.rooms[name] }
