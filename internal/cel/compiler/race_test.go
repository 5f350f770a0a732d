//go:build race

package compiler_test

// raceDetector is true if the race detector is on, which makes everything many times slower and doubles the memory.
const raceDetector = true
