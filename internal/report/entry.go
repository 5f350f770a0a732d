package report

import (
	"cmp"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Resource identifies the object of an entry.
type Resource struct {
	APIVersion, Kind, Namespace, Name, UID string
}

// payload is the name for documents that are not objects of a cluster, as in Kyverno.
const payload = "JSON payload"

// String returns namespace/Kind/name; the namespace is empty for cluster-scoped objects.
func (r Resource) String() string {
	if r.Kind == "" && r.Name == "" {
		return payload
	}
	return r.Namespace + "/" + r.Kind + "/" + r.Name
}

// field is a field of a Resource in reports.
type field struct{ key, text string }

// fields returns the fields in the order of their keys. Reports leave out those that are empty, as all are of a document.
func (r *Resource) fields() [5]field {
	return [5]field{{"apiVersion", r.APIVersion}, {"kind", r.Kind}, {"name", r.Name}, {"namespace", r.Namespace}, {"uid", r.UID}}
}

// Entry is one result in a report: the verdict of one rule on one object.
type Entry struct {
	Program  *policy.Program
	Rule     *policy.Rule
	Resource *Resource
	// Status is the effective status: fail becomes warn if the policy is not scored.
	Status policy.Status
	// Message is the rule's own message; reports may show another (see ReportMessage).
	Message    string
	Cause      error // the error behind a result with status error; may be nil
	Path       string
	Part       string
	Action     policy.Action
	Exceptions []*policy.Exception
	Properties map[string]string
	OfTarget   bool // the object is a target of work
}

// Options change how results are interpreted.
type Options struct {
	// AuditWarn turns failures of auditing rules into warnings.
	AuditWarn bool
	// Matched leaves out the results of policies whose match conditions are false (policy.Yield.Unmatched), as reports in a cluster do: a
	// policy about ten objects would otherwise have a result for every object of the kind.
	Matched bool
}

// Entries converts the results of an Outcome to entries, in the same order.
func Entries(o policy.Outcome, opts Options) []Entry {
	if len(o.Results) == 0 {
		return nil
	}
	res := ResourceOf(o.Request)
	out := make([]Entry, 0, len(o.Results))
	for i := range o.Results {
		r := &o.Results[i]
		if r.Unmatched && opts.Matched {
			continue
		}
		e := Entry{
			Program: r.Program, Rule: r.Rule, Resource: res,
			Status: r.Status, Message: r.Message, Cause: r.Cause, Path: r.Path, Part: r.Part, Action: r.Action,
			Exceptions: r.Exceptions, Properties: r.Properties, OfTarget: r.OfTarget,
		}
		if e.Status == policy.StatusFail && (!r.Program.Settings.Scored || opts.AuditWarn && !r.Action.Has(policy.Deny)) {
			e.Status = policy.StatusWarn
		}
		out = append(out, e)
	}
	return out
}

// ResourceOf returns the object of the request: for a subresource its parent, or on the command line the given object. The strings are
// copies, because an entry outlives the object.
func ResourceOf(r *policy.Request) *Resource {
	gvk := r.GVK
	if r.Origin == policy.FromCLI {
		gvk = r.RequestGVK
	}
	subject, _ := r.Subject()
	meta, _ := subject["metadata"].(map[string]any)
	uid, _ := meta["uid"].(string)
	return &Resource{
		APIVersion: strings.Clone(gvk.GroupVersion().String()), Kind: strings.Clone(gvk.Kind),
		Namespace: strings.Clone(r.Namespace), Name: strings.Clone(r.Name), UID: strings.Clone(uid),
	}
}

// RuleName returns the name of the rule in reports: the part of the policy that produced the result, or the rule.
func (e *Entry) RuleName() string { return cmp.Or(e.Part, e.Rule.Name) }

// PolicyName returns the name of the policy in reports.
func (e *Entry) PolicyName() string { return cmp.Or(e.Program.Names.Policy, e.Program.Key()) }

// messageKeys are the properties that replace the message in reports, by status.
var messageKeys = map[policy.Status]string{
	policy.StatusPass:  "passMessage",
	policy.StatusFail:  "failMessage",
	policy.StatusWarn:  "warnMessage",
	policy.StatusError: "errorMessage",
	policy.StatusSkip:  "skipMessage",
}

// ReportMessage returns the message for reports: the property `message`, or the one for the status, or the rule's.
func (e *Entry) ReportMessage() string {
	if m, ok := e.Properties["message"]; ok {
		return m
	}
	if m, ok := e.Properties[messageKeys[e.Status]]; ok {
		return m
	}
	return e.Message
}

// ReportProperties returns the properties for reports: those of the rule, the process that found the result, the exceptions that
// applied, and whether the object is a target of work, which no rule can claim.
func (e *Entry) ReportProperties() map[string]string {
	out := make(map[string]string, len(e.Properties)+2)
	for k, v := range e.Properties {
		out[k] = v
	}
	delete(out, TargetProperty)
	if e.OfTarget {
		out[TargetProperty] = "true"
	}
	out["process"] = "admission review"
	switch {
	case e.Rule != nil && e.Rule.Stage == policy.StageDelete:
		out["process"] = "" // such results come from a schedule
	case e.Program.Settings.Background:
		out["process"] = "background scan"
	}
	if len(e.Exceptions) > 0 {
		names := make([]string, len(e.Exceptions))
		for i, x := range e.Exceptions {
			names[i] = x.Name
		}
		out[policy.PropertyExceptions] = strings.Join(names, ",")
		for _, x := range e.Exceptions {
			join(out, "exceptionReason", x.Reason)
			join(out, "exceptionOwner", x.Owner)
			if !x.Expires.IsZero() {
				join(out, "exceptionEnds", x.Expires.UTC().Format(time.RFC3339))
			}
			if x.EndsSoon {
				out["exceptionEndsSoon"] = "true"
			}
		}
	}
	return out
}

// join adds a text to a property; it adds no empty text.
func join(properties map[string]string, key, text string) {
	if text == "" {
		return
	}
	if before := properties[key]; before != "" {
		text = before + "; " + text
	}
	properties[key] = value.Message(text)
}

// Summary counts results by status.
type Summary struct{ Pass, Fail, Warn, Error, Skip int }

// Add counts one status.
func (s *Summary) Add(status policy.Status) {
	switch status {
	case policy.StatusPass:
		s.Pass++
	case policy.StatusFail:
		s.Fail++
	case policy.StatusWarn:
		s.Warn++
	case policy.StatusError:
		s.Error++
	case policy.StatusSkip:
		s.Skip++
	}
}
