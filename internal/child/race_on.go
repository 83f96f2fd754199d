//go:build race

package child

// RaceDetector says that this binary was built with -race: it and its children
// hold memory for that, and are slow.
const RaceDetector = true
