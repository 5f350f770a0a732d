package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Key is one key of the ConfigMap.
type Key struct {
	Name string
	// Form is the format of the value, Default the value if the key is absent, Doc its description.
	Form, Default, Doc string

	// read sets the value in Settings; its error describes what is wrong with the value.
	read func(s *Settings, value string) error
}

// Keys returns all keys in the order of the documentation.
func Keys() []Key { return slices.Clone(keys) }

// Texts that several keys share.
const (
	formList   = "comma-separated list with wildcards; requests that match an item beginning with `!` are always evaluated"
	formBool   = "true or false"
	defaultNil = "none"
)

var keys = []Key{
	{"resourceFilters", "groups `[kind,namespace,name]` with wildcards; the kind may be `group/version/Kind/subresource`", defaultNil,
		"Resources for which no policy is evaluated. A missing part of a group matches only an empty value. A filter on a namespace covers the Namespace object, too. A group that cannot be parsed is ignored and logged.",
		func(s *Settings, v string) (err error) {
			s.filters, err = parseFilters(v)
			return err
		}},
	{"excludeUsernames", formList, defaultNil, "Users whose requests are admitted without evaluation.",
		func(s *Settings, v string) error { s.users.names.parse(v); return nil }},
	{"excludeGroups", formList, defaultNil, "Groups whose members' requests are admitted without evaluation.",
		func(s *Settings, v string) error { s.users.groups.parse(v); return nil }},
	{"excludeRoles", formList, defaultNil, "Roles (`namespace:name`) whose holders' requests are admitted without evaluation.",
		func(s *Settings, v string) error { s.users.roles.parse(v); return nil }},
	{"excludeClusterRoles", formList, defaultNil, "Cluster roles whose holders' requests are admitted without evaluation.",
		func(s *Settings, v string) error { s.users.clusterRoles.parse(v); return nil }},
	{"defaultRegistry", "host name, optionally with a port and a path", "docker.io", "The registry of image references that do not name one.",
		func(s *Settings, v string) error {
			host, _, _ := strings.Cut(v, "/")
			host, _, _ = strings.Cut(host, ":")
			if problems := validation.IsDNS1123Subdomain(host); len(problems) > 0 {
				return fmt.Errorf("%q is not a registry: %s", v, strings.Join(problems, "; "))
			}
			s.DefaultRegistry = v
			return nil
		}},
	{"enableDefaultRegistryMutation", formBool, "true", "Whether policies see the default registry in image references that do not name one.",
		func(s *Settings, v string) error { return parseBool(&s.MutateRegistry, v) }},
	{"generateSuccessEvents", formBool, "false", "Whether events are also written for successful validation, mutation and generation.",
		func(s *Settings, v string) error { return parseBool(&s.SuccessEvents, v) }},
	{"successEventActions", "comma-separated list of event actions, such as `Resource Mutated`", "all actions", "The actions for which events about successes are written.",
		func(s *Settings, v string) error { s.SuccessEventActions = list(v); return nil }},
	{"webhooks", "JSON object with `namespaceSelector` and `objectSelector`", "`{}`", "Selectors of the webhook configurations for resources.",
		func(s *Settings, v string) error {
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
		}},
	{"webhookAnnotations", "JSON object with string values", defaultNil, "Annotations of all webhook configurations.",
		func(s *Settings, v string) error { return parseTexts(&s.Webhook.Annotations, v, nil) }},
	{"webhookLabels", "JSON object with string values", defaultNil, "Labels of all webhook configurations, in addition to Ephor's own.",
		func(s *Settings, v string) error {
			return parseTexts(&s.Webhook.Labels, v, validation.IsValidLabelValue)
		}},
	{"matchConditions", "JSON list of `{name, expression}`", defaultNil, "CEL conditions of the webhook configurations.",
		func(s *Settings, v string) error { return parseConditions(&s.Webhook.MatchConditions, v) }},
	{"updateRequestThreshold", "number", "1000", "Number of UpdateRequests at which no more are created. Further work waits, with a warning, an event and a metric. 0 or less for no limit.",
		func(s *Settings, v string) (err error) {
			n, err := strconv.Atoi(v)
			if err == nil {
				s.UpdateRequestThreshold = n
			}
			return err
		}},
	{"maxContextSize", "quantity", "2Mi", "Maximum amount of data that the context entries of one rule load; 0: only the rule's budget applies.",
		func(s *Settings, v string) error {
			q, err := resource.ParseQuantity(v)
			switch {
			case err != nil:
				return err
			case q.Sign() < 0:
				return fmt.Errorf("%s is negative", v)
			}
			s.MaxContextSize = q.Value()
			return nil
		}},
	{"expandData", "comma-separated list of names of cluster policies, without wildcards", defaultNil,
		"Policies that evaluate variables in data, as Kyverno does: `{{ … }}` in objects, ConfigMaps and API responses. A user who can write such data can then read what the policy can read, and control what it compares. Namespaced policies cannot be named.",
		func(s *Settings, v string) error {
			names := map[string]bool{}
			for _, name := range list(v) {
				if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
					return fmt.Errorf("%q is not the name of a cluster policy: %s", name, strings.Join(problems, "; "))
				}
				names[name] = true
			}
			s.ExpandData = names
			return nil
		}},
	{"exceptions", "JSON object with `warnDays`, `compare`, `requiredAnnotations`, `maxDays`, `users`, `groups` and `message`", "`{}`",
		"What the installation requires of PolicyExceptions: annotations, an end at most `maxDays` after a change, and who may write them (`users` and `groups`, with wildcards). `message` is added to a refusal. " +
			"`warnDays` before its end, an exception is reported as ending. With `compare`, scans also evaluate exempt objects without exceptions.",
		func(s *Settings, v string) error { return parseExceptions(&s.Exceptions, v) }},
	{AuditFirstKey, "comma-separated list of policies, as `Kind/name` or `Kind/namespace/name`", defaultNil,
		"Policies that report and change nothing: their validate rules audit, errors and an unreachable controller admit, and their other rules and schedules do nothing. `ephor rollout --audit-first` writes the list before a cluster of [Kyverno 1.20](../migrating/from-kyverno-1.20.md) is taken over, and `ephor rollout POLICY --as-written` removes a policy from it.",
		parseAuditFirst},
}

// readers maps keys to their readers.
var readers = func() map[string]func(*Settings, string) error {
	m := make(map[string]func(*Settings, string) error, len(keys))
	for _, k := range keys {
		m[k.Name] = k.read
	}
	return m
}()

// parseTexts parses the labels of webhook configurations, or their annotations, whose values may be any (valid is nil). With an invalid one, the API
// server would reject all configurations.
func parseTexts(to *map[string]string, v string, valid func(string) []string) error {
	var texts map[string]string
	if err := json.Unmarshal([]byte(v), &texts); err != nil {
		return fmt.Errorf("not a JSON object of texts: %w", err)
	}
	for _, k := range slices.Sorted(maps.Keys(texts)) {
		name := k
		if valid == nil {
			name = strings.ToLower(k) // the API server ignores the case of names of annotations
		}
		if problems := validation.IsQualifiedName(name); len(problems) > 0 {
			return fmt.Errorf("%q is not a name: %s", k, strings.Join(problems, "; "))
		}
		if valid == nil {
			continue
		}
		if problems := valid(texts[k]); len(problems) > 0 {
			return fmt.Errorf("%q is not a value of %s: %s", texts[k], k, strings.Join(problems, "; "))
		}
	}
	*to = texts
	return nil
}

// maxConditions is the maximum number of conditions that the API server accepts for a webhook.
const maxConditions = 64

// parseConditions parses matchConditions, and makes the checks of the API server that need no CEL.
func parseConditions(to *[]MatchCondition, v string) error {
	var conditions []MatchCondition
	if err := json.Unmarshal([]byte(v), &conditions); err != nil {
		return fmt.Errorf("not a JSON list of {name, expression}: %w", err)
	}
	if len(conditions) > maxConditions {
		return fmt.Errorf("%d conditions, but a webhook takes %d", len(conditions), maxConditions)
	}
	seen := map[string]bool{}
	for _, c := range conditions {
		switch problems := validation.IsQualifiedName(c.Name); {
		case len(problems) > 0:
			return fmt.Errorf("%q is not a name: %s", c.Name, strings.Join(problems, "; "))
		case seen[c.Name]:
			return fmt.Errorf("two conditions have the name %s", c.Name)
		case strings.TrimSpace(c.Expression) == "":
			return fmt.Errorf("the condition %s has no expression", c.Name)
		}
		seen[c.Name] = true
	}
	*to = conditions
	return nil
}
