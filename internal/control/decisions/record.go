package decisions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
	"ephor.invalid/ephor/internal/keystore"
)

// Flags configure which reviews are recorded, and where.
type Flags struct {
	sender   channelFlags
	to       string
	fileSize int64
	capacity int
	shares   []string
	users    string
	cluster  string
	age      time.Duration
	requests bool
	lookups  bool
	redact   []string

	keep      decision.Keep       // parsed from shares
	redaction *decision.Redaction // parsed from redact
}

// Register adds the flags.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.to, "decisions", "", "where to record reviews: "+store.Forms()+"; empty to record none")
	fs.Int64Var(&f.fileSize, "decisionsFileSize", 100<<20, "maximum size of a file of decisions in bytes; a file of JSON lines is then renamed to PATH.1, replacing the previous one, and from a store the oldest decisions are deleted")
	fs.DurationVar(&f.age, "decisionsAge", 720*time.Hour, "age at which decisions are deleted from a store; 0 to keep them")
	fs.StringVar(&f.cluster, "decisionsCluster", "", "name of the cluster that each decision carries; empty for none")
	fs.StringSliceVar(&f.shares, "decisionsShare", []string{"0.01"}, "share of the reviews with verdict passed that is recorded, from 0 to 1; policy=share sets it for reviews in which that policy has a result. All other reviews are recorded")
	fs.StringVar(&f.users, "decisionsUsers", string(decision.NameUsers), "how to record names and groups of users: true as they are, hash as keyed digests, false not at all")
	fs.Lookup("decisionsUsers").NoOptDefVal = string(decision.NameUsers)
	fs.BoolVar(&f.requests, "decisionsRequests", false, "also record the requests, so that impact can evaluate other policies on them")
	fs.BoolVar(&f.lookups, "decisionsLookups", false, "record the lookups of rules with the requests, without the values of Secrets, so that impact can evaluate such rules without a cluster")
	fs.StringSliceVar(&f.redact, "redact", decision.DefaultRedaction, "JSON pointers to values of objects that are not recorded, including in messages; * matches every item of a list or member of an object, ** any number of levels. The values of Secrets are never recorded")
	f.sender.register(fs, "decisions", "the admission controller")
	fs.IntVar(&f.capacity, "maxQueuedDecisions", 1000, "maximum number of reviews that wait to be recorded")
}

// Complete checks the flags.
func (f *Flags) Complete() error {
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
	var err error
	if f.redaction, err = decision.ParseRedaction(f.redact); err != nil {
		errs = append(errs, fmt.Errorf("--redact: %w", err))
	}
	if f.fileSize < 1<<20 {
		errs = append(errs, errors.New("--decisionsFileSize must be at least 1048576"))
	}
	if f.age < 0 {
		errs = append(errs, errors.New("--decisionsAge must not be negative"))
	}
	if users := decision.Users(f.users); !slices.Contains([]decision.Users{decision.NameUsers, decision.HashUsers, decision.OmitUsers}, users) {
		errs = append(errs, fmt.Errorf("--decisionsUsers: %q is not true, hash or false", f.users))
	}
	if f.lookups && !f.requests {
		errs = append(errs, errors.New("--decisionsLookups needs --decisionsRequests"))
	}
	if f.capacity < 1 {
		errs = append(errs, errors.New("--maxQueuedDecisions must be positive"))
	}
	return errors.Join(errs...)
}

// Lookups reports whether the lookups of rules are recorded.
func (f *Flags) Lookups() bool { return f.lookups }

// Record returns the Feed of reviews, nil if nothing is recorded, and the row that renews the certificate with which they are sent to a store in
// another process, if they are. The traces of the process are redacted as the records are.
func (f *Flags) Record(p Process, keys *keystore.Cached) (*decision.Feed, []controller.Row, error) {
	p.Telemetry.Tracer.Redact(f.redaction)
	configure, rows, err := f.sender.send(p)
	if err != nil || f.to == "" {
		return nil, rows, err
	}
	to, err := store.Open(f.to, store.Options{MaxBytes: f.fileSize, MaxAge: f.age, TLS: configure, Damaged: p.damaged, Now: time.Now, Log: p.Telemetry.Log})
	if err != nil {
		return nil, nil, fmt.Errorf("--decisions: %w", err)
	}
	return decision.NewFeed(decision.Options{
		Store: to, Keep: f.keep, Capacity: f.capacity, Users: decision.Users(f.users), Digests: keystore.NewDigests(keys), Cluster: f.cluster, Requests: f.requests, Redaction: f.redaction,
		Observer: p.Telemetry.Metrics, Log: p.Telemetry.Log,
	}), rows, nil
}
