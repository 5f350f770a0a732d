//go:build !race

package compilecost_test

const raceDetector = false
