//go:build race

package robustness

// raceDetector says that everything takes many times as long.
const raceDetector = true
