package settings

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/diag"
)

// Settings is the content of the ConfigMap. It is immutable after Parse.
type Settings struct {
	// DefaultRegistry is added to image names without a registry; MutateRegistry: it is also written into the parsed
	// image.
	DefaultRegistry string
	MutateRegistry  bool
	// SuccessEvents: report successes, too; SuccessEventActions, if not empty, lists the actions of successes to report.
	SuccessEvents       bool
	SuccessEventActions []string
	// Webhook holds the selectors, labels, annotations and conditions of the generated webhook configurations.
	Webhook Webhook
	// UpdateRequestThreshold is the number of pending UpdateRequests at which no more are created.
	UpdateRequestThreshold int
	// MaxContextSize is the limit in bytes of the context data of one rule; 0 means none.
	MaxContextSize int64
	// ExpandData names the cluster policies in which variables inside data are evaluated; nil for none.
	ExpandData map[string]bool
	// AuditFirst names the policies that report, and deny and change nothing, until they are released (see AuditFirstName); nil for none.
	AuditFirst map[string]bool

	// Exceptions holds what the installation requires of exceptions.
	Exceptions Exceptions

	filters filters
	users   users
}

// Webhook holds the settings for webhook configurations.
type Webhook struct {
	NamespaceSelector, ObjectSelector *metav1.LabelSelector // nil when not set
	Labels, Annotations               map[string]string
	MatchConditions                   []MatchCondition
}

// MatchCondition is a named CEL condition.
type MatchCondition struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// Defaults returns the settings that apply without a ConfigMap.
func Defaults() *Settings {
	return &Settings{DefaultRegistry: "docker.io", MutateRegistry: true, MaxContextSize: 2 << 20}
}

// Parse parses the data of the ConfigMap. The Settings are always usable; the diagnostics have paths such as
// data.resourceFilters. A nil map gives the settings of an empty ConfigMap.
func Parse(data map[string]string) (*Settings, diag.List) {
	s := Defaults()
	s.UpdateRequestThreshold = 1000 // Applies only once a ConfigMap was loaded
	var diags diag.List
	for _, key := range slices.Sorted(maps.Keys(data)) {
		path := "data." + key
		read, known := readers[key]
		if !known {
			diags.Warnf(path, "unknown key %s", key)
			continue
		}
		trial := *s
		err := read(&trial, strings.TrimSpace(data[key]))
		var some partly
		switch {
		case errors.As(err, &some):
			diags.Errorf(path, "%v", err)
			diags.Hint("what else %s says is in force", key)
		case err != nil:
			diags.Errorf(path, "%v", err)
			diags.Hint("the default of %s stays in force", key)
			continue
		}
		*s = trial
	}
	return s, diags
}

// partly is the error for invalid parts of a value whose other parts apply.
type partly []string

func (p partly) Error() string { return strings.Join(p, "; ") }

func parseBool(to *bool, v string) error {
	b, err := strconv.ParseBool(v)
	if err == nil {
		*to = b
	}
	return err
}

// list splits a comma-separated list; it drops blanks around items, and empty items.
func list(v string) []string {
	var out []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
