//go:build !unix

package child

import "time"

// CPU is not known here; what is reported of it is 0.
func CPU() time.Duration { return 0 }
