package native

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/vapgen"
)

// Reconciler generates admission policies of the API server from policies that request it. The leader runs it.
type Reconciler struct {
	// Off holds the kinds that are not generated. Existing objects of these kinds are deleted.
	Off       map[*vapgen.Native]bool
	Policies  *intake.Policies
	Catalog   *catalog.Catalog
	Resources discovery.Resources
	Apply     *vapgen.Reconciler
	Status    *status.Writer
	// Configured reports whether the webhook configurations hold the webhooks of the Program.
	Configured func(*policy.Program) bool
	Log        *slog.Logger
	settled    map[*vapgen.Native]bool // kinds whose existing objects were checked, and none of which is wanted
	soon       controller.Pause        // between rounds that wait for what nothing announces
}

// lookAgainNative is how often generated objects are checked for changes by other clients; lookAgainHandedOver is the interval if only
// these objects enforce the policy. retryNative is the pause after a failure that may be temporary.
const (
	lookAgainNative     = 10 * time.Minute
	lookAgainHandedOver = 30 * time.Second
	retryNative         = 30 * time.Second
)

// soon is the pause while webhooks and conditions are written. It grows, since each round lists the generated objects, and what a round waits for
// may not come for a long time.
var soon = controller.Pause{First: 300 * time.Millisecond, Longest: 5 * time.Second}

// onePolicy is a policy whose status reports the generated object.
type onePolicy struct {
	object     *unstructured.Unstructured
	translator *vapgen.Translator
	asks       bool
}

// Once runs one round. As for the other status fields, it reads the objects before the snapshot.
func (n *Reconciler) Once(ctx context.Context) (time.Duration, error) {
	objects, _ := n.Policies.All()
	snapshot := n.Catalog.Snapshot()
	round := &nativeRound{Reconciler: n, snapshot: snapshot, policies: map[policy.ID]onePolicy{}, out: map[policy.ID]vapgen.Output{}, undecided: map[policy.ID]bool{}}
	for id, object := range objects {
		t := vapgen.Of(object.GetAPIVersion(), object.GetKind())
		if t == nil {
			continue
		}
		p := onePolicy{object, t, t.Asks(object.Object)}
		if generated, _, _ := t.Said(object.Object); p.asks || generated || t.Always {
			round.policies[id] = p
		}
	}
	var errs []error
	for _, native := range vapgen.Natives {
		errs = append(errs, round.reconcile(ctx, native))
	}
	for id, p := range round.policies {
		o, decided := round.out[id]
		if !decided && round.undecided[id] {
			continue
		}
		generated, message := o.Policy != nil, o.Reason
		if was, said, known := p.translator.Said(p.object.Object); known && was == generated && said == message {
			continue
		}
		if p.translator.Waits(p.object.Object) {
			round.waits = true
			continue
		}
		written, err := n.Status.WriteAdmissionPolicy(ctx, p.object, p.translator.Status(generated, message))
		errs = append(errs, err)
		round.waits = round.waits || err == nil && !written // the policy was deleted, or another writer was faster
	}
	if !round.waits || n.soon.First == 0 {
		n.soon = soon
	}
	if round.waits {
		round.again(n.soon.Next())
	}
	return round.next, errors.Join(errs...)
}

// nativeRound is the state of one round.
type nativeRound struct {
	*Reconciler
	snapshot *catalog.Snapshot
	policies map[policy.ID]onePolicy
	out      map[policy.ID]vapgen.Output
	// undecided holds policies whose Programs are not compiled yet.
	undecided map[policy.ID]bool
	next      time.Duration // time until the next round; 0 for never
	waits     bool          // for what nothing announces
}

// again requests another round after the given time.
func (r *nativeRound) again(after time.Duration) {
	if r.next == 0 || after < r.next {
		r.next = after
	}
}

// reconcile creates, updates and deletes the objects of one kind as the policies require.
func (r *nativeRound) reconcile(ctx context.Context, native *vapgen.Native) error {
	asked := false // also true if an object was generated before
	for _, p := range r.policies {
		if p.translator.Native == native {
			generated, _, _ := p.translator.Said(p.object.Object)
			asked = asked || p.asks || generated
		}
	}
	version, err := native.Served(r.Resources)
	if err != nil && asked {
		return err
	}
	want := r.translate(native, version)
	if version == "" || !asked && r.settled[native] {
		return nil
	}
	failed, unfinished, err := r.Apply.Apply(ctx, vapgen.Round{Native: native, Version: version, Want: want, Keep: r.keeps})
	for id, failure := range failed {
		r.again(retryNative)
		if compile.HandedOver(r.policies[id].object.Object) && passes(failure) {
			r.Log.Warn("a policy of the API server is not up to date", "policy", id.String(), "error", failure)
			continue // it is still there, and what Ephor changes, too, would be changed twice
		}
		r.out[id] = vapgen.Output{Reason: reasonOf(native, failure)}
	}
	if apierrors.IsForbidden(err) {
		r.Log.Warn("policies of the API server are not generated", "kind", native.Kind, "error", err)
		for id, o := range want {
			if o.Policy != nil {
				r.out[id] = vapgen.Output{Reason: native.NoRight(false)}
			}
		}
		if asked {
			r.again(retryNative)
		}
		err = nil
	}
	if unfinished {
		r.waits = true
	}
	if r.settled == nil {
		r.settled = map[*vapgen.Native]bool{}
	}
	r.settled[native] = err == nil && !asked && !unfinished
	return err
}

// passes reports whether an existing object could not be written for a reason that may pass by itself.
func passes(err error) bool {
	write := (*vapgen.WriteError)(nil)
	return errors.As(err, &write) && write.Exists &&
		!apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err)
}

// translate returns the objects generated from the policies, and stores the results for the policies' status.
func (r *nativeRound) translate(native *vapgen.Native, version string) map[policy.ID]vapgen.Output {
	want := map[policy.ID]vapgen.Output{}
	for id, p := range r.policies {
		if p.translator.Native != native || r.Off[native] {
			continue
		}
		if p.asks && version == "" {
			r.out[id] = vapgen.Output{Reason: native.NotServed()}
			r.again(retryNative)
			continue
		}
		exceptions, ok := r.exceptionsOf(id)
		if !ok {
			r.undecided[id] = true
			r.waits = true
			continue
		}
		if r.snapshot.Get(id).AuditsFirst {
			r.out[id] = vapgen.Output{Reason: "the policy audits first, so the API server does not enforce it"}
			continue
		}
		o, err := p.translator.Translate(vapgen.Input{Object: p.object.Object, Exceptions: exceptions, Resources: r.Resources})
		if err != nil {
			o = vapgen.Output{Reason: reasonOf(native, err)}
			r.again(retryNative)
		}
		r.out[id], want[id] = o, o
		if o.Policy != nil {
			r.again(lookAgainNative)
			if compile.HandedOver(p.object.Object) {
				r.again(lookAgainHandedOver)
			}
		}
	}
	return want
}

// keeps reports whether the object that was generated from a policy must stay for now. It stays until the Program of the policy exists, or
// until Ephor's webhooks receive the requests again, so that every request is evaluated.
func (r *nativeRound) keeps(id policy.ID) bool {
	if r.undecided[id] {
		return true
	}
	p := r.policies[id]
	if p.object == nil || !handsOver(p.object) {
		return false
	}
	program := r.snapshot.Get(id)
	if program == nil || program.HandedOver {
		return true // the status has to say first that it is not generated any more
	}
	return len(program.Webhooks) > 0 && !program.AuditsFirst && !r.Configured(program)
}

// handsOver reports whether the policy leaves requests to the API server.
func handsOver(object *unstructured.Unstructured) bool {
	f := compile.FamilyOf(object.GetAPIVersion(), object.GetKind())
	return f != nil && f.HandedOver != nil
}

// exceptionsOf returns the exceptions for the rules of a policy. ok is false if its Program does not exist yet.
func (r *nativeRound) exceptionsOf(id policy.ID) (out []*policy.Exception, ok bool) {
	p := r.snapshot.Get(id)
	if p == nil {
		return nil, false
	}
	for _, rule := range p.Rules {
		for _, e := range rule.Exceptions {
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	return out, true
}

// reasonOf returns the text for the status that explains why no object was generated.
func reasonOf(native *vapgen.Native, err error) string {
	if write := (*vapgen.WriteError)(nil); errors.As(err, &write) && apierrors.IsForbidden(err) {
		return native.NoRight(write.Binding)
	}
	return "failed to generate " + native.Kind + ": " + value.Message(err.Error())
}
