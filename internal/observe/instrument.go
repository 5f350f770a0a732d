package observe

import (
	"slices"
	"sort"
	"strings"

	"ephor.invalid/ephor/internal/compile"
)

// Kind is the type of an instrument.
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
	// Name is the name in the metrics ConfigMap and in OTLP. On /metrics, a counter has the name Name_total.
	Name string
	Kind Kind
	// Bare: /metrics also shows the counter with its plain Name.
	Bare bool
	// Labels are the names of the labels. A question mark at the end marks labels with an unlimited number of values, which come from users
	// or the cluster. Beyond the limit, series have the value "other" for these labels.
	Labels []string
	// Scope is the value of otel_scope_name. It is empty for all metrics except those of the HTTP server.
	Scope string
	// Help is one sentence for readers of /metrics.
	Help string
	// Ours: Kyverno has no such metric.
	Ours bool
	// Query is an example of a PromQL expression that uses the metric.
	Query string
}

// scopeName and scopeVersion are the scope labels of nearly all series, as in Kyverno.
const scopeName = "kyverno"

// Exposed returns the name on /metrics.
func (i *Instrument) Exposed() string {
	if i.Kind == Counter && !strings.HasSuffix(i.Name, "_total") {
		return i.Name + "_total"
	}
	return i.Name
}

// LabelNames returns the names of the labels without question marks, in order of declaration.
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

// column is the source of a label's value in a written series: an index in the key, or a constant.
type column struct {
	name     string
	at       int // -1 for a constant
	constant string
}

// columns returns the labels of a written series in alphabetical order. It returns only those in keep.
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

// Declared returns all instruments, sorted by name.
func Declared() []Instrument { return declaredFor(nil) }

// declaredFor returns all instruments for policies of the given families, sorted by name.
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
