package hub

import "sync"

// A Sink is one of many that a message is pushed to. Send must not block: what
// cannot be sent now it queues, and where its queue is full it fails.
type Sink[M any] interface{ Send(M) error }

// A Fanout pushes one message to many sinks. M is a message as all of them
// send it: encoded once, if it can be. A sink whose Send fails is removed: it is
// dead, or too far behind.
//
// Sends are made by the goroutine that broadcasts: each is one write(2), whose
// time is the kernel's.
type Fanout[M any] struct {
	Count // of the sinks

	mu      sync.Mutex
	members []*member[M]

	casting  sync.Mutex
	audience []*member[M] // of the broadcast under way
}

type member[M any] struct {
	sink Sink[M]
	at   int // in members; -1: removed
}

// Add adds a sink, which gets every message that is broadcast from now on. A
// broadcast under way may still send to a sink that was removed.
func (f *Fanout[M]) Add(sink Sink[M]) (remove func()) {
	f.mu.Lock()
	m := &member[M]{sink: sink, at: len(f.members)}
	f.members = append(f.members, m)
	f.mu.Unlock()
	f.Count.Add(1)
	return func() { f.remove(m) }
}

func (f *Fanout[M]) remove(m *member[M]) {
	f.mu.Lock()
	at := m.at
	if at >= 0 {
		last := len(f.members) - 1
		f.members[at] = f.members[last]
		f.members[at].at = at
		f.members[last] = nil
		f.members = f.members[:last]
		m.at = -1
	}
	f.mu.Unlock()
	if at >= 0 {
		f.Count.Add(-1)
	}
}

// Broadcast sends a message to every sink and returns how many took it and how
// many were dropped. Sinks get all broadcasts in the same order: they follow
// one another.
func (f *Fanout[M]) Broadcast(message M) (sent, dropped int) {
	f.casting.Lock()
	defer f.casting.Unlock()
	f.mu.Lock()
	f.audience = append(f.audience, f.members...)
	f.mu.Unlock()

	for _, m := range f.audience {
		if m.sink.Send(message) != nil {
			f.remove(m)
			dropped++
		}
	}
	sent = len(f.audience) - dropped
	clear(f.audience) // or it would keep the memory of who leaves
	f.audience = f.audience[:0]
	return sent, dropped
}
