package execute

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// T2: a generated object is deleted with its trigger even if a user removed its labels and its mark. Another object with the same name
// is not deleted.
func TestT2WhatIsRecordedIsFound(t *testing.T) {
	trigger := triggerSpec("n", "gone", "u1")
	noted := func(rule, uid string) origin.Entry {
		return origin.Entry{
			Claim:  mark.Claim{Policy: "p", Rule: rule, Trigger: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "gone", UID: "u1"}},
			Object: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "any", UID: uid},
		}
	}
	for name, c := range map[string]struct {
		labels map[string]string
		entry  origin.Entry
		stays  bool
	}{
		"without labels":                {entry: noted("anybody", "d")},
		"without its mark":              {labels: claiming("anybody", "n", "u1"), entry: noted("anybody", "d")},
		"with labels of another":        {labels: claiming("anybody", "n", "u2"), entry: noted("anybody", "d")},
		"another of the same name":      {entry: noted("anybody", "earlier"), stays: true},
		"another with the labels":       {labels: claiming("anybody", "n", "u1"), entry: noted("anybody", "earlier"), stays: true},
		"of another rule":               {entry: noted("alice", "d"), stays: true},
		"of another rule, with labels":  {labels: claiming("anybody", "n", "u1"), entry: noted("alice", "d"), stays: true},
		"nothing is recorded of either": {labels: claiming("anybody", "n", "u1"), entry: noted("anybody", ""), stays: true},
	} {
		w, _ := newMarked(t, configMapOf("n", "any", "d", c.labels))
		w.Made.Record.Add(c.entry)
		work := workOf(t, "anybody", trigger, "DELETE", "u", configMapOf("n", "gone", "u1", triggers))
		work.Spec.RuleContext[0].DeleteDownstream = true
		if err := carry(t, w, work); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := len(present(t, w)) == 1; got != c.stays {
			t.Errorf("%s: it stays: %v", name, got)
		}
		if _, kept := w.Made.Record.Object("d"); kept && !c.stays {
			t.Errorf("%s: the record still knows it", name)
		}
	}
}

// Objects of a synchronizing rule are recorded with the content of their mark; objects of other rules are not.
func TestWhatIsMadeIsRecorded(t *testing.T) {
	there := configMapOf("n", "there", "u1", triggers)
	w, _ := newMarked(t, there, configMapOf("n", "there-made", "d", claiming("anybody", "n", "u1")))
	if err := carry(t, w, workOf(t, "anybody", triggerSpec("n", "there", "u1"), "CREATE", "u", there)); err != nil {
		t.Fatal(err)
	}
	if err := carry(t, w, workOf(t, "deleted", triggerSpec("n", "none", "u2"), "DELETE", "u", configMapOf("n", "none", "u2", triggers))); err != nil {
		t.Fatal(err)
	}
	e, ok := w.Made.Record.Object("d")
	if !ok || e.Claim.Rule != "anybody" || e.Trigger.UID != "u1" || w.Made.Record.Len() != 1 {
		t.Errorf("recorded: %+v, %d entries", e, w.Made.Record.Len())
	}
	if !slices.Contains(present(t, w), "n/none-deleted") {
		t.Error("the other rule made nothing")
	}
	live := &corev1.ConfigMap{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "there-made"}, live); err != nil || live.Annotations[mark.Annotation] == "" {
		t.Errorf("it is not marked: %v", err)
	}
}

// An object that exists for a while after its deletion stays in the record until it is gone.
func TestRecordKeepsWhatLingers(t *testing.T) {
	for name, finalizers := range map[string][]string{"with finalizers": {"example.com/slow"}, "without": nil} {
		made := configMapOf("n", "any", "d", nil)
		made.Finalizers = finalizers
		w, _ := newMarked(t, made)
		w.Made.Record.Add(origin.Entry{
			Claim:  mark.Claim{Policy: "p", Rule: "anybody", Trigger: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "gone", UID: "u1"}},
			Object: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "any", UID: "d"},
		})
		work := func() {
			t.Helper()
			u := workOf(t, "anybody", triggerSpec("n", "gone", "u1"), "DELETE", "u", configMapOf("n", "gone", "u1", triggers))
			u.Spec.RuleContext[0].DeleteDownstream = true
			if err := carry(t, w, u); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		work()
		if _, known := w.Made.Record.Object("d"); known != (finalizers != nil) {
			t.Errorf("%s: after the deletion the record knows it: %v", name, known)
		}
		live := &corev1.ConfigMap{}
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(made), live); err == nil {
			live.Finalizers = nil
			if err := w.Client.Update(t.Context(), live); err != nil {
				t.Fatal(err)
			}
		}
		work()
		if _, known := w.Made.Record.Object("d"); known {
			t.Errorf("%s: it is gone, and the record knows it", name)
		}
	}
}
