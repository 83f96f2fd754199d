package child

import "github.com/shirou/gopsutil/v4/process"

// resident prefers smaps, which counts pages: a process's statm may be off by
// what each core has not yet added up.
func resident(p *process.Process) (int64, error) {
	if maps, err := p.MemoryMaps(true); err == nil {
		return int64((*maps)[0].Rss) * 1024, nil
	}
	info, err := p.MemoryInfo()
	if err != nil {
		return 0, err
	}
	return int64(info.RSS), nil
}
