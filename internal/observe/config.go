package observe

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/diag"
)

// Config is the content of the metrics ConfigMap. The zero Config means that there is no ConfigMap.
type Config struct {
	// Include and Exclude are the namespaces whose requests and policies are counted or not counted. Exclude takes precedence; an empty
	// Include means all namespaces.
	Include, Exclude []string
	// Refresh is the interval at which all series are reset, so that the series of deleted objects disappear; 0 for never.
	Refresh time.Duration
	// Buckets are the bounds of the histograms; nil for DefaultBuckets.
	Buckets []float64
	// Exposure is the exposure of each instrument, by name.
	Exposure map[string]Exposure
}

// Exposure is the entry of metricsExposure for one instrument.
type Exposure struct {
	// Enabled: nil and true expose the instrument.
	Enabled *bool `json:"enabled,omitempty"`
	// DisabledLabelDimensions are labels that are omitted. Series that differ only in these labels are counted together.
	DisabledLabelDimensions []string `json:"disabledLabelDimensions,omitempty"`
	// BucketBoundaries are the bounds of this histogram.
	BucketBoundaries []float64 `json:"bucketBoundaries,omitempty"`
	// BareName: false omits the second name of a counter on /metrics, without the suffix _total.
	BareName *bool `json:"bareName,omitempty"`
}

// DefaultBuckets are the bounds of histograms in seconds.
var DefaultBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 25, 30}

// serverBuckets are the bounds of http_server_request_duration, in seconds.
var serverBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// sizeBuckets are the bounds of histograms in bytes.
var sizeBuckets = []float64{0, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}

// ParseConfig parses the data of the metrics ConfigMap. Keys that cannot be parsed and unknown instrument names have no
// effect and are reported.
func ParseConfig(data map[string]string) (Config, diag.List) {
	var c Config
	var diags diag.List
	if v := data["namespaces"]; v != "" {
		var lists struct{ Include, Exclude []string }
		if err := json.Unmarshal([]byte(v), &lists); err != nil {
			diags.Errorf("data.namespaces", "namespaces is not {\"include\": [], \"exclude\": []}: %v", err)
		} else {
			c.Include, c.Exclude = lists.Include, lists.Exclude
		}
	}
	if v := data["metricsRefreshInterval"]; v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			diags.Errorf("data.metricsRefreshInterval", "metricsRefreshInterval %q is not a duration such as 24h", v)
		} else {
			c.Refresh = d
		}
	}
	if v := data["bucketBoundaries"]; v != "" {
		b, err := parseBuckets(v)
		if err != nil {
			diags.Errorf("data.bucketBoundaries", "bucketBoundaries: %v", err)
		} else {
			c.Buckets = b
		}
	}
	if v := data["metricsExposure"]; v != "" {
		if err := json.Unmarshal([]byte(v), &c.Exposure); err != nil {
			c.Exposure = nil
			diags.Errorf("data.metricsExposure", "metricsExposure is not a map from metric to {enabled, disabledLabelDimensions, bucketBoundaries}: %v", err)
		}
	}
	for name, e := range c.Exposure {
		diags.Add(checkExposure(name, e)...)
		if checkBounds(e.BucketBoundaries) != nil {
			e.BucketBoundaries = nil
			c.Exposure[name] = e
		}
	}
	slices.SortFunc(diags, func(a, b diag.Diagnostic) int { return strings.Compare(a.Summary, b.Summary) })
	return c, diags
}

// checkExposure reports settings that have no effect.
func checkExposure(name string, e Exposure) diag.List {
	var diags diag.List
	declared := Declared()
	if !slices.ContainsFunc(declared, func(i Instrument) bool { return i.Name == name }) {
		for i := range declared {
			if declared[i].Exposed() == name {
				diags.Warnf("data.metricsExposure", "metricsExposure: %s has no effect, as in Kyverno: the key is the name without _total", name)
				return diags
			}
		}
		diags.Warnf("data.metricsExposure", "metricsExposure: there is no metric %s", name)
		return diags
	}
	for _, l := range e.DisabledLabelDimensions {
		// Charts set labels that only some metrics have. A label that no metric has is a mistake.
		if !slices.ContainsFunc(declared, func(i Instrument) bool { return slices.Contains(i.LabelNames(), l) }) {
			diags.Warnf("data.metricsExposure", "metricsExposure: %s has no label %s", name, l)
		}
	}
	if err := checkBounds(e.BucketBoundaries); err != nil {
		diags.Errorf("data.metricsExposure", "metricsExposure: the bucketBoundaries of %s: %v", name, err)
	}
	return diags
}

func parseBuckets(text string) ([]float64, error) {
	var out []float64
	for _, part := range strings.Split(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", strings.TrimSpace(part))
		}
		out = append(out, v)
	}
	return out, checkBounds(out)
}

// checkBounds rejects bounds for which two buckets would have the same text, since Prometheus then rejects the whole page.
func checkBounds(bounds []float64) error {
	for i, v := range bounds {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return fmt.Errorf("%v is no bound; the last bucket has none anyway", v)
		case i > 0 && bounds[i-1] >= v:
			return fmt.Errorf("the bounds do not grow at %v", v)
		}
	}
	return nil
}

// counts reports whether a namespace is counted. Cluster-scoped objects are always counted.
func (c *Config) counts(namespace string) bool {
	if namespace == "" || namespace == "-" {
		return true
	}
	if slices.Contains(c.Exclude, namespace) {
		return false
	}
	return len(c.Include) == 0 || slices.Contains(c.Include, namespace)
}

// setup returns the configuration of one instrument.
func (c *Config) setup(i *Instrument, max int) setup {
	e := c.Exposure[i.Name]
	s := setup{
		off: e.Enabled != nil && !*e.Enabled, bare: i.Bare && (e.BareName == nil || *e.BareName),
		keep: make([]bool, len(i.Labels)), max: max,
	}
	for k, name := range i.LabelNames() {
		s.keep[k] = !slices.Contains(e.DisabledLabelDimensions, name)
	}
	if i.Kind != Histogram {
		return s
	}
	switch {
	case len(e.BucketBoundaries) > 0:
		s.bounds = e.BucketBoundaries
	case i.Name == nameServerIn || i.Name == nameServerOut:
		s.bounds = sizeBuckets
	case i.Name == nameServerDuration:
		s.bounds = serverBuckets
	case c.Buckets != nil:
		s.bounds = c.Buckets
	default:
		s.bounds = DefaultBuckets
	}
	return s
}
