package globals

import (
	"errors"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/globalctx"
)

// Flags limit the resources of all GlobalContextEntries.
type Flags struct{ maxEntries, maxBytes int }

// Register adds the flags.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.IntVar(&f.maxEntries, "maxGlobalContextEntries", 0, "maximum number of GlobalContextEntries that hold data at the same time; 0 for no limit")
	fs.IntVar(&f.maxBytes, "maxGlobalContextBytes", globalctx.DefaultMaxBytes, "maximum total size in bytes of the resources of all GlobalContextEntries, as JSON; in memory they take several times as much")
}

// Complete checks the flags.
func (f *Flags) Complete() error {
	if f.maxEntries < 0 || f.maxBytes <= 0 {
		return errors.New("--maxGlobalContextEntries must not be negative, --maxGlobalContextBytes must be positive")
	}
	return nil
}
