package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// LedgerName is the ConfigMap that lists the generate rules that were last seen, and what each of them generates. When a rule is changed
// or deleted, its last definition determines what happens to its objects. The ledger keeps that definition even if the policy is deleted
// while no replica runs.
const LedgerName = "ephor-generate-rules"

const ledgerKey = "rules"

// maxLedger is the maximum size of the stored ledger. ConfigMaps may have 1 MiB.
const maxLedger = 900 << 10

// entry is one generate rule, with the parts that are needed after it was deleted.
type entry struct {
	Kind        string `json:"kind,omitempty"` // the kind of the policy; empty in records of older releases
	Policy      string `json:"policy"`         // the key of the policy
	Rule        string `json:"rule"`
	Synchronize bool   `json:"synchronize,omitempty"`
	Orphan      bool   `json:"orphan,omitempty"`
	Makes       []made `json:"makes"`
	// KeepCopies: copies stay when the policy is deleted.
	KeepCopies bool `json:"keepCopies,omitempty"`
	// Exact: the work for its triggers deletes objects that the rule no longer makes.
	Exact bool `json:"exact,omitempty"`
	// Again is set for a deleted rule whose objects were deleted. It is the time of the next check for objects, in milliseconds since 1970.
	Again int64 `json:"again,omitempty"`
}

// key identifies the rule of an entry.
type key struct {
	policy catalog.ID
	rule   string
}

func (e *entry) key() key { return key{e.id(), e.Rule} }

// made is a pattern of the objects that a rule generates or, for a source, copies.
type made struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	Source     bool   `json:"source,omitempty"`
	Selector   string `json:"selector,omitempty"` // the label selector of the copied objects
}

// entriesOf returns the generate rules of all policies, sorted.
func entriesOf(s *catalog.Snapshot) []entry {
	var out []entry
	for _, p := range s.Programs() {
		out = append(out, entriesOfPolicy(p)...)
	}
	return out
}

// entriesOfPolicy returns the generate rules of a policy.
func entriesOfPolicy(p *policy.Program) (out []entry) {
	for _, r := range p.Rules {
		if r.Generation == nil {
			continue
		}
		e := entry{Kind: p.Kind, Policy: p.Key(), Rule: r.Name, Synchronize: r.Generation.Synchronize, Orphan: r.Generation.Orphan, KeepCopies: r.Generation.KeepCopies, Exact: r.Generation.Exact}
		for _, g := range r.Grants {
			e.Makes = append(e.Makes, made{g.APIVersion, g.Kind, g.Namespace, g.Name, g.Source, g.Selector})
		}
		out = append(out, e)
	}
	return out
}

// id returns the ID of the entry's policy.
func (e *entry) id() catalog.ID {
	if e.Kind == "" {
		return updaterequest.PolicyID(kyvernov2.Generate, e.Policy)
	}
	namespace, name := updaterequest.SplitKey(e.Policy)
	return catalog.ID{Kind: e.Kind, Namespace: namespace, Name: name}
}

// program returns the policy and the rule, as far as the entry describes them.
func (e *entry) program() (*policy.Program, *policy.Rule) {
	id := e.id()
	p := &policy.Program{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
	r := &policy.Rule{Name: e.Rule, Stage: policy.StageGenerate, Generation: &policy.Generation{Synchronize: e.Synchronize, Orphan: e.Orphan}}
	for _, m := range e.Makes {
		r.Grants = append(r.Grants, policy.Grant{APIVersion: m.APIVersion, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, Source: m.Source, Selector: m.Selector})
	}
	p.Rules = []*policy.Rule{r}
	return p, r
}

// undo is the work for the objects of one deleted or changed rule.
type undo struct {
	entry
	// release: the objects stay but lose their labels, since the rule now generates other objects. Otherwise they are deleted.
	release bool
	// keepCopies: copies stay, since only the rule was deleted and its policy still exists.
	keepCopies bool
}

// copiesOnly reports whether the rule only makes copies: each target has a source.
func (e *entry) copiesOnly() bool {
	sources := 0
	for _, m := range e.Makes {
		if m.Source {
			sources++
		}
	}
	return len(e.Makes) > 0 && 2*sources == len(e.Makes)
}

// undone compares the known rules with today's rules, and returns the work for the differences. stays reports whether a policy still
// exists. Copies are deleted with their policy unless the rule keeps them, but not if only their rule was removed.
func undone(known, today []entry, stays func(catalog.ID) bool) []undo {
	now := map[key]*entry{}
	for i := range today {
		now[today[i].key()] = &today[i]
	}
	var out []undo
	for _, e := range known {
		switch n := now[e.key()]; {
		case n == nil && (!e.Synchronize || e.Orphan):
		case n == nil && !stays(e.id()):
			out = append(out, undo{entry: e, keepCopies: e.KeepCopies})
		case n == nil && !e.copiesOnly():
			out = append(out, undo{entry: e, keepCopies: true})
		case n != nil && !n.Exact && !slices.Equal(e.Makes, n.Makes):
			out = append(out, undo{entry: e, release: true})
		}
	}
	return out
}

// rulesRecord is the stored record of rules, together with the rules that this process knows while it cannot store them.
type rulesRecord struct {
	entries []entry
	object  *unstructured.Unstructured // the record as read; nil if there is none
	text    string
}

// load reads the record. If the controller may not read it, load uses the rules that this process knows.
func (f *Follower) load(ctx context.Context) (*rulesRecord, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("ConfigMap")
	err := f.Worker.Client.Get(ctx, client.ObjectKey{Namespace: f.Worker.Namespace, Name: LedgerName}, u)
	switch {
	case apierrors.IsNotFound(err):
		return &rulesRecord{entries: f.known}, nil
	case apierrors.IsForbidden(err):
		f.Log.Warn("the record of generate rules cannot be read: objects of rules that are deleted while no replica runs will stay", "configMap", LedgerName, "error", err)
		return &rulesRecord{entries: f.known}, nil
	case err != nil:
		return nil, fmt.Errorf("read the ConfigMap %s: %w", LedgerName, err)
	}
	l := &rulesRecord{object: u}
	l.text, _, _ = unstructured.NestedString(u.Object, "data", ledgerKey)
	if err := json.Unmarshal([]byte(l.text), &l.entries); err != nil {
		f.Log.Error("the record of generate rules is damaged: it is written again", "configMap", LedgerName, "error", err)
		l.entries = f.known
	}
	if f.unstored {
		l.entries = union(l.entries, f.known)
	}
	return l, nil
}

// union returns the entries, and those of more that are about other rules or checks.
func union(entries, more []entry) []entry {
	type id struct {
		key
		again bool
	}
	have := make(map[id]bool, len(entries))
	for i := range entries {
		have[id{entries[i].key(), entries[i].Again != 0}] = true
	}
	return append(slices.Clip(entries), slices.DeleteFunc(slices.Clone(more), func(e entry) bool { return have[id{e.key(), e.Again != 0}] })...)
}

// store writes the record if it has changed. After a conflict with another writer, it reads the record again.
func (f *Follower) store(ctx context.Context, l *rulesRecord, entries []entry) error {
	f.known, f.unstored = entries, true
	text, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	switch {
	case string(text) == l.text, l.object == nil && len(entries) == 0:
		f.unstored = false
		return nil
	case len(text) > maxLedger:
		f.Log.Error("there are too many generate rules to record them all: objects of rules that are deleted while no replica runs will stay", "bytes", len(text))
		return nil
	}
	u := l.object
	if u == nil {
		u = &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind("ConfigMap")
		u.SetNamespace(f.Worker.Namespace)
		u.SetName(LedgerName)
	}
	u.Object["data"] = map[string]any{ledgerKey: string(text)}
	if l.object == nil {
		err = f.Worker.Client.Create(ctx, u)
	} else {
		err = f.Worker.Client.Update(ctx, u)
	}
	if apierrors.IsForbidden(err) {
		return nil // the error was reported when the record was read
	}
	if err != nil {
		return fmt.Errorf("write the ConfigMap %s: %w", LedgerName, err)
	}
	f.unstored = false
	return nil
}
