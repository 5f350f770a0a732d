package testrun

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/source"
)

// watchEvery is the interval at which files are checked.
const watchEvery = 300 * time.Millisecond

// watchTests runs the tests, and runs them again whenever one of their files changes, until the context ends. It prints
// the failures of a run and continues.
func (o *options) watchTests(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	for {
		seen := o.fingerprint()
		if err := o.run(cmd); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "Error:", err)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "Waiting for changes (interrupt to end) ...")
		if err := o.waitForChange(ctx, seen); err != nil {
			return nil // an interrupt is the regular end
		}
	}
}

func (o *options) waitForChange(ctx context.Context, seen uint64) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if o.fingerprint() != seen {
				return nil
			}
		}
	}
}

// fingerprint returns a value that changes when a file of a test changes, appears or disappears.
func (o *options) fingerprint() uint64 {
	h := fnv.New64a()
	look := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			fmt.Fprintln(h, path, err)
			return nil
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			fmt.Fprintln(h, path, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	}
	for _, p := range o.paths {
		source.Walk(p, look)
	}
	cases, _, err := loadTests(o.paths, o.fileName, o.clones)
	if err != nil {
		fmt.Fprintln(h, err)
	}
	for i := range cases {
		for _, f := range cases[i].files() {
			if _, err := os.Stat(f); errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintln(h, f, "missing")
				continue
			}
			source.Walk(f, look)
		}
	}
	return h.Sum64()
}
