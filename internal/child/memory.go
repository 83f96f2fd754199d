package child

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// Memory is what a process holds, in bytes, and what it has open.
type Memory struct {
	RSS        int64 // resident pages
	Heap       int64 // live objects
	Stack      int64 // of goroutines
	Goroutines int
	Threads    int
	FDs        int

	// Kernel is what the kernel holds for the sockets of the whole machine,
	// whoever's they are; 0 where that cannot be read.
	Kernel int64
}

// self is what every child answers of itself.
type self struct{}

func (self) CPU(_ int, t *time.Duration) error {
	*t = CPU()
	return nil
}

func (self) Allocs(_ int, objects *int64) error {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(samples)
	*objects = int64(samples[0].Value.Uint64())
	return nil
}

// signalStack is what the runtime takes for a thread's signals from where the
// stacks of goroutines are. How many threads there are is not up to those: a
// busy machine has twice as many.
const signalStack = 32 << 10

// Memory collects twice, since a pool or a finalizer releases in the first
// collection what the second one frees, and returns free pages.
func (self) Memory(_ int, m *Memory) (err error) {
	runtime.GC()
	debug.FreeOSMemory() // which collects too
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/sched/goroutines:goroutines"},
		{Name: "/sched/threads/total:threads"},
	}
	metrics.Read(samples)
	m.Heap = int64(samples[0].Value.Uint64())
	m.Goroutines, m.Threads = int(samples[2].Value.Uint64()), int(samples[3].Value.Uint64())
	m.Stack = int64(samples[1].Value.Uint64()) - int64(m.Threads)*signalStack
	m.Kernel = sockets()
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return err
	}
	if m.RSS, err = resident(p); err != nil {
		return err
	}
	fds, err := p.NumFDs()
	m.FDs = int(fds)
	return err
}

// sockets is the size of the kernel objects behind a socket and its
// descriptor, from /proc/slabinfo, which only root may read. Not among them are
// buffers with bytes in them, and dentries (192 B a socket), whose slab every
// other program moves too.
func sockets() (total int64) {
	text, err := os.ReadFile("/proc/slabinfo")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		var name string
		var active, objects, size int64
		if _, err := fmt.Sscan(string(line), &name, &active, &objects, &size); err == nil && slices.Contains(slabs, name) {
			total += active * size
		}
	}
	return total
}

var slabs = []string{"TCP", "sock_inode_cache", "filp", "eventpoll_epi", "eventpoll_pwq"}
