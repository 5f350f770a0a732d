//go:build !race

package robustness

const raceDetector = false
