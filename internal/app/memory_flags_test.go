package app

import "testing"

func TestMemoryRatio(t *testing.T) {
	for ratio, good := range map[float64]bool{0.9: true, 1: true, 0: false, -1: false, 1.1: false} {
		if err := (&memoryFlags{ratio: ratio}).complete(); (err == nil) != good {
			t.Errorf("ratio %v: %v", ratio, err)
		}
	}
}
