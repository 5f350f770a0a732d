package app

import (
	"errors"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/lifecycle"
)

// memoryFlags limit the memory according to the limit of the container.
type memoryFlags struct {
	enabled bool
	ratio   float64
}

func (f *memoryFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.enabled, "autoMemLimitEnabled", true, "collect garbage more often as memory use nears the limit of the container")
	fs.Float64Var(&f.ratio, "autoMemLimitRatio", 0.9, "fraction of the container's memory that the heap may use, above 0 and up to 1")
}

func (f *memoryFlags) complete() error {
	if !(f.ratio > 0 && f.ratio <= 1) {
		return errors.New("--autoMemLimitRatio must be above 0 and at most 1")
	}
	return nil
}

// tune configures the garbage collector.
func (f *memoryFlags) tune() {
	ratio := f.ratio
	if !f.enabled {
		ratio = 0
	}
	lifecycle.TuneHeap(ratio)
}
