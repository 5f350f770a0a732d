package compliance

import (
	"fmt"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/value"
)

// Status is the status of a result, as in reports.
type Status string

// The statuses, the worst first.
const (
	Fail  Status = "fail"
	Error Status = "error"
	Warn  Status = "warn"
	Skip  Status = "skip"
	Pass  Status = "pass"
)

// Statuses are all statuses, the worst first.
var Statuses = []Status{Fail, Error, Warn, Skip, Pass}

// Severities are all severities, the worst first.
var Severities = []string{"critical", "high", "medium", "low", "info"}

// Resource identifies the resource of a result; Namespace is empty for cluster-scoped resources.
type Resource struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
}

// String returns Kind/name, or namespace/Kind/name.
func (r Resource) String() string {
	if r.Namespace == "" {
		return r.Kind + "/" + r.Name
	}
	return r.Namespace + "/" + r.Kind + "/" + r.Name
}

// Result is the result of one rule for one resource.
type Result struct {
	Policy   string   `json:"policy"`
	Rule     string   `json:"rule,omitempty"`
	Result   Status   `json:"result"`
	Severity string   `json:"severity,omitempty"`
	Category string   `json:"category,omitempty"`
	Source   string   `json:"source,omitempty"`
	Resource Resource `json:"resource"`
	Message  string   `json:"message,omitempty"`
	// Properties hold further information: the exceptions that applied, the controls that were violated, and so on.
	Properties map[string]string `json:"properties,omitempty"`
}

// Report is a report of any of the kinds, with one Result for each rule and resource.
type Report struct {
	// Namespace and Name identify the report itself.
	Namespace, Name string
	Results         []Result
}

// groups are the API groups of reports, with the kinds in each. The command line's own `apply --policy-report` also uses the
// kind PolicyReport in openreports.io, for the report of a namespaced policy.
var groups = map[string][]string{
	"wgpolicyk8s.io": {"PolicyReport", "ClusterPolicyReport"},
	"openreports.io": {"Report", "ClusterReport", "PolicyReport"},
}

// IsReport reports whether an object is a report.
func IsReport(object map[string]any) bool {
	group, _, _ := strings.Cut(text(object, "apiVersion"), "/")
	return slices.Contains(groups[group], text(object, "kind"))
}

// Decode decodes a report: PolicyReport or ClusterPolicyReport of wgpolicyk8s.io, Report or ClusterReport of openreports.io.
// A result is for the resources that it names, and otherwise for the report's scope. In openreports.io, a message may be
// called description, and resources subjects. Results that violate the kinds' definitions become errors with their paths;
// the others are in the Report.
func Decode(object map[string]any) (Report, diag.List) {
	var diags diag.List
	meta, _ := object["metadata"].(map[string]any)
	r := Report{Namespace: text(meta, "namespace"), Name: text(meta, "name")}
	scope := Resource{Namespace: r.Namespace}
	if s, ok := object["scope"].(map[string]any); ok {
		scope = resource(s, r.Namespace)
	}
	list, ok := object["results"].([]any)
	if !ok && object["results"] != nil {
		diags.Errorf("results", "this is not a list")
	}
	for i := range list {
		path := fmt.Sprintf("results[%d]", i)
		fields, ok := list[i].(map[string]any)
		if !ok {
			diags.Errorf(path, "this is not an object")
			continue
		}
		one, found := result(fields, path)
		if diags.Add(found...); found.HasErrors() {
			continue
		}
		subjects, _ := first(fields, "resources", "subjects").([]any)
		if len(subjects) == 0 {
			one.Resource = scope
			r.Results = append(r.Results, one)
		}
		for _, s := range subjects {
			fields, _ := s.(map[string]any)
			one.Resource = resource(fields, r.Namespace)
			r.Results = append(r.Results, one)
		}
	}
	return r, diags
}

func result(fields map[string]any, path string) (Result, diag.List) {
	var diags diag.List
	r := Result{
		Policy: text(fields, "policy"), Rule: text(fields, "rule"), Result: Status(text(fields, "result")), Severity: text(fields, "severity"),
		Category: text(fields, "category"), Source: text(fields, "source"), Message: text(fields, "message"),
	}
	if r.Message == "" {
		r.Message = text(fields, "description")
	}
	if more, ok := fields["properties"].(map[string]any); ok {
		r.Properties = make(map[string]string, len(more))
		for key := range more {
			r.Properties[key] = text(more, key)
		}
	}
	if r.Policy == "" {
		diags.Errorf(path+".policy", "the name of the policy is missing")
	}
	if !slices.Contains(Statuses, r.Result) {
		diags.Errorf(path+".result", "%q is not one of pass, fail, warn, error, skip", value.Clip(string(r.Result), 100))
	}
	if r.Severity != "" && !slices.Contains(Severities, r.Severity) {
		diags.Errorf(path+".severity", "%q is not one of critical, high, medium, low, info", value.Clip(r.Severity, 100))
	}
	return r, diags
}

// resource decodes a reference. Some writers of reports set the namespace, others leave it to that of the report; a
// Namespace is in no namespace, whatever the report's is.
func resource(fields map[string]any, namespace string) Resource {
	r := Resource{
		APIVersion: text(fields, "apiVersion"), Kind: text(fields, "kind"), Namespace: text(fields, "namespace"),
		Name: text(fields, "name"), UID: text(fields, "uid"),
	}
	if r.Namespace == "" {
		r.Namespace = namespace
	}
	if r.Kind == "Namespace" && r.APIVersion == "v1" {
		r.Namespace = ""
	}
	return r
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func first(m map[string]any, keys ...string) any {
	for _, k := range keys {
		if v, ok := m[k]; ok {
			return v
		}
	}
	return nil
}
