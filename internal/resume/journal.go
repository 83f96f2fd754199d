package resume

import "pushcost/internal/hub"

// A Journal is what an application still knows when its process has ended and
// begun again: the last event it applied, which it writes down together with
// what the event changed, and a cursor, which it saves less often. (It cannot
// be the other way round: an event whose cursor is saved first may be lost.) A
// subscription that starts at the cursor brings the events between the two
// once more.
type Journal struct {
	Every   uint64 // events from one saving of the cursor to the next
	Applied uint64
	Cursor  uint64
}

// Take says whether an event is to be applied: it is not if it has been.
func (j *Journal) Take(e hub.Event) bool {
	if e.ID <= j.Applied {
		return false
	}
	j.Applied = e.ID
	if e.ID >= j.Cursor+j.Every {
		j.Cursor = e.ID
	}
	return true
}
