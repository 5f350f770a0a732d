package updaterequest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/policy"
)

// batch is the number of triggers in one UpdateRequest that no admission request asked for.
const batch = 100

// maxUndo bounds the rules that are remembered until somebody undoes what they made.
const maxUndo = 10_000

// Follower turns changes of policies into work (control plane reference §9.4): rules for what exists already get an
// UpdateRequest for their triggers, and what a rule made goes away with it.
type Follower struct {
	Worker *Worker
	// Find are the kinds that a kind selector means.
	Find func(policy.Target) ([]schema.GroupVersionKind, error)
	// Every is how often rules are looked at without news.
	Every time.Duration
	Log   *slog.Logger

	mu   sync.Mutex
	last map[catalog.ID]*policy.Program
	// undo are rules that are gone or make something else now; who leads deals with them.
	undo []undo
	// handled are the policies whose rules were turned into work, with the time.
	handled map[catalog.ID]handled
}

type handled struct {
	uid        string
	generation int64
	at         time.Time
}

// undo is what has to be done about what a rule made.
type undo struct {
	program *policy.Program
	rule    *policy.Rule
	release bool // its labels are taken away and it stays; else it is deleted
	// triggers are those of what was released; the rule as it is now makes something else for them.
	triggers []kyvernov2.ResourceSpec
}

// Observe compares the policies with those of the last time. It is called in every replica, so that whoever leads next
// knows what is to be undone.
func (f *Follower) Observe(s *catalog.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := map[catalog.ID]*policy.Program{}
	for _, p := range s.Programs() {
		next[catalog.IDOf(p)] = p
	}
	for id, old := range f.last {
		for _, r := range old.Rules {
			if r.Generation == nil {
				continue
			}
			now := ruleOf(next[id], r.Name)
			switch {
			case now == nil && r.Generation.Synchronize && !r.Generation.Orphan:
				f.undo = append(f.undo, undo{program: old, rule: r})
			case now != nil && now != r && !slices.EqualFunc(r.Grants, now.Grants, sameTarget):
				f.undo = append(f.undo, undo{program: old, rule: r, release: true})
			}
		}
	}
	if n := len(f.undo); n > maxUndo {
		f.Log.Error("too many rules are gone: what they made stays", "rules", n-maxUndo)
		f.undo = slices.Delete(f.undo, 0, n-maxUndo)
	}
	f.last = next
}

func ruleOf(p *policy.Program, name string) *policy.Rule {
	if p == nil {
		return nil
	}
	for _, r := range p.Rules {
		if r.Name == name && r.Generation != nil {
			return r
		}
	}
	return nil
}

// sameTarget reports whether two rules make, or copy, the same objects.
func sameTarget(a, b policy.Grant) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name && a.Source == b.Source
}

// Once does what the changes since the last time ask for, and tells when to come again without news.
func (f *Follower) Once(ctx context.Context) (time.Duration, error) {
	err := f.undoAll(ctx)
	s, now := f.Worker.Snapshot(), f.Worker.Now()
	f.mu.Lock()
	if f.handled == nil {
		f.handled = map[catalog.ID]handled{}
	}
	maps.DeleteFunc(f.handled, func(id catalog.ID, _ handled) bool { return s.Get(id) == nil })
	f.mu.Unlock()
	next := f.Every
	for _, p := range s.Programs() {
		id := catalog.IDOf(p)
		if !slices.ContainsFunc(p.Rules, followed) {
			continue
		}
		f.mu.Lock()
		last, known := f.handled[id]
		f.mu.Unlock()
		if known && last.uid == p.UID && last.generation == p.Generation && now.Sub(last.at) < f.Every {
			next = min(next, f.Every-now.Sub(last.at))
			continue
		}
		if failed := f.policy(ctx, p); failed != nil {
			err = errors.Join(err, fmt.Errorf("policy %s: %w", p.Key(), failed))
			continue
		}
		f.mu.Lock()
		f.handled[id] = handled{p.UID, p.Generation, now}
		f.mu.Unlock()
	}
	return next, err
}

// followed reports whether a change of its policy is work for the rule.
func followed(r *policy.Rule) bool {
	return r.OnPolicyChange || r.Generation != nil && (r.Generation.Existing || r.Generation.Synchronize && !copiesAll(r))
}

// copiesAll reports whether the rule makes nothing but copies, which do not change with the policy.
func copiesAll(r *policy.Rule) bool {
	return !slices.ContainsFunc(r.Outputs, func(o policy.Output) bool { return !o.Copy })
}

// policy writes the UpdateRequests for the rules of a policy that is new, changed, or due.
func (f *Follower) policy(ctx context.Context, p *policy.Program) error {
	var errs []error
	for _, r := range p.Rules {
		if !followed(r) {
			continue
		}
		b := &batches{f: f, program: p, rule: r, ctx: ctx, why: "existing"}
		var err error
		if r.OnPolicyChange || r.Generation != nil && r.Generation.Existing {
			err = f.existing(ctx, p, r, b)
		}
		if err == nil && r.Generation != nil && r.Generation.Synchronize && !copiesAll(r) {
			var made []*unstructured.Unstructured
			if made, err = f.Worker.downstream(ctx, p, r, ofRule(p, r.Name)); err == nil {
				for _, t := range triggersOf(made) {
					if err == nil {
						err = b.add(t)
					}
				}
			}
		}
		if err == nil {
			err = b.flush()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("rule %s: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}

// existing finds the triggers of a rule among all objects.
func (f *Follower) existing(ctx context.Context, p *policy.Program, r *policy.Rule, b *batches) error {
	seen := map[schema.GroupKind]bool{}
	for _, target := range r.Targets {
		if target.Subresource != "" {
			continue
		}
		kinds, err := f.Find(target)
		if err != nil {
			return err
		}
		for _, gvk := range kinds {
			if seen[gvk.GroupKind()] {
				continue
			}
			seen[gvk.GroupKind()] = true
			var failed error
			err := f.Worker.each(ctx, gvk, &client.ListOptions{Namespace: p.Namespace}, func(u *unstructured.Unstructured) bool {
				if u.GetDeletionTimestamp() == nil && f.applies(ctx, p, r, u) {
					failed = b.add(kyvernov2.ResourceSpec{
						APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(),
					})
				}
				return failed == nil && ctx.Err() == nil
			})
			if apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
				continue // a kind without a list has no objects that exist
			}
			if err := errors.Join(err, failed, ctx.Err()); err != nil {
				return err
			}
		}
	}
	return nil
}

// applies reports whether the rule asks for work for the object. What cannot be told is found out, and reported, where the
// work is carried out.
func (f *Follower) applies(ctx context.Context, p *policy.Program, r *policy.Rule, u *unstructured.Unstructured) bool {
	out := f.Worker.Eval(ctx, engine.Input{
		Selections: []policy.Selection{{Program: p, Rules: []*policy.Rule{r}}},
		Request:    f.Worker.scanned(u), Stages: r.Stage, Root: f.Worker.Root,
	})
	return len(out.Work) > 0 || slices.ContainsFunc(out.Results, func(r policy.Result) bool { return r.Status == policy.StatusError })
}

// batches collects triggers into UpdateRequests.
type batches struct {
	ctx      context.Context
	f        *Follower
	program  *policy.Program
	rule     *policy.Rule
	why      string // a part of the names
	triggers []kyvernov2.ResourceSpec
	seen     map[string]bool
	written  int
}

func (b *batches) add(t kyvernov2.ResourceSpec) error {
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	key := string(t.UID)
	if key == "" {
		key = specText(t)
	}
	if b.seen[key] {
		return nil
	}
	b.seen[key] = true
	b.triggers = append(b.triggers, t)
	if len(b.triggers) < batch {
		return nil
	}
	return b.flush()
}

// flush writes one UpdateRequest. One that is still there from an earlier time does the same.
func (b *batches) flush() error {
	if len(b.triggers) == 0 {
		return nil
	}
	kind := kyvernov2.Generate
	labels := map[string]string{LabelGeneratePolicy: label(b.program.Name)}
	if b.rule.Generation == nil {
		kind, labels = kyvernov2.Mutate, map[string]string{LabelMutatePolicy: label(b.program.Name)}
	}
	u := &kyvernov2.UpdateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.f.Worker.Namespace, Labels: labels,
			Name: hashed(string(kind), b.program.Key(), b.rule.Name, b.program.UID, strconv.FormatInt(b.program.Generation, 10), b.why, strconv.Itoa(b.written)),
		},
		Spec: kyvernov2.UpdateRequestSpec{RequestType: kind, Policy: b.program.Key(), Rule: b.rule.Name, Resource: b.triggers[0]},
	}
	for _, t := range b.triggers {
		u.Spec.RuleContext = append(u.Spec.RuleContext, kyvernov2.RuleContext{
			Rule: b.rule.Name, Trigger: t, Synchronize: b.rule.Generation != nil && b.rule.Generation.Synchronize,
		})
	}
	b.written++
	b.triggers = nil
	if err := b.f.Worker.Client.Create(b.ctx, u); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("write UpdateRequest: %w", err)
	}
	return nil
}

// undoAll deals with what rules made that are gone. What fails stays for the next time.
func (f *Follower) undoAll(ctx context.Context) error {
	f.mu.Lock()
	todo := f.undo
	f.undo = nil
	f.mu.Unlock()
	var left []undo
	var errs []error
	for i := range todo {
		x := &todo[i]
		if err := f.undoOne(ctx, x); err != nil {
			left = append(left, *x)
			errs = append(errs, fmt.Errorf("what rule %s of policy %s made: %w", x.rule.Name, x.program.Key(), err))
		}
	}
	f.mu.Lock()
	f.undo = append(left, f.undo...)
	f.mu.Unlock()
	return errors.Join(errs...)
}

func (f *Follower) undoOne(ctx context.Context, x *undo) error {
	now := ruleOf(f.Worker.Snapshot().Get(catalog.IDOf(x.program)), x.rule.Name)
	if !x.release && now != nil {
		return nil // it is back
	}
	made, err := f.Worker.downstream(ctx, x.program, x.rule, ofRule(x.program, x.rule.Name))
	if err != nil || !x.release {
		return errors.Join(err, f.Worker.remove(ctx, x.program, made))
	}
	x.triggers = append(x.triggers, triggersOf(made)...)
	var errs []error
	for _, u := range made {
		labels := u.GetLabels()
		for _, name := range []string{"policy-name", "policy-namespace", "rule-name"} {
			delete(labels, labelPrefix+name)
		}
		u.SetLabels(labels)
		if !x.program.Reach().Allows(u.GetNamespace()) {
			continue
		}
		if err := f.Worker.Client.Update(ctx, u); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, wrap(err, "release "+objectText(u)))
		}
	}
	if err := errors.Join(errs...); err != nil || now == nil || !now.Generation.Synchronize || copiesAll(now) {
		return err
	}
	b := &batches{f: f, program: f.Worker.Snapshot().Get(catalog.IDOf(x.program)), rule: now, ctx: ctx, why: "released"}
	for _, t := range x.triggers {
		if err := b.add(t); err != nil {
			return err
		}
	}
	return b.flush()
}
