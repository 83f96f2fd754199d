//go:build !linux

package child

import "github.com/shirou/gopsutil/v4/process"

// resident is the size of a process's resident pages.
func resident(p *process.Process) (int64, error) {
	info, err := p.MemoryInfo()
	if err != nil {
		return 0, err
	}
	return int64(info.RSS), nil
}
