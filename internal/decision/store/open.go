package store

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// Options has the settings that the stores of a process have in common.
type Options struct {
	// MaxBytes bounds the size of a store or file, MaxAge the age of records; zero for no bound.
	MaxBytes int64
	MaxAge   time.Duration
	// TLS returns the TLS configuration of the next connection to another Ephor process that has a store; nil if there are no certificates
	// for it.
	TLS func() (*tls.Config, error)
	// Damaged is called when a damaged file was set aside; nil for none.
	Damaged func(path string, err error)
	Now     func() time.Time
	Log     *slog.Logger
}

// row is one kind of store: the beginning of its address, and how it is opened.
type row struct {
	prefix string
	open   func(address string, o Options) (decision.Store, error)
}

// rows has all kinds of stores. An address with none of the prefixes is the path of a file of JSON lines.
var rows = []row{
	{"sqlite:", func(address string, o Options) (decision.Store, error) {
		return NewSQLite(strings.TrimPrefix(address, "sqlite:"), o)
	}},
	{"otlp://", func(address string, _ Options) (decision.Store, error) { return NewOTLP(address) }},
	{"otlp+insecure://", func(address string, _ Options) (decision.Store, error) { return NewOTLP(address) }},
	{"postgres://", func(address string, o Options) (decision.Store, error) { return NewPostgres(address, o) }},
	{"https://", func(address string, o Options) (decision.Store, error) { return NewRemote(address, o.TLS) }},
	{"stdout", func(address string, _ Options) (decision.Store, error) {
		if address != "stdout" {
			return nil, fmt.Errorf("%q: stdout has no parameters", address)
		}
		return decision.NewLines(os.Stdout), nil
	}},
}

// Open returns the store at an address. The error does not contain a password.
func Open(address string, o Options) (decision.Store, error) {
	for _, r := range rows {
		if strings.HasPrefix(address, r.prefix) {
			return r.open(address, o)
		}
	}
	if scheme, _, ok := strings.Cut(address, "://"); ok {
		return nil, fmt.Errorf("there is no store for %s://", scheme)
	}
	if address == "" {
		return nil, errors.New("a store has an address")
	}
	return decision.OpenLines(address, o.MaxBytes)
}

// Readable is a store that is open for reading.
type Readable interface {
	decision.Reader
	Close() error
}

// OpenReader opens a store for reading only: sqlite:PATH, which another process may have open, or postgres://USER@HOST/DATABASE, whose tables
// it does not change.
func OpenReader(address string) (Readable, error) {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return ReadSQLite(path)
	}
	if !strings.HasPrefix(address, "postgres://") {
		return nil, errors.New("a store that can be read is sqlite:PATH or postgres://USER@HOST/DATABASE")
	}
	s, err := NewPostgres(address, Options{})
	if err != nil {
		return nil, err
	}
	s.reads = true
	return s, nil
}
