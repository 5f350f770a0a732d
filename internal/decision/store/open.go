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

// row is one kind of store.
type row struct {
	// prefix begins its addresses.
	prefix string
	// form shows users how an address is written, and is says what is there; empty if another row shows it.
	form, is string
	open     func(address string, o Options) (decision.Store, error)
	// read opens a store for reading only; nil if it cannot be read.
	read func(address string) (Readable, error)
	// name stands for an address that may contain a password, in messages; empty if an address contains none.
	name string
}

// rows has all kinds of stores. Each is declared in its own file.
var rows = []row{linesRow, stdoutRow, sqliteRow, remoteRow, postgresRow, otlpRow, insecureOTLPRow}

var (
	stdoutRow = row{prefix: "stdout", open: func(address string, _ Options) (decision.Store, error) {
		if address != "stdout" {
			return nil, fmt.Errorf("%q: stdout has no parameters", address)
		}
		return decision.NewLines(os.Stdout), nil
	}}
	// linesRow has the addresses without a prefix of another row.
	linesRow = row{form: "stdout or a file path", is: "JSON lines", open: func(address string, o Options) (decision.Store, error) {
		if scheme, _, ok := strings.Cut(address, "://"); ok {
			return nil, fmt.Errorf("there is no store for %s://", scheme)
		}
		if address == "" {
			return nil, errors.New("a store has an address")
		}
		return decision.OpenLines(address, o.MaxBytes)
	}}
)

// rowOf returns the kind of the store at an address.
func rowOf(address string) *row {
	for i := range rows {
		if p := rows[i].prefix; p != "" && strings.HasPrefix(address, p) {
			return &rows[i]
		}
	}
	return &linesRow
}

// Open returns the store at an address. The error does not contain a password.
func Open(address string, o Options) (decision.Store, error) { return rowOf(address).open(address, o) }

// Readable is a store that is open for reading.
type Readable interface {
	decision.Reader
	Close() error
}

// OpenReader opens a store for reading only. Another process may have it open.
func OpenReader(address string) (Readable, error) {
	r := rowOf(address)
	if r.read == nil {
		return nil, errors.New("a store that can be read is " + ReadForms())
	}
	return r.read(address)
}

// CanRead reports whether an address is that of a store that OpenReader opens. Records in a file of JSON lines are read by decision.Read.
func CanRead(address string) bool { return rowOf(address).read != nil }

// Forms lists for users how addresses are written, and what is there.
func Forms() string {
	var out []string
	for _, r := range rows {
		if r.form != "" {
			out = append(out, r.form+" for "+r.is)
		}
	}
	return strings.Join(out, ", ")
}

// ReadForms lists for users how addresses of stores are written that OpenReader opens.
func ReadForms() string {
	var out []string
	for _, r := range rows {
		if r.read != nil {
			out = append(out, r.form)
		}
	}
	return strings.Join(out, " or ")
}

// Name returns the name of a store for messages: its address, or words for an address that may contain a password.
func Name(address string) string {
	if r := rowOf(address); r.name != "" {
		return r.name
	}
	return address
}
