//go:build !race

package pushcost

const raceDetector = false
