//go:build race

package pushcost

// raceDetector says that this is a run with -race.
const raceDetector = true
