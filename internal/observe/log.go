package observe

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// LogOptions configure the log of a process.
type LogOptions struct {
	// Format is text or json.
	Format string
	// Times is the format of times, one of TimeFormats; empty for the default.
	Times string
	// Verbosity is the verbosity of klog. From 4 on, debug messages are logged, together with library messages of that level.
	Verbosity int
	// Color colours the levels in the text format, for terminals.
	Color bool
}

// timeFormats maps the names of time formats to functions.
var timeFormats = map[string]func(time.Time) slog.Value{
	"default":     nil,
	"iso8601":     layout("2006-01-02T15:04:05.000Z0700"),
	"rfc3339":     layout(time.RFC3339),
	"rfc3339nano": layout(time.RFC3339Nano),
	"millis":      func(t time.Time) slog.Value { return slog.Float64Value(float64(t.UnixNano()) / 1e6) },
	"nanos":       func(t time.Time) slog.Value { return slog.Int64Value(t.UnixNano()) },
	"epoch":       func(t time.Time) slog.Value { return slog.Float64Value(float64(t.UnixNano()) / 1e9) },
}

func layout(l string) func(time.Time) slog.Value {
	return func(t time.Time) slog.Value { return slog.StringValue(t.Format(l)) }
}

// TimeFormats returns the names of the time formats.
func TimeFormats() []string { return slices.Sorted(maps.Keys(timeFormats)) }

// NewHandler returns the log handler of a process, or an error for invalid options.
func NewHandler(w io.Writer, o LogOptions) (slog.Handler, error) {
	if o.Times == "" {
		o.Times = "default"
	}
	write, ok := timeFormats[o.Times]
	if !ok {
		return nil, fmt.Errorf("%q is none of %s", o.Times, strings.Join(TimeFormats(), ", "))
	}
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if o.Verbosity >= 4 {
		options.Level = slog.Level(-o.Verbosity) // V(n) in the libraries is level -n; V(4) is Debug in slog
	}
	if write != nil {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
				a.Value = write(a.Value.Time())
			}
			return a
		}
	}
	switch o.Format {
	case "json":
		return slog.NewJSONHandler(w, options), nil
	case "text":
		if o.Color {
			w = coloring{w}
		}
		return slog.NewTextHandler(w, options), nil
	}
	return nil, fmt.Errorf("%q is neither text nor json", o.Format)
}

// coloring colours the level of each line. It expects that a handler writes each line with one call.
type coloring struct{ next io.Writer }

var colors = []struct{ level, colored []byte }{
	{[]byte("level=ERROR"), []byte("level=\x1b[31mERROR\x1b[0m")},
	{[]byte("level=WARN"), []byte("level=\x1b[33mWARN\x1b[0m")},
	{[]byte("level=INFO"), []byte("level=\x1b[32mINFO\x1b[0m")},
	{[]byte("level=DEBUG"), []byte("level=\x1b[36mDEBUG\x1b[0m")},
}

func (c coloring) Write(line []byte) (int, error) {
	for _, k := range colors {
		// The level follows the time. A later match would be part of a value.
		if i := bytes.Index(line, k.level); i >= 0 && i < 64 {
			colored := append(append(append([]byte(nil), line[:i]...), k.colored...), line[i+len(k.level):]...)
			_, err := c.next.Write(colored)
			return len(line), err
		}
	}
	return c.next.Write(line)
}
