package origin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/lock"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// RulesName is the ConfigMap of the record that lists the generate rules that were last seen, and what each of them generates. When a rule
// is changed or deleted, its last definition determines what happens to its objects. The record keeps that definition even if the policy is
// deleted while no replica runs.
const RulesName = "ephor-generate-rules"

const rulesKey = "rules"

// Definition is one generate rule, with the parts that are needed after it was deleted.
type Definition struct {
	Kind        string `json:"kind,omitempty"` // the kind of the policy; empty in records of older releases
	Policy      string `json:"policy"`         // the key of the policy
	Name        string `json:"rule"`
	Synchronize bool   `json:"synchronize,omitempty"`
	Orphan      bool   `json:"orphan,omitempty"`
	Makes       []Made `json:"makes"`
	// KeepCopies: copies stay when the policy is deleted.
	KeepCopies bool `json:"keepCopies,omitempty"`
	// Exact: the work for its triggers deletes objects that the rule no longer makes.
	Exact bool `json:"exact,omitempty"`
	// Again is set for a deleted rule whose objects were deleted. It is the time of the next check for objects, in milliseconds since 1970.
	Again int64 `json:"again,omitempty"`
}

// Made is a pattern of the objects that a rule generates or, for a source, copies.
type Made struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	Source     bool   `json:"source,omitempty"`
	Selector   string `json:"selector,omitempty"` // the label selector of the copied objects
}

// Definitions returns the generate rules of all policies, sorted.
func Definitions(s *catalog.Snapshot) (out []Definition) {
	for _, p := range s.Programs() {
		out = append(out, DefinitionsOf(p)...)
	}
	return out
}

// DefinitionsOf returns the generate rules of a policy.
func DefinitionsOf(p *policy.Program) (out []Definition) {
	for _, r := range p.Rules {
		if r.Generation != nil {
			out = append(out, definitionOf(p, r))
		}
	}
	return out
}

func definitionOf(p *policy.Program, r *policy.Rule) Definition {
	d := Definition{Kind: p.Kind, Policy: p.Key(), Name: r.Name, Synchronize: r.Generation.Synchronize, Orphan: r.Generation.Orphan, KeepCopies: r.Generation.KeepCopies, Exact: r.Generation.Exact}
	for _, g := range r.Grants {
		d.Makes = append(d.Makes, Made{g.APIVersion, g.Kind, g.Namespace, g.Name, g.Source, g.Selector})
	}
	return d
}

// Rule returns the name of the rule.
func (d *Definition) Rule() Rule {
	if d.Kind == "" {
		return Rule{updaterequest.PolicyID(kyvernov2.Generate, d.Policy), d.Name}
	}
	namespace, name := updaterequest.SplitKey(d.Policy)
	return Rule{policy.ID{Kind: d.Kind, Namespace: namespace, Name: name}, d.Name}
}

// Program returns the policy and the rule, as far as the definition describes them.
func (d *Definition) Program() (*policy.Program, *policy.Rule) {
	id := d.Rule().ID
	p := &policy.Program{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
	r := &policy.Rule{Name: d.Name, Stage: policy.StageGenerate, WorkPlan: policy.WorkPlan{Generation: &policy.Generation{Synchronize: d.Synchronize, Orphan: d.Orphan}}}
	for _, m := range d.Makes {
		r.Grants = append(r.Grants, policy.Grant{APIVersion: m.APIVersion, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, Source: m.Source, Selector: m.Selector})
	}
	p.Rules = []*policy.Rule{r}
	return p, r
}

// CopiesOnly reports whether the rule only makes copies: each target has a source.
func (d *Definition) CopiesOnly() bool {
	sources := 0
	for _, m := range d.Makes {
		if m.Source {
			sources++
		}
	}
	return len(d.Makes) > 0 && 2*sources == len(d.Makes)
}

// rules are the rules of the record. The leader reads and writes them all; the other replicas only add rules.
type rules struct {
	// listed are the synchronizing rules that this process has seen in the record, with the UID of the policy. The record's lock guards it.
	listed map[Rule]string
	// adding is held while a rule is added. failed is why the last one could not be added, and failedAt when.
	adding   lock.Lock
	failed   error
	failedAt time.Time
	// known are the rules that this process last wrote. unstored: it could not write them.
	known    []Definition
	unstored bool
	stored   *corev1.ConfigMap // as last read; nil if there is none
}

// EnsureRule adds a synchronizing rule to the rules of the record unless it is listed. Every replica calls it before it generates the first
// object of a rule: without an entry, the objects would stay if the policy were deleted before a leader has recorded its rules.
func (l *Record) EnsureRule(ctx context.Context, p *policy.Program, r *policy.Rule) error {
	if l.o.Client == nil || !r.Generation.Synchronize {
		return nil
	}
	rule := RuleOf(p, r)
	if l.isListed(rule, p.UID) {
		return nil
	}
	unlock, err := l.rules.adding.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if l.isListed(rule, p.UID) {
		return nil
	}
	if l.rules.failed == nil || time.Since(l.rules.failedAt) >= addAgain {
		for range addAttempts {
			if err = l.addRule(ctx, definitionOf(p, r)); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
				break
			}
		}
		if apierrors.IsForbidden(err) {
			err = nil // the leader reports what is forbidden
		}
		if err == nil || ctx.Err() == nil {
			l.rules.failed, l.rules.failedAt = err, time.Now()
		}
	} else {
		err = l.rules.failed
	}
	if err != nil {
		return fmt.Errorf("record the rule %s of policy %s: %w", r.Name, p.Key(), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rules.listed == nil {
		l.rules.listed = map[Rule]string{}
	}
	l.rules.listed[rule] = p.UID
	return nil
}

// After a failure, rules are added again after addAgain: all triggers of all rules would write the same ConfigMap.
const (
	addAttempts = 3
	addAgain    = 5 * time.Second
)

func (l *Record) isListed(r Rule, uid string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, listed := l.rules.listed[r]
	return listed && have == uid
}

// addRule adds a rule to the stored rules unless they list it. A listed rule that did not synchronize before keeps what it made, for the leader,
// which releases those objects. A damaged record stays as it is: the leader writes it again.
func (l *Record) addRule(ctx context.Context, d Definition) error {
	cm, err := l.read(ctx, RulesName)
	if err != nil {
		return err
	}
	var stored []Definition
	switch {
	case cm == nil:
		cm = l.newMap(RulesName, nil)
	case json.Unmarshal([]byte(cm.Data[rulesKey]), &stored) != nil:
		return nil
	}
	switch i := slices.IndexFunc(stored, func(have Definition) bool { return have.Rule() == d.Rule() && have.Again == 0 }); {
	case i < 0:
		stored = append(stored, d)
	case stored[i].Synchronize:
		return nil
	default:
		d.Makes = stored[i].Makes
		stored[i] = d
	}
	text, err := json.Marshal(stored)
	if err != nil || len(text) > maxStored {
		return err
	}
	cm.Data = map[string]string{rulesKey: string(text)}
	return l.write(ctx, cm)
}

// LoadRules reads the rules of the record. If the controller may not read them, they are those that this process knows.
func (l *Record) LoadRules(ctx context.Context) ([]Definition, error) {
	cm, err := l.read(ctx, RulesName)
	l.rules.stored = cm
	switch {
	case apierrors.IsForbidden(err):
		l.o.Log.Warn("the record of generate rules cannot be read: objects of rules that are deleted while no replica runs will stay", "configMap", RulesName, "error", err)
		return l.rules.known, nil
	case err != nil:
		return nil, fmt.Errorf("read the ConfigMap %s: %w", RulesName, err)
	case cm == nil:
		return l.rules.known, nil
	}
	var out []Definition
	if err := json.Unmarshal([]byte(cm.Data[rulesKey]), &out); err != nil {
		l.o.Log.Error("the record of generate rules is damaged: it is written again", "configMap", RulesName, "error", err)
		return l.rules.known, nil
	}
	if l.rules.unstored {
		out = Union(out, l.rules.known)
	}
	return out, nil
}

// Union returns the definitions, and those of more that are about other rules or checks.
func Union(definitions, more []Definition) []Definition {
	type id struct {
		Rule
		again bool
	}
	of := func(d *Definition) id { return id{d.Rule(), d.Again != 0} }
	have := make(map[id]bool, len(definitions))
	for i := range definitions {
		have[of(&definitions[i])] = true
	}
	return append(slices.Clip(definitions), slices.DeleteFunc(slices.Clone(more), func(d Definition) bool { return have[of(&d)] })...)
}

// StoreRules writes the rules of the record if they differ from those that LoadRules read. It fails if another process has written them since.
func (l *Record) StoreRules(ctx context.Context, definitions []Definition) error {
	l.rules.known, l.rules.unstored = definitions, true
	text, err := json.Marshal(definitions)
	if err != nil {
		return err
	}
	cm := l.rules.stored
	switch {
	case cm == nil && len(definitions) == 0, cm != nil && string(text) == cm.Data[rulesKey]:
		l.rules.unstored = false
		return nil
	case len(text) > maxStored:
		l.o.Log.Error("there are too many generate rules to record them all: objects of rules that are deleted while no replica runs will stay", "bytes", len(text))
		return nil
	case cm == nil:
		cm = l.newMap(RulesName, nil)
	}
	cm.Data = map[string]string{rulesKey: string(text)}
	switch err := l.write(ctx, cm); {
	case apierrors.IsForbidden(err):
		return nil // the error was reported when the record was read
	case err != nil:
		return fmt.Errorf("write the ConfigMap %s: %w", RulesName, err)
	}
	l.rules.unstored = false
	return nil
}
