package failopen

import (
	"encoding/json"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/webhookconf"
)

// Annotation marks the configurations whose webhooks temporarily fail open; its value is a note in JSON.
const Annotation = names.Domain + "failing-open"

// note records what FailClosed must restore.
type note struct {
	Since    time.Time `json:"since"`
	Webhooks []string  `json:"webhooks"`
}

// concerns reports whether a configuration can block the cluster: only configurations for resources can. Reviews of policies and
// exceptions continue to fail closed, since they only delay edits of these objects.
func concerns(o client.Object) bool {
	return webhookconf.IsResource(o.GetName())
}

// policies returns the failure policies of the webhooks with their names, as pointers into the configuration.
func policies(o client.Object) (names []string, at []**admissionv1.FailurePolicyType) {
	switch o := o.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			names, at = append(names, o.Webhooks[i].Name), append(at, &o.Webhooks[i].FailurePolicy)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			names, at = append(names, o.Webhooks[i].Name), append(at, &o.Webhooks[i].FailurePolicy)
		}
	}
	return names, at
}

// failOpen lets every webhook that fails closed fail open, and reports whether there was one.
func failOpen(o client.Object, since time.Time) bool {
	n, _ := read(o)
	if n.Since.IsZero() {
		n.Since = since.UTC().Truncate(time.Second)
	}
	changed := false
	names, at := policies(o)
	for i, p := range at {
		if *p != nil && **p == admissionv1.Ignore {
			continue
		}
		ignore := admissionv1.Ignore
		*p = &ignore
		changed = true
		if !slices.Contains(n.Webhooks, names[i]) {
			n.Webhooks = append(n.Webhooks, names[i])
		}
	}
	if changed {
		write(o, n)
	}
	return changed
}

// FailClosed reverts failOpen, and reports whether there was anything to revert.
func FailClosed(o client.Object) bool {
	n, noted := read(o)
	if !noted {
		return false
	}
	names, at := policies(o)
	for i, p := range at {
		if slices.Contains(n.Webhooks, names[i]) {
			fail := admissionv1.Fail
			*p = &fail
		}
	}
	annotations := o.GetAnnotations()
	delete(annotations, Annotation)
	o.SetAnnotations(annotations)
	return true
}

// Preserve lets want, which is about to replace stored, fail open as stored does. The owner of the configurations calls it until it knows
// that reviews arrive; then it writes want unchanged, which lets the webhooks fail closed again.
func Preserve(stored, want client.Object) {
	n, noted := read(stored)
	if !noted || !concerns(want) {
		return
	}
	if failOpen(want, n.Since) {
		return
	}
	write(want, n) // no webhook fails closed now; the note stays until reviews arrive
}

// IsOpen reports whether a configuration temporarily fails open.
func IsOpen(o client.Object) bool {
	_, noted := read(o)
	return noted
}

func read(o client.Object) (n note, noted bool) {
	text, ok := o.GetAnnotations()[Annotation]
	if !ok {
		return note{}, false
	}
	_ = json.Unmarshal([]byte(text), &n) // a damaged note names no webhook; the owner of the configuration restores the webhooks
	return n, true
}

func write(o client.Object, n note) {
	text, err := json.Marshal(n)
	if err != nil {
		return // it holds only a time and strings, so this cannot fail
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[Annotation] = string(text)
	o.SetAnnotations(annotations)
}
