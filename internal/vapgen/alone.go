package vapgen

import (
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/family/mutating"
	"ephor.invalid/ephor/internal/family/validating"
)

// Alone is what the API server evaluates in place of a policy where Ephor does not run. In a cluster with Ephor, the policy itself generates these
// objects, and Ephor evaluates what they do not cover.
type Alone struct {
	// Reason is why the API server cannot evaluate the policy; empty if it can.
	Reason string
	// Parts are the policy itself, and what is generated from it for the controllers of Pods.
	Parts []Part
	// Notes describe where the API server differs from Ephor.
	Notes []string
}

// Part is a policy of the API server with its binding.
type Part struct {
	// Source is the part as a policy of Ephor, with the name of the part.
	Source map[string]any
	// Policy and Binding have apiVersion, kind, and a name from the Source.
	Policy, Binding map[string]any
}

// The reasons why the API server cannot evaluate a policy, beside those of the translation.
const (
	reasonKind      = "the API server has no policies of this kind"
	reasonNamespace = "the API server has no policies of a namespace"
	reasonAdmission = "the policy is not evaluated at admission (spec.evaluation.admission.enabled)"
)

// The notes about policies of the API server.
const (
	noteSubresources = "the API server does not evaluate it for pods/ephemeralcontainers and pods/resize; Ephor does"
	noteExtract      = "custom resources with Pod templates are not covered; the Pods that they create are"
)

// AloneOf returns what the API server evaluates in place of a policy of Ephor.
func AloneOf(object map[string]any) (out Alone) {
	if namespace, _, _ := unstructured.NestedString(object, "metadata", "namespace"); namespace != "" {
		return Alone{Reason: reasonNamespace}
	}
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	t := Of(apiVersion, kind)
	if t == nil || t.group != celpolicy.Group {
		return Alone{Reason: reasonKind}
	}
	if on, set, _ := unstructured.NestedBool(object, "spec", "evaluation", "admission", "enabled"); set && !on {
		return Alone{Reason: reasonAdmission}
	}
	specs, field := t.controllers(object)
	if len(specs) > 0 && t.Native == Validating {
		out.Notes = append(out.Notes, noteSubresources)
	}
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	own, _ := object["spec"].(map[string]any)
	add := func(name string, spec map[string]any) {
		if out.Reason != "" {
			return
		}
		spec = maps.Clone(spec)
		spec["autogen"] = map[string]any{"podControllers": map[string]any{"controllers": []any{}}, field: map[string]any{"enabled": true}}
		source := maps.Clone(object)
		metadata, _ := object["metadata"].(map[string]any)
		metadata = maps.Clone(metadata)
		metadata["name"], source["metadata"], source["spec"] = name, metadata, spec
		part, reason := t.part(source)
		out.Parts, out.Reason = append(out.Parts, part), reason
	}
	add(name, own)
	for _, key := range slices.Sorted(maps.Keys(specs)) {
		if key == celpolicy.ConfigExtract {
			out.Notes = append(out.Notes, noteExtract)
			continue
		}
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(specs[key])
		if err != nil {
			return Alone{Reason: err.Error()}
		}
		if key == celpolicy.ConfigDefaults {
			key = "controllers"
		}
		add(name+"-"+key, spec)
	}
	if out.Reason != "" {
		return Alone{Reason: out.Reason}
	}
	return out
}

// controllers returns what is generated from a policy for the controllers of Pods, and the field that asks for its translation.
func (t *Translator) controllers(object map[string]any) (specs map[string]any, field string) {
	specs = map[string]any{}
	if t.Native == Mutating {
		p, _ := mutating.Decode(object) // the compiler reports what cannot be decoded
		for key, c := range mutating.Autogen(p) {
			specs[key] = &c.Spec
		}
		return specs, "mutatingAdmissionPolicy"
	}
	p, _ := validating.Decode(object)
	for key, c := range validating.Autogen(p, object) {
		specs[key] = &c.Spec
	}
	return specs, "validatingAdmissionPolicy"
}

// part translates one part of a policy, or returns the reason why that is not possible.
func (t *Translator) part(source map[string]any) (_ Part, reason string) {
	made, err := t.Translate(Input{Object: source})
	if err != nil {
		return Part{}, err.Error()
	}
	if made.Reason != "" {
		return Part{}, strings.TrimLeft(strings.TrimPrefix(made.Reason, t.Native.Skipped()), ": ")
	}
	tree := func(kind string, o client.Object) map[string]any {
		var out map[string]any
		if out, err = runtime.DefaultUnstructuredConverter.ToUnstructured(o); err == nil {
			out["apiVersion"], out["kind"] = admissionregistrationv1.SchemeGroupVersion.String(), kind
		}
		return out
	}
	out := Part{Source: source, Policy: tree(t.Native.Kind, made.Policy)}
	if err == nil {
		out.Binding = tree(t.Native.Binding, made.Binding)
	}
	if err != nil {
		return Part{}, err.Error()
	}
	return out, ""
}
