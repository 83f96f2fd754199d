package crowd

import (
	"net/http"
	"strconv"
	"sync"

	"pushcost/internal/hub"
	"pushcost/internal/transport"
)

var polls = []Contestant{
	{Transport: "poll", Lib: "http", Over: []transport.HTTP{transport.HTTP1, transport.HTTP2}, TLS: true, serve: servePoll},
}

// pollLog is how many events a client may be behind between two polls.
const pollLog = 1024

// A pollServer parks requests until there is an event after their cursor. Its
// Len is of those that are parked.
type pollServer struct {
	*door
	hub.Count
	log *hub.Log

	mu  sync.Mutex
	due chan struct{} // closed by a heartbeat
}

func servePoll(d *door) (Server, error) {
	s := &pollServer{door: d, log: hub.NewLog(pollLog), due: make(chan struct{})}
	d.serveHTTP(func(w http.ResponseWriter, r *http.Request) {
		after, err := strconv.ParseUint(r.FormValue("cursor"), 10, 64)
		if err != nil {
			http.Error(w, "cursor "+strconv.Quote(r.FormValue("cursor"))+" is not the id of an event", http.StatusBadRequest)
			return
		}
		events, more, err := s.log.Since(after)
		if err == nil && len(events) == 0 {
			s.park(r, more)
			events, _, err = s.log.Since(after)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusGone)
			return
		}
		body := []byte{'['}
		for i, e := range events {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(body, e.Data...)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Write(append(body, ']')) // to who has left, in vain
	})
	return s, nil
}

// park waits for more, for a heartbeat or for the client to leave.
func (s *pollServer) park(r *http.Request, more <-chan struct{}) {
	s.mu.Lock()
	due := s.due
	s.mu.Unlock()
	s.Add(1)
	defer s.Add(-1)
	select {
	case <-more:
	case <-due:
	case <-r.Context().Done():
	}
}

// Broadcast answers who is parked. Who is between two polls gets the event with
// the next one.
func (s *pollServer) Broadcast(data []byte) (sent, dropped int) {
	parked := s.Len()
	s.log.Publish(data)
	return parked, 0
}

// Beat answers with nothing.
func (s *pollServer) Beat() int {
	parked := s.Len()
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.due)
	s.due = make(chan struct{})
	return parked
}

// Heard is 0: requests are not counted.
func (s *pollServer) Heard() int64 { return 0 }
