//go:build !race

package child

// RaceDetector says that this binary was built with -race.
const RaceDetector = false
