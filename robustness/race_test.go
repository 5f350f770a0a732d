//go:build race

package robustness

// raceDetector: everything takes many times as long.
const raceDetector = true
