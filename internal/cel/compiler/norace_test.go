//go:build !race

package compiler_test

const raceDetector = false
