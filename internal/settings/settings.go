package settings

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ephor-dev/ephor/internal/diag"
)

// Settings is the content of the ConfigMap. It is immutable after Parse.
type Settings struct {
	// DefaultRegistry is added to image names without one; MutateRegistry says whether it is also written into the
	// parsed image.
	DefaultRegistry string
	MutateRegistry  bool
	// SuccessEvents: report what passed, too; SuccessEventActions, when not empty, lists the actions to keep of those.
	SuccessEvents       bool
	SuccessEventActions []string
	// Webhook holds the selectors, labels, annotations and conditions of the generated webhook configurations.
	Webhook Webhook
	// UpdateRequestThreshold is the number of pending update requests at which no more are made.
	UpdateRequestThreshold int
	// MaxContextSize is the limit in bytes of the context data of one rule; 0 means none.
	MaxContextSize int64

	filters filters
	users   users
}

// Webhook is what the ConfigMap adds to webhook configurations.
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

// Defaults returns the settings that hold without a ConfigMap.
func Defaults() *Settings {
	return &Settings{DefaultRegistry: "docker.io", MutateRegistry: true, MaxContextSize: 2 << 20}
}

// reader puts the value of one key into Settings; its error names what is wrong with the value.
type reader func(s *Settings, value string) error

// readers is the table of keys.
var readers = map[string]reader{
	"resourceFilters": func(s *Settings, v string) (err error) {
		s.filters, err = parseFilters(v)
		return err
	},
	"excludeUsernames":    func(s *Settings, v string) error { s.users.names.parse(v); return nil },
	"excludeGroups":       func(s *Settings, v string) error { s.users.groups.parse(v); return nil },
	"excludeRoles":        func(s *Settings, v string) error { s.users.roles.parse(v); return nil },
	"excludeClusterRoles": func(s *Settings, v string) error { s.users.clusterRoles.parse(v); return nil },
	"defaultRegistry": func(s *Settings, v string) error {
		host, _, _ := strings.Cut(v, "/")
		host, _, _ = strings.Cut(host, ":")
		if problems := validation.IsDNS1123Subdomain(host); len(problems) > 0 {
			return fmt.Errorf("%q is not a registry: %s", v, strings.Join(problems, "; "))
		}
		s.DefaultRegistry = v
		return nil
	},
	"enableDefaultRegistryMutation": func(s *Settings, v string) error { return parseBool(&s.MutateRegistry, v) },
	"generateSuccessEvents":         func(s *Settings, v string) error { return parseBool(&s.SuccessEvents, v) },
	"successEventActions":           func(s *Settings, v string) error { s.SuccessEventActions = list(v); return nil },
	"webhooks": func(s *Settings, v string) error {
		var w struct {
			NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
			ObjectSelector    *metav1.LabelSelector `json:"objectSelector"`
		}
		if err := json.Unmarshal([]byte(v), &w); err != nil {
			return fmt.Errorf("not a JSON object with namespaceSelector and objectSelector: %w", err)
		}
		for _, sel := range []*metav1.LabelSelector{w.NamespaceSelector, w.ObjectSelector} {
			if _, err := metav1.LabelSelectorAsSelector(sel); err != nil {
				return err
			}
		}
		s.Webhook.NamespaceSelector, s.Webhook.ObjectSelector = w.NamespaceSelector, w.ObjectSelector
		return nil
	},
	"webhookAnnotations": func(s *Settings, v string) error { return json.Unmarshal([]byte(v), &s.Webhook.Annotations) },
	"webhookLabels":      func(s *Settings, v string) error { return json.Unmarshal([]byte(v), &s.Webhook.Labels) },
	"matchConditions":    func(s *Settings, v string) error { return json.Unmarshal([]byte(v), &s.Webhook.MatchConditions) },
	"updateRequestThreshold": func(s *Settings, v string) (err error) {
		n, err := strconv.Atoi(v)
		if err == nil {
			s.UpdateRequestThreshold = n
		}
		return err
	},
	"maxContextSize": func(s *Settings, v string) error {
		q, err := resource.ParseQuantity(v)
		if err == nil {
			s.MaxContextSize = q.Value()
		}
		return err
	},
}

// Parse reads the data of the ConfigMap. The Settings are always usable; the diagnostics have paths such as
// data.resourceFilters. A nil map gives the settings of an empty ConfigMap.
func Parse(data map[string]string) (*Settings, diag.List) {
	s := Defaults()
	s.UpdateRequestThreshold = 1000 // §2.1: only once a ConfigMap was loaded
	var diags diag.List
	for _, key := range sortedKeys(data) {
		path := "data." + key
		read, known := readers[key]
		if !known {
			diags.Warnf(path, "unknown key %s", key)
			continue
		}
		trial := *s
		if err := read(&trial, strings.TrimSpace(data[key])); err != nil {
			diags.Errorf(path, "%v", err)
			diags.Hint("the default of %s stays in force", key)
			continue
		}
		*s = trial
	}
	return s, diags
}

func parseBool(to *bool, v string) error {
	b, err := strconv.ParseBool(v)
	if err == nil {
		*to = b
	}
	return err
}

// list splits a comma list; blanks around the items and empty items are dropped.
func list(v string) []string {
	var out []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
