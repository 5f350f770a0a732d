package intake

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// manifests are exceptions of each group from the policy %[3]q, in the version %[1]q and the namespace %[2]q.
var manifests = map[string]string{
	"kyverno.io": `{apiVersion: kyverno.io/%[1]s, kind: PolicyException, metadata: {name: x, namespace: %[2]q, uid: u}, spec: {
	  match: {any: [{resources: {kinds: [Pod]}}]}, exceptions: [{policyName: %[3]q, ruleNames: [r]}]}}`,
	"policies.kyverno.io": `{apiVersion: policies.kyverno.io/%[1]s, kind: PolicyException, metadata: {name: x, namespace: %[2]q, uid: u}, spec: {
	  policyRefs: [{name: %[3]q, kind: ValidatingPolicy}]}}`,
}

func exceptionObject(t *testing.T, group, version, namespace, policy string, generation int64) *unstructured.Unstructured {
	t.Helper()
	var u unstructured.Unstructured
	if err := yaml.Unmarshal(fmt.Appendf(nil, manifests[group], version, namespace, policy), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetGeneration(generation)
	return &u
}

// following follows the exceptions of a namespace, and returns the handler of each group.
func following(namespace string) (*catalog.Catalog, map[string]toolscache.ResourceEventHandler) {
	c := catalog.New()
	x := &Exceptions{Accepts: func(ns string) bool { return ns == namespace }, Catalog: c, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	handlers := map[string]toolscache.ResourceEventHandler{}
	for _, w := range x.Watches() {
		handlers[w.Object.GetObjectKind().GroupVersionKind().Group] = w.Handler
	}
	return c, handlers
}

func inForce(c *catalog.Catalog) string {
	var got []string
	for _, e := range c.Snapshot().Exceptions() {
		got = append(got, e.APIVersion+" "+e.Key()+" for "+e.Rules[0].Policy)
	}
	return strings.Join(got, "; ")
}

func TestExceptionsFollowEvents(t *testing.T) {
	for _, kind := range compile.Product.Exceptions() {
		c, handlers := following("a")
		h := handlers[kind.Group]
		object := func(namespace, policy string, generation int64) *unstructured.Unstructured {
			return exceptionObject(t, kind.Group, kind.Versions[0], namespace, policy, generation)
		}
		expect := func(what, want string) {
			t.Helper()
			if want != "" {
				want = kind.GVK().GroupVersion().String() + " " + want
			}
			if got := inForce(c); got != want {
				t.Errorf("%s, %s: %v, want %s", kind.Group, what, got, want)
			}
		}
		h.OnAdd(object("b", "p", 1), true)
		expect("another namespace", "")
		first := object("a", "p", 1)
		h.OnAdd(first, true)
		expect("added", "a/x for p")
		version := c.Snapshot().Version()
		h.OnUpdate(first, object("a", "p", 1))
		if c.Snapshot().Version() != version {
			t.Error("the same content was compiled again")
		}
		h.OnUpdate(first, object("a", "q", 2))
		expect("changed", "a/x for q")
		h.OnUpdate(first, object("a", "", 3))
		expect("one with a mistake is not in force, nor is what it was before", "")
		h.OnUpdate(first, object("a", "q", 4))
		h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: first})
		expect("deleted", "")
	}
}

// With KeepUnusable, the rules that a mistaken exception names fail until it is corrected or deleted.
func TestMistakenExceptions(t *testing.T) {
	c := catalog.New()
	x := &Exceptions{
		Kinds: Scheduled(), KeepUnusable: true, Accepts: func(ns string) bool { return ns == "a" }, Catalog: c,
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	watches := x.Watches()
	if len(watches) != 1 || watches[0].Object.GetObjectKind().GroupVersionKind().Group != "policies.kyverno.io" {
		t.Fatalf("it follows %+v", watches)
	}
	h := watches[0].Handler
	object := func(namespace, condition string, generation int64) *unstructured.Unstructured {
		u := exceptionObject(t, "policies.kyverno.io", "v1", namespace, "p", generation)
		if err := unstructured.SetNestedSlice(u.Object, []any{map[string]any{"name": "c", "expression": condition}}, "spec", "matchConditions"); err != nil {
			t.Fatal(err)
		}
		return u
	}
	expect := func(what, want string) {
		t.Helper()
		if got := effectOf(t, c); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	h.OnAdd(object("b", "nothing.there", 1), true)
	expect("one of another namespace", "none")
	h.OnAdd(object("a", "nothing.there", 1), true)
	expect("a mistake", "the exception a/x cannot be used: spec.matchConditions[0].expression: ")
	h.OnUpdate(object("a", "nothing.there", 1), object("a", "true", 2))
	expect("corrected", "p")
	h.OnUpdate(object("a", "true", 2), object("a", "1", 3))
	expect("another mistake", "the exception a/x cannot be used: ")
	h.OnDelete(object("a", "1", 3))
	expect("gone", "none")
}

// With KeepUnusable, an exception without an approval has no effect, whether it has a mistake or not. One whose approval cannot be checked makes
// the rules fail.
func TestUnusableExceptionsWithApprovals(t *testing.T) {
	for _, c := range []struct {
		name, condition, seal string
		want                  string
	}{
		{"approved", "true", "good", "p"},
		{"not approved", "true", "", "none"},
		{"rejected", "true", "bad", "none"},
		{"not known", "true", "unknown", "the exception a/x cannot be used: its approval cannot be checked: no keys"},
		{"a mistake, approved", "1", "good", "the exception a/x cannot be used: "},
		{"a mistake, not approved", "1", "", "none"},
		{"a mistake, rejected", "1", "bad", "none"},
		{"a mistake, not known", "1", "unknown", "the exception a/x cannot be used: "},
	} {
		snapshots := catalog.New()
		x := &Exceptions{
			Kinds: Scheduled(), KeepUnusable: true, Accepts: func(string) bool { return true }, Catalog: snapshots,
			Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Approved: func(object map[string]any) (bool, error) {
				switch seal, _, _ := unstructured.NestedString(object, "status", "approval", "seal"); seal {
				case "unknown":
					return false, errors.New("no keys")
				case "":
					return false, errors.New("an exception without a seal is checked")
				default:
					return seal == "good", nil
				}
			},
		}
		u := exceptionObject(t, "policies.kyverno.io", "v1", "a", "p", 1)
		if err := unstructured.SetNestedSlice(u.Object, []any{map[string]any{"name": "c", "expression": c.condition}}, "spec", "matchConditions"); err != nil {
			t.Fatal(err)
		}
		if c.seal != "" {
			if err := unstructured.SetNestedField(u.Object, c.seal, "status", "approval", "seal"); err != nil {
				t.Fatal(err)
			}
		}
		x.Watches()[0].Handler.OnAdd(u, true)
		if got := effectOf(t, snapshots); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// effectOf returns the policy of the only exception, or why it makes rules fail.
func effectOf(t *testing.T, c *catalog.Catalog) string {
	t.Helper()
	all := c.Snapshot().Exceptions()
	if len(all) != 1 {
		return "none"
	}
	if match := all[0].Match; match != nil {
		if _, err := match(t.Context(), &policy.Request{}); err != nil {
			return err.Error()
		}
	}
	return all[0].Rules[0].Policy
}

// Exceptions of two groups with the same namespace and name are two exceptions: neither replaces or removes the other.
func TestExceptionsOfTwoGroups(t *testing.T) {
	c, handlers := following("a")
	classic, other := exceptionObject(t, "kyverno.io", "v2", "a", "p", 1), exceptionObject(t, "policies.kyverno.io", "v1beta1", "a", "q", 1)
	handlers["kyverno.io"].OnAdd(classic, true)
	handlers["policies.kyverno.io"].OnAdd(other, true)
	if got := inForce(c); got != "kyverno.io/v2 a/x for p; policies.kyverno.io/v1beta1 a/x for q" {
		t.Error(got)
	}
	handlers["kyverno.io"].OnDelete(classic)
	if got := inForce(c); got != "policies.kyverno.io/v1beta1 a/x for q" {
		t.Error(got)
	}
}

// Row S13 of docs/security/threat-model.md: exceptions take effect only in the namespaces that an administrator named, in every group
// and version.
func TestS13ExceptionsOfOtherNamespaces(t *testing.T) {
	if len(compile.Product.Exceptions()) != len(manifests) {
		t.Fatal("there is a kind of exceptions that is not tested")
	}
	for _, kind := range compile.Product.Exceptions() {
		for _, version := range kind.Versions {
			for namespace, accepted := range map[string]bool{"named": true, "other": false, "": false} {
				c, handlers := following("named")
				handlers[kind.Group].OnAdd(exceptionObject(t, kind.Group, version, namespace, "p", 1), true)
				if got := len(c.Snapshot().Exceptions()) == 1; got != accepted {
					t.Errorf("%s/%s in %q: in force is %v", kind.Group, version, namespace, got)
				}
			}
		}
	}
}

// An exception ends at its expiry, and an expired one never takes effect.
func TestExpiredExceptions(t *testing.T) {
	for _, kind := range compile.Product.Exceptions() {
		t.Run(kind.Group, func(t *testing.T) { testExpired(t, kind.Group, kind.Versions[0]) })
	}
}

func testExpired(t *testing.T, group, version string) {
	synctest.Test(t, func(t *testing.T) {
		c, handlers := following("a")
		h := handlers[group]
		object := func(name string, in time.Duration, generation int64) *unstructured.Unstructured {
			u := exceptionObject(t, group, version, "a", "p", generation)
			u.SetName(name)
			end := time.Now().Add(in).UTC().Format(time.RFC3339)
			switch {
			case in == 0:
			case group == "policies.kyverno.io":
				_ = unstructured.SetNestedField(u.Object, end, "spec", "expiresAt")
			default:
				u.SetAnnotations(map[string]string{family.ExceptionExpires: end})
			}
			return u
		}
		expect := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, e := range c.Snapshot().Exceptions() {
				got = append(got, e.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		h.OnAdd(object("past", -time.Second, 1), true)
		h.OnAdd(object("day", 24*time.Hour, 1), true)
		h.OnAdd(object("hour", time.Hour, 1), true)
		h.OnAdd(object("never", 0, 1), true)
		moved := object("moved", 30*time.Second, 1)
		h.OnAdd(moved, true)
		expect("at first", "day", "hour", "moved", "never")
		h.OnUpdate(moved, object("moved", 2*time.Hour, 2))
		time.Sleep(time.Hour - time.Second)
		expect("a second before the hour", "day", "hour", "moved", "never")
		time.Sleep(time.Second)
		expect("after an hour", "day", "moved", "never")
		h.OnUpdate(object("day", 0, 1), object("day", -time.Minute, 2))
		expect("one is made to expire", "moved", "never")
		h.OnDelete(object("moved", 0, 2))
		time.Sleep(24 * time.Hour)
		expect("after a day", "never")
		h.OnUpdate(object("day", 0, 2), object("day", time.Minute, 3))
		expect("it is in force again", "day", "never")
		time.Sleep(time.Minute)
		expect("for a minute", "never")
	})
}

// An exception that ends soon is marked, from the days of the settings on.
func TestExceptionsThatEndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := catalog.New()
		var days atomic.Int64
		x := &Exceptions{Catalog: c, Accepts: func(string) bool { return true }, Log: slog.New(slog.DiscardHandler), Now: time.Now, WarnDays: func() int { return int(days.Load()) }}
		e := &policy.Exception{Name: "e", Expires: time.Now().Add(48 * time.Hour)}
		expect := func(what string, soon bool) {
			t.Helper()
			synctest.Wait()
			if list := c.Snapshot().Exceptions(); len(list) != 1 || list[0].EndsSoon != soon {
				t.Errorf("%s: %v, want ends soon %v", what, list, soon)
			}
		}
		x.set(e.ID(), e)
		expect("without days", false)
		days.Store(1)
		time.Sleep(2 * time.Minute)
		expect("two days before", false)
		time.Sleep(24 * time.Hour)
		expect("a day before", true)
		days.Store(0)
		time.Sleep(2 * time.Minute)
		expect("the settings have no days any more", false)
		days.Store(3)
		x.set(e.ID(), e)
		expect("set again", true)
		time.Sleep(24 * time.Hour)
		if list := c.Snapshot().Exceptions(); len(list) > 0 {
			t.Errorf("after its end: %v", list)
		}
	})
}

// An exception without a proved approval has no effect. A status with an approval changes that, and a change of the exception again.
func TestPendingExceptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := catalog.New()
		var broken atomic.Bool
		var asked atomic.Int32
		var known atomic.Value
		known.Store("jane")
		x := &Exceptions{
			Catalog: c, Accepts: func(string) bool { return true }, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Approved: func(object map[string]any) (bool, error) {
				by, _, _ := unstructured.NestedString(object, "status", "approval", "by")
				if asked.Add(1); broken.Load() {
					return false, errors.New("no key")
				}
				return by == known.Load(), nil
			},
		}
		h := x.Watches()[0].Handler
		expect := func(what string, inForce int) {
			t.Helper()
			synctest.Wait()
			if got := len(c.Snapshot().Exceptions()); got != inForce || len(x.Pending()) != 1-inForce {
				t.Errorf("%s: %d in force, %d pending", what, got, len(x.Pending()))
			}
		}
		group := compile.Product.Exceptions()[0].Group
		object := func(by string, generation int64) *unstructured.Unstructured {
			u := exceptionObject(t, group, compile.Product.Exceptions()[0].Versions[0], "a", "p", generation)
			if by != "" {
				_ = unstructured.SetNestedField(u.Object, by, "status", "approval", "by")
			}
			return u
		}
		h.OnAdd(object("", 1), true)
		expect("without an approval", 0)
		h.OnUpdate(nil, object("jane", 1))
		expect("approved", 1)
		h.OnUpdate(nil, object("joe", 2))
		expect("changed", 0)
		broken.Store(true)
		h.OnUpdate(nil, object("", 3))
		expect("the keys cannot be read", 0)
		h.OnUpdate(nil, object("jane", 3))
		expect("approved, and the keys cannot be read", 0)
		broken.Store(false)
		time.Sleep(approvalPause)
		expect("the keys can be read again", 1)
		h.OnUpdate(nil, object("joe", 4)) // with a key that this process does not know yet
		expect("approved with a new key", 0)
		known.Store("joe")
		time.Sleep(approvalPause)
		expect("the new key is known", 1)
		h.OnUpdate(nil, object("ann", 5))
		expect("a false approval", 0)
		asked.Store(0)
		time.Sleep(10 * approvalPause)
		if n := asked.Load(); n != 1 {
			t.Errorf("a false approval is checked %d more times, want 1", n)
		}
		broken.Store(true)
		asked.Store(0)
		for i := range int64(50) {
			h.OnUpdate(nil, object("ann", 6+i))
		}
		time.Sleep(10*approvalPause + time.Second)
		if n := asked.Load(); n != 50+10 {
			t.Errorf("50 changes while the keys cannot be read, and 10 pauses: checked %d times, want 60", n)
		}
		// One with a mistake is not pending: an approval would change nothing.
		wrong := object("ann", 60)
		_ = unstructured.SetNestedField(wrong.Object, "not a list", "spec", "exceptions")
		_ = unstructured.SetNestedField(wrong.Object, "not a list", "spec", "policyRefs")
		h.OnUpdate(nil, wrong)
		if synctest.Wait(); len(x.Pending())+len(c.Snapshot().Exceptions()) > 0 {
			t.Errorf("with a mistake: %d pending", len(x.Pending()))
		}
		h.OnUpdate(nil, object("ann", 61))
		expect("corrected", 0)
		h.OnDelete(object("ann", 61))
		if len(x.Pending())+len(c.Snapshot().Exceptions()) > 0 {
			t.Error("it is deleted")
		}
	})
}
