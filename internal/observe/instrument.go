package observe

import (
	"slices"
	"sort"
	"strings"

	"github.com/ephor-dev/ephor/internal/compile"
)

// Kind says what the numbers of an instrument mean.
type Kind uint8

// The kinds of instruments.
const (
	Counter Kind = iota
	Gauge
	Histogram
)

func (k Kind) String() string { return [...]string{"counter", "gauge", "histogram"}[k] }

// Instrument declares one metric.
type Instrument struct {
	// Name is the name in the metrics ConfigMap and in OTLP. On /metrics a counter is called Name_total.
	Name string
	Kind Kind
	// Bare: on /metrics the counter is there a second time, under its Name.
	Bare bool
	// Labels are the names of the labels. Those whose values come from users or from the cluster, so that their number
	// has no bound, end in a question mark here; in the series that take what is too much they are "other".
	Labels []string
	// Scope is the value of otel_scope_name; empty for the one of all but the HTTP server's metrics.
	Scope string
	// Help is one sentence for those who read /metrics.
	Help string
	// Ours: Kyverno has no such metric.
	Ours bool
	// Query is a PromQL expression that shows what the metric is good for.
	Query string
}

// scopeName and scopeVersion are the scope labels of nearly all series, as Kyverno's users know them.
const scopeName = "kyverno"

// Exposed is the name on /metrics.
func (i *Instrument) Exposed() string {
	if i.Kind == Counter && !strings.HasSuffix(i.Name, "_total") {
		return i.Name + "_total"
	}
	return i.Name
}

// LabelNames are the names of the labels without marks, in order of declaration.
func (i *Instrument) LabelNames() []string {
	out := make([]string, len(i.Labels))
	for k, l := range i.Labels {
		out[k], _ = cutMark(l)
	}
	return out
}

func cutMark(label string) (name string, open bool) {
	if n := len(label) - 1; n >= 0 && label[n] == '?' {
		return label[:n], true
	}
	return label, false
}

// column is where a label's value comes from when a series is written: a position in the key, or a constant.
type column struct {
	name     string
	at       int // -1 for a constant
	constant string
}

// columns are the labels of a written series in alphabetic order, for those labels that keep says.
func (i *Instrument) columns(keep []bool) []column {
	scope, version := i.Scope, ""
	if scope == "" {
		scope = scopeName
	} else {
		version = scopeVersions[scope]
	}
	out := []column{{"otel_scope_name", -1, scope}, {"otel_scope_schema_url", -1, ""}, {"otel_scope_version", -1, version}}
	at := 0
	for k, name := range i.LabelNames() {
		if keep[k] {
			out = append(out, column{name: name, at: at})
			at++
		}
	}
	sort.Slice(out, func(a, b int) bool { return out[a].name < out[b].name })
	return out
}

// Declared returns all instruments, in order of name.
func Declared() []Instrument { return declaredFor(nil) }

// declaredFor returns all instruments for policies of some families, in order of name.
func declaredFor(families *compile.Registry) []Instrument {
	out := append(slices.Clone(declared), resultInstruments(families)...)
	slices.SortFunc(out, func(a, b Instrument) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}
