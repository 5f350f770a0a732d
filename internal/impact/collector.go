package impact

import (
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/jsonpointer"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rollout"
	"ephor.invalid/ephor/internal/value"
)

// Limits of the data that is kept in addition to counts.
const (
	maxGroups     = 10_000 // for namespaces, users and owners each
	maxUnreadable = 20
	maxChanges    = 50
	// others is the name of the group for all names beyond maxGroups.
	others = "(others)"
)

// Collector counts verdicts. It is used by one goroutine.
type Collector struct {
	// Examples is the number of requests of each class that are kept.
	Examples int
	report   Report
	counting bool // there are policies in force
	effect   Effect
	rules    map[ruleKey]*Rule
	groups   [2]map[string]*Group // namespaces, users
	owners   map[ownerKey]*owned
	examples map[string]int // by class
	lacks    struct {
		notAdmitted, noObject, noOld, noUser, clipped int
		noRequest, withheld, noText                   int
		cut, assumed, sampled, alike                  int
		lived, untaped, erred                         int
		notRecorded                                   map[string]int // by reason
	}
	unsampled float64 // number of reviews that sampled records represent in addition to their own
}

type ruleKey struct {
	program *policy.Program
	rule    *policy.Rule
}

type ownerKey struct{ apiVersion, kind, namespace, name string }

// owned has the touched requests for one object.
type owned struct {
	resource compliance.Resource
	own      rollout.Meta
	requests int
	Counts
}

// NewCollector returns a Collector for the policies of after, and of before, the policies in force; nil if there are none.
func NewCollector(after, before *Replica, examples int) *Collector {
	c := &Collector{
		Examples: examples, rules: map[ruleKey]*Rule{}, groups: [2]map[string]*Group{{}, {}}, owners: map[ownerKey]*owned{}, examples: map[string]int{},
		counting: before != nil,
	}
	c.lacks.notRecorded = map[string]int{}
	c.report.Policies = keysOf(after)
	if before != nil {
		c.report.Before, c.report.Current = &Counts{}, keysOf(before)
	}
	return c
}

func keysOf(r *Replica) []string {
	out := []string{}
	for _, p := range r.programs {
		out = append(out, p.Kind+"/"+p.Key())
	}
	return out
}

// Evaluated is one record with its verdicts.
type Evaluated struct {
	Record        Record
	Request       *policy.Request // nil when Err is set
	After, Before Verdict
	// Assumed: a rule that changes the object may have read a value that was cut from the record.
	Assumed bool
	// Lived: lookups that are not recorded were made in the cluster in its present state.
	Lived bool
	Err   error
}

// Add counts one record.
func (c *Collector) Add(e *Evaluated) {
	r := &c.report
	r.Records++
	if d := e.Record.Decision; d != nil && !errors.Is(e.Err, ErrSameRequest) {
		if n := unsampled(d); n > 0 {
			c.lacks.sampled++
			c.unsampled += n
		}
	}
	var notRecorded *NotRecordedError
	switch {
	case errors.Is(e.Err, ErrAlike):
		c.lacks.alike++
		return
	case errors.Is(e.Err, ErrSameRequest), errors.Is(e.Err, ErrEarlier):
		return
	case errors.Is(e.Err, decision.ErrNoRequest):
		c.lacks.noRequest++
		return
	case errors.Is(e.Err, decision.ErrWithheld):
		c.lacks.withheld++
		return
	case errors.Is(e.Err, decision.ErrNoText):
		c.lacks.noText++
		return
	case errors.Is(e.Err, ErrCut):
		c.lacks.cut++
		return
	case errors.As(e.Err, &notRecorded):
		c.lacks.notRecorded[notRecorded.Missing[0].Why]++
		return
	case errors.Is(e.Err, ErrNotAdmitted):
		c.lacks.notAdmitted++
		return
	case errors.Is(e.Err, ErrNoObject):
		c.lacks.noObject++
		return
	case e.Err != nil:
		if len(r.Unreadable) < maxUnreadable {
			r.Unreadable = append(r.Unreadable, Mistake{e.Record.At, e.Err.Error()})
		} else {
			c.lacks.clipped++
		}
		return
	}
	r.Requests++
	if at := e.Record.Time; !at.IsZero() {
		if r.From == nil || at.Before(*r.From) {
			r.From = &at
		}
		if r.To == nil || at.After(*r.To) {
			r.To = &at
		}
	}
	if len(e.After.Results)+len(e.Before.Results) == 0 && len(e.After.Failures)+len(e.Before.Failures) == 0 && e.After.Allowed && e.Before.Allowed {
		return
	}
	r.Matched++
	if e.Request.Operation == policy.Update && e.Request.OldObject == nil {
		c.lacks.noOld++
	}
	if e.Request.User == nil {
		c.lacks.noUser++
	}
	if e.Assumed {
		c.lacks.assumed++
	}
	switch {
	case e.Lived:
		c.lacks.lived++
	case len(e.Record.Lookups) == 0:
		c.lacks.untaped++
	}
	after, before := countsOf(&e.After), countsOf(&e.Before)
	if len(e.Record.Lookups) == 0 {
		c.lacks.erred += after.Erred
	}
	r.After.add(after)
	var effect *Effect
	if c.counting {
		r.Before.add(before)
		effect = effectOf(e)
		c.effect.add(effect)
	}
	namespace, name := subject(e.Request)
	c.group(0, namespace, after, effect)
	user := ""
	if e.Request.User != nil {
		user = e.Request.User.Username
	}
	c.group(1, user, after, effect)
	c.count(&e.After)
	class := classOf(&after, effect)
	if class == "" {
		return
	}
	resource := compliance.Resource{APIVersion: e.Request.RequestGVK.GroupVersion().String(), Kind: e.Request.RequestGVK.Kind, Namespace: namespace, Name: name}
	if class != classFreed {
		c.own(e.Request, resource, after)
	}
	if c.examples[class] < c.Examples {
		c.examples[class]++
		r.Examples = append(r.Examples, c.example(e, class, resource))
	}
}

// The classes of examples, the worst first.
const (
	classRefused   = "refused"
	classErred     = "erred"
	classFreed     = "no longer refused"
	classWarned    = "warned"
	classChanged   = "changed"
	classViolating = "violating"
)

func classOf(c *Counts, e *Effect) string {
	switch {
	case c.Refused > 0:
		return classRefused
	case c.Erred > 0:
		return classErred
	case e != nil && e.NoLongerRefused > 0:
		return classFreed
	case c.Warned > 0:
		return classWarned
	case c.Changed > 0:
		return classChanged
	case c.Violating > 0:
		return classViolating
	}
	return ""
}

// countsOf returns the counts of one verdict: each is 0 or 1.
func countsOf(v *Verdict) (c Counts) {
	failed := false
	for i := range v.Results {
		r := &v.Results[i]
		failed = failed || r.Status == policy.StatusFail
		if r.Status == policy.StatusError {
			c.Erred = 1
		}
		if len(r.Exceptions) > 0 {
			c.Exempt = 1
		}
	}
	if len(v.Failures) > 0 {
		c.Erred = 1
	}
	if len(v.Warnings) > 0 {
		c.Warned = 1
	}
	if len(v.Changes) > 0 {
		c.Changed = 1
	}
	switch {
	case !v.Allowed:
		c.Refused = 1
	case failed:
		c.Violating = 1
	}
	return c
}

func (c *Counts) add(o Counts) {
	c.Refused += o.Refused
	c.Warned += o.Warned
	c.Changed += o.Changed
	c.Erred += o.Erred
	c.Violating += o.Violating
	c.Exempt += o.Exempt
}

func effectOf(e *Evaluated) *Effect {
	out := &Effect{}
	switch a, b := &e.After, &e.Before; {
	case !a.Allowed && b.Allowed:
		out.NewlyRefused = 1
	case a.Allowed && !b.Allowed:
		out.NoLongerRefused = 1
	case a.Message != b.Message || !slices.Equal(a.Warnings, b.Warnings) || !slices.EqualFunc(a.Changes, b.Changes, sameChange):
		out.Differing = 1
	}
	return out
}

func sameChange(a, b patch.Operation) bool {
	return a.Op == b.Op && a.Path == b.Path && a.From == b.From && value.Equal(a.Value, b.Value)
}

func (e *Effect) add(o *Effect) {
	e.NewlyRefused += o.NewlyRefused
	e.NoLongerRefused += o.NoLongerRefused
	e.Differing += o.Differing
}

func (c *Collector) group(which int, name string, n Counts, effect *Effect) {
	groups := c.groups[which]
	g := groups[name]
	if g == nil {
		if len(groups) >= maxGroups {
			name = others
			g = groups[name]
		}
		if g == nil {
			g = &Group{Name: strings.Clone(name)}
			if c.counting {
				g.Effect = &Effect{}
			}
			groups[g.Name] = g
		}
	}
	g.Requests++
	g.Counts.add(n)
	if effect != nil {
		g.Effect.add(effect)
	}
}

// count counts the results of the rules.
func (c *Collector) count(v *Verdict) {
	for i := range v.Results {
		r := &v.Results[i]
		key := ruleKey{r.Program, r.Rule}
		n := c.rules[key]
		if n == nil {
			n = &Rule{Policy: r.Program.Key(), Rule: r.Rule.Name, Action: r.Action.String()}
			c.rules[key] = n
		}
		switch r.Status {
		case policy.StatusPass:
			n.Pass++
		case policy.StatusFail:
			n.Fail++
			if !v.Allowed && r.Action.Has(policy.Deny) {
				n.Refused++
			}
		case policy.StatusWarn:
			n.Warn++
		case policy.StatusError:
			n.Error++
		case policy.StatusSkip:
			n.Skip++
		}
	}
}

// Subject returns the object that manages the object of a request, or else that object itself. meta is its metadata in the request.
func Subject(req *policy.Request) (r compliance.Resource, meta rollout.Meta) {
	namespace, name := subject(req)
	return managed(req, compliance.Resource{APIVersion: req.RequestGVK.GroupVersion().String(), Kind: req.RequestGVK.Kind, Namespace: namespace, Name: name})
}

// managed returns the object that manages the object of a request: the requests for the Pods of one ReplicaSet belong to one owner.
func managed(req *policy.Request, r compliance.Resource) (compliance.Resource, rollout.Meta) {
	object, _ := req.Subject()
	metadata, _ := object["metadata"].(map[string]any)
	own := metaOf(metadata)
	if up := own.Controller(); up != nil {
		return compliance.Resource{APIVersion: up.APIVersion, Kind: up.Kind, Namespace: r.Namespace, Name: up.Name, UID: string(up.UID)}, rollout.Meta{Labels: own.Labels}
	}
	r.UID = own.UID
	return r, own
}

// own adds a request to the requests for its object.
func (c *Collector) own(req *policy.Request, r compliance.Resource, n Counts) {
	r, own := managed(req, r)
	key := ownerKey{r.APIVersion, r.Kind, r.Namespace, r.Name}
	o := c.owners[key]
	if o == nil {
		if len(c.owners) >= maxGroups {
			key = ownerKey{}
			r, own = compliance.Resource{Kind: others}, rollout.Meta{}
			o = c.owners[key]
		}
		if o == nil {
			o = &owned{resource: r, own: own}
			c.owners[key] = o
		}
	}
	o.requests++
	o.Counts.add(n)
}

// example returns a request with all its details.
func (c *Collector) example(e *Evaluated, class string, resource compliance.Resource) Example {
	req := e.Request
	x := Example{
		Class: class, At: e.Record.At, UID: req.UID, Operation: string(req.Operation), Resource: resource, Subresource: req.Subresource,
		DryRun: req.DryRun, Message: e.After.Message, Warnings: e.After.Warnings, Changes: changesOf(req, &e.After),
	}
	if at := e.Record.Time; !at.IsZero() {
		x.Time = &at
	}
	if u := req.User; u != nil {
		x.User, x.Groups = u.Username, u.Groups
	}
	for i := range e.After.Results {
		r := &e.After.Results[i]
		if r.Status == policy.StatusPass && len(r.Exceptions) == 0 {
			continue
		}
		x.Rules = append(x.Rules, Said{
			Policy: r.Program.Key(), Rule: r.Rule.Name, Status: r.Status.String(), Action: r.Action.String(), Message: r.Message, Path: r.Path,
			Exceptions: policy.ExceptionKeys(r.Exceptions),
		})
	}
	for _, err := range e.After.Failures {
		x.Failures = append(x.Failures, err.Error())
	}
	if c.counting {
		x.Before = &Answer{Allowed: e.Before.Allowed, Message: e.Before.Message, Warnings: e.Before.Warnings, Changes: changesOf(req, &e.Before)}
	}
	return x
}

// changesOf returns the changes with the previous values.
func changesOf(req *policy.Request, v *Verdict) []Change {
	if len(v.Changes) == 0 {
		return nil
	}
	object, _ := req.Object.Map()
	secret := req.GVR.Group == "" && req.GVR.Resource == "secrets"
	var out []Change
	for _, op := range v.Changes[:min(len(v.Changes), maxChanges)] {
		change := Change{Op: op.Op, Path: op.Path}
		if !secret {
			change.To = op.Value
			if op.Op != "add" {
				change.From = at(object, op.Path)
			}
		}
		out = append(out, change)
	}
	return out
}

// at returns the value at a JSON pointer; nil if there is none.
func at(v any, pointer string) any {
	for _, part := range jsonpointer.Split(pointer) {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			i := 0
			for _, d := range part {
				if d < '0' || d > '9' || i > len(x) {
					return nil
				}
				i = 10*i + int(d-'0')
			}
			if i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// metaOf returns the part of an object by which its owners are found.
func metaOf(metadata map[string]any) rollout.Meta {
	var out rollout.Meta
	out.UID, _ = metadata["uid"].(string)
	raw, _ := metadata["labels"].(map[string]any)
	for k, v := range raw {
		if text, ok := v.(string); ok {
			if out.Labels == nil {
				out.Labels = map[string]string{}
			}
			out.Labels[k] = text
		}
	}
	owners, _ := metadata["ownerReferences"].([]any)
	for _, o := range owners {
		o, _ := o.(map[string]any)
		text := func(key string) string { s, _ := o[key].(string); return s }
		manages, _ := o["controller"].(bool)
		out.Owners = append(out.Owners, metav1.OwnerReference{APIVersion: text("apiVersion"), Kind: text("kind"), Name: text("name"), UID: types.UID(text("uid")), Controller: &manages})
	}
	return out
}
