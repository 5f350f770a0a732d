package intake

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
)

// Exceptions follows the exceptions of some namespaces, of all families: it compiles new and changed ones and passes them to the
// catalog, which joins them to the rules. It removes an expired exception from the catalog.
type Exceptions struct {
	// Families describes the kinds of policies; nil for Ephor's own.
	Families *compile.Registry
	// Kinds are the kinds of policies whose exceptions are followed; nil for all.
	Kinds family.Kinds
	// KeepUnusable: an exception with a mistake, or with an approval that cannot be checked, makes the rules that it names fail. Otherwise it
	// has no effect, and the rules are evaluated: a deletion rule would then delete objects that the exception protects.
	KeepUnusable bool
	// Accepts reports whether exceptions in the namespace take effect.
	Accepts func(namespace string) bool
	// Approved reports whether the approval of an exception is proved; nil if none is needed. An exception without an approval has no effect. The
	// error means that this is not known.
	Approved func(object map[string]any) (bool, error)
	// WarnDays returns the number of days before its end from which an exception ends soon; nil for none.
	WarnDays func() int
	Catalog  *catalog.Catalog
	// Server returns the version of the API server; nil for the newest.
	Server func() kubeversion.Minor
	Log    *slog.Logger
	Now    func() time.Time

	followed []*exceptionsOf // by kind

	mu sync.Mutex
	// pending are the exceptions without a proved approval.
	pending map[policy.ExceptionID]*policy.Exception
	// expiring are the exceptions in the catalog that have an expiry.
	expiring map[policy.ExceptionID]ending
	timer    *time.Timer // runs expire at due; nil until an exception has an expiry
	due      time.Time   // zero while no timer runs
}

// Watches returns the informers of the exceptions.
func (x *Exceptions) Watches() (all []Watch) {
	for _, k := range x.Families.ExceptionsFrom(x.Kinds) {
		of := &exceptionsOf{Exceptions: x, kind: k, kinds: x.Families.KindsWith(k)}
		of.objects = objects{
			log: x.Log, accept: func(u *unstructured.Unstructured) bool { return x.Accepts(u.GetNamespace()) },
			take: of.update, drop: of.drop, seen: func() {},
		}
		if x.Approved != nil {
			of.objects.same = func(u *unstructured.Unstructured) { // its status may have another approval now
				if of.approvalKnown(u) {
					return
				}
				if err := of.objects.safely(u, func() error { return of.update(nil, u) }); err != nil {
					x.Log.Error("object cannot be used", "kind", u.GetKind(), "object", idOf(u).Key(), "error", err)
				}
			}
		}
		x.followed = append(x.followed, of)
		all = append(all, Watch{Object: Object(k.GVK()), Resource: k.Resource, Older: k.Versions[1:], Optional: true, Handler: of.objects.handler()})
	}
	return all
}

// Recompile compiles all exceptions again, and checks their approvals: for another version of the API server, or other keys.
func (x *Exceptions) Recompile() {
	for _, of := range x.followed {
		for id := range of.objects.list() {
			of.turn.Lock()
			if u := of.objects.get(id); u != nil { // it may have been deleted in the meantime
				if err := of.objects.safely(u, func() error { return of.put(u) }); err != nil {
					x.Log.Error("object cannot be used", "kind", u.GetKind(), "object", idOf(u).Key(), "error", err)
				}
			}
			of.turn.Unlock()
		}
	}
}

// exceptionsOf follows the exceptions of one kind. Exceptions of another kind may have the same names.
type exceptionsOf struct {
	*Exceptions
	kind    *family.Exceptions
	objects objects
	kinds   []string // of the policies that have such exceptions
	// seals are the approvals of the states that were put into the catalog. Other changes of a status are no change of the exception.
	seals map[policy.ExceptionID]string
	later map[policy.ExceptionID]*time.Timer // for approvals that are checked again
	turn  sync.Mutex                         // held while a state of an object is put into the catalog, so that an older one never comes last
}

// approvalKnown reports whether the exception was put with the approval that it has.
func (x *exceptionsOf) approvalKnown(u *unstructured.Unstructured) bool {
	x.turn.Lock()
	defer x.turn.Unlock()
	seal, put := x.seals[x.id(u)]
	return put && seal == sealOf(u)
}

func sealOf(u *unstructured.Unstructured) string {
	seal, _, _ := unstructured.NestedString(u.Object, "status", "approval", "seal")
	by, _, _ := unstructured.NestedString(u.Object, "status", "approval", "by")
	return by + " " + seal
}

// noSeal is the result of sealOf for an exception without an approval.
const noSeal = " "

func (x *exceptionsOf) id(u *unstructured.Unstructured) policy.ExceptionID {
	return policy.ExceptionID{Group: x.kind.Group, Namespace: u.GetNamespace(), Name: u.GetName()}
}

func (x *exceptionsOf) update(_, u *unstructured.Unstructured) error {
	x.turn.Lock()
	defer x.turn.Unlock()
	return x.put(u)
}

// put puts the state of an exception into the catalog. The caller holds turn.
func (x *exceptionsOf) put(u *unstructured.Unstructured) (err error) {
	id := x.id(u)
	defer func() {
		if v := recover(); v != nil {
			x.remove(id)
			panic(v)
		}
	}()
	e, diags := x.compile(u.Object)
	if err := diags.Err(); err != nil {
		// The previous version no longer reflects the author's intent. Nothing waits for an approval of this one.
		x.unpend(id)
		switch approved, unknown := x.proved(u); {
		case unknown != nil:
			x.fail(id, e, err)
			x.checkLater(id, idOf(u))
		case approved:
			x.fail(id, e, err)
		default: // it would have no effect without the mistake, either
			x.remove(id)
		}
		return err
	}
	if source := x.objects.source(u); source != nil {
		e.Source = source
		e = e.AtRest(func() *policy.Exception {
			whole, diags := x.compile(source())
			whole.Source = source
			if err := diags.Err(); err != nil { // the version of the API server has changed, and all exceptions are compiled again soon
				return whole.Unusable(err)
			}
			return whole
		})
	}
	if !x.approved(u, id, e) {
		return nil
	}
	if x.set(id, e) {
		x.Log.Info("exception in force", "exception", e.Key(), "group", id.Group)
	} else {
		x.Log.Info("exception has expired", "exception", e.Key(), "group", id.Group, "expired", e.Expires)
	}
	return nil
}

// compile compiles an exception. The kinds of policies are shared by all of them.
func (x *exceptionsOf) compile(object map[string]any) (*policy.Exception, diag.List) {
	var options family.Options
	if x.Server != nil {
		options.Server = x.Server()
	}
	e, diags := x.Families.ExceptionWith(compile.Object{Value: object}, options)
	if e != nil {
		e.Kinds = x.kinds
	}
	return e, diags
}

// fail makes the rules that an exception names fail with KeepUnusable, and removes it from the catalog otherwise. e is nil if its rules are not
// known.
func (x *exceptionsOf) fail(id policy.ExceptionID, e *policy.Exception, reason error) {
	if x.KeepUnusable && e != nil {
		x.set(id, e.Unusable(reason))
	} else {
		x.remove(id)
	}
}

// proved reports whether the exception has the approval that it needs. The error says why this is not known.
func (x *exceptionsOf) proved(u *unstructured.Unstructured) (bool, error) {
	switch {
	case x.Approved == nil:
		return true, nil
	case sealOf(u) == noSeal:
		return false, nil
	}
	return x.Approved(u.Object)
}

// approved reports whether the exception has the approval that it needs. Otherwise the exception has no effect, or fails if this is not known.
func (x *exceptionsOf) approved(u *unstructured.Unstructured, id policy.ExceptionID, e *policy.Exception) bool {
	if x.Approved == nil {
		return true
	}
	ok, err := x.proved(u)
	if x.seals == nil {
		x.seals = map[policy.ExceptionID]string{}
	}
	seal := sealOf(u)
	news := seal != noSeal && x.seals[id] != seal
	x.seals[id] = seal
	x.mu.Lock()
	delete(x.pending, id)
	if !ok {
		if x.pending == nil {
			x.pending = map[policy.ExceptionID]*policy.Exception{}
		}
		x.pending[id] = e
	}
	x.mu.Unlock()
	if ok {
		return true
	}
	if err != nil {
		x.fail(id, e, fmt.Errorf("its approval cannot be checked: %w", err))
	} else {
		x.remove(id)
	}
	x.Log.Info("exception is pending", "exception", e.Key(), "group", id.Group, "error", err)
	if err != nil || news { // the keys cannot be read, or were read before the key of this approval was made
		x.checkLater(id, idOf(u))
	}
	return false
}

// checkLater checks the approval of an exception again after approvalPause. A further call before that puts the check off. The caller holds turn.
func (x *exceptionsOf) checkLater(id policy.ExceptionID, key policy.ID) {
	if t := x.later[id]; t != nil {
		t.Reset(approvalPause)
		return
	}
	if x.later == nil {
		x.later = map[policy.ExceptionID]*time.Timer{}
	}
	x.later[id] = time.AfterFunc(approvalPause, func() {
		x.turn.Lock()
		defer x.turn.Unlock()
		delete(x.later, id)
		if last := x.objects.get(key); last != nil {
			_ = x.objects.safely(last, func() error { return x.put(last) })
		}
	})
}

// approvalPause is the time after which an approval is checked again that could not be checked. Keys in memory are younger by then.
const approvalPause = 15 * time.Second

// unpend removes an exception from those that wait for an approval.
func (x *Exceptions) unpend(id policy.ExceptionID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.pending, id)
}

// Pending returns the exceptions that wait for an approval.
func (x *Exceptions) Pending() (out []*policy.Exception) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.pending {
		out = append(out, e)
	}
	return out
}

func (x *exceptionsOf) drop(u *unstructured.Unstructured) {
	x.turn.Lock()
	defer x.turn.Unlock()
	id := x.id(u)
	delete(x.seals, id)
	x.remove(id)
	x.unpend(id)
	x.Log.Info("exception gone", "exception", idOf(u).Key(), "group", id.Group)
}
