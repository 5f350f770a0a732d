//go:build race

package robustness

// raceDetector tells that everything takes many times as long.
const raceDetector = true
