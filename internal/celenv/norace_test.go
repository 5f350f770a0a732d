//go:build !race

package celenv_test

const raceDetector = false
