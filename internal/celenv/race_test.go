//go:build race

package celenv_test

// raceDetector says that everything takes many times the time and twice the memory.
const raceDetector = true
