package results

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/decision"
	"github.com/ephor-dev/ephor/internal/observe"
)

// DecisionFlags say which reviews are recorded, and where.
type DecisionFlags struct {
	to       string
	fileSize int64
	capacity int
	shares   []string
	users    bool

	keep decision.Keep // from shares
}

// Register adds the flags.
func (f *DecisionFlags) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.to, "decisions", "", "where reviews are recorded, as JSON lines: stdout, or the path of a file; empty for nowhere")
	fs.Int64Var(&f.fileSize, "decisionsFileSize", 100<<20, "bytes that a file of decisions may have, before it is renamed to PATH.1 in place of the last one")
	fs.StringSliceVar(&f.shares, "decisionsShare", []string{"0.01"}, "share of the reviews that simply passed which is recorded, from 0 to 1; policy=share for those for which a policy has a result. All others are recorded")
	fs.BoolVar(&f.users, "decisionsUsers", true, "record the names and groups of users")
	fs.IntVar(&f.capacity, "maxQueuedDecisions", 1000, "reviews that may wait to be recorded")
}

// Complete checks the flags.
func (f *DecisionFlags) Complete() error {
	f.keep = decision.Keep{By: map[string]float64{}}
	var errs []error
	for _, text := range f.shares {
		name, number, named := strings.Cut(text, "=")
		if !named {
			number = name
		}
		share, err := strconv.ParseFloat(number, 64)
		switch {
		case err != nil || !(share >= 0 && share <= 1):
			errs = append(errs, fmt.Errorf("--decisionsShare: %q is not a share from 0 to 1, or policy=share", text))
		case named:
			f.keep.By[name] = share
		default:
			f.keep.Share = share
		}
	}
	if f.fileSize < 1<<20 {
		errs = append(errs, errors.New("--decisionsFileSize must be at least 1048576"))
	}
	if f.capacity < 1 {
		errs = append(errs, errors.New("--maxQueuedDecisions must be positive"))
	}
	return errors.Join(errs...)
}

// Open returns the Feed of reviews; nil where nothing is recorded.
func (f *DecisionFlags) Open(m *observe.Metrics, log *slog.Logger) (*decision.Feed, error) {
	var store decision.Store
	switch f.to {
	case "":
		return nil, nil
	case "stdout":
		store = decision.NewLines(os.Stdout)
	default:
		file, err := decision.OpenLines(f.to, f.fileSize)
		if err != nil {
			return nil, fmt.Errorf("--decisions: %w", err)
		}
		store = file
	}
	return decision.NewFeed(decision.Options{Store: store, Keep: f.keep, Capacity: f.capacity, OmitUsers: !f.users, Observer: m, Log: log}), nil
}
