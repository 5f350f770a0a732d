package vapgen

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/family/mutating"
	"ephor.invalid/ephor/internal/family/native"
	"ephor.invalid/ephor/internal/family/validating"
)

// StaticSuffix ends the names of all objects that an API server loads from files, and of no others.
const StaticSuffix = ".static.k8s.io"

// Static is what an API server loads from files for a policy: since Kubernetes 1.36, with the feature ManifestBasedAdmissionControlConfig, which
// is on since 1.37.
type Static struct {
	// Reason is why the policy cannot be loaded from files; empty if it can.
	Reason string
	// Objects are policies, each followed by its bindings, or a webhook configuration.
	Objects []map[string]any
	// Notes describe where they differ from the policy.
	Notes []string
}

// The reasons why a policy cannot be loaded from files.
const (
	reasonStaticKind      = "the API server has no policies of this kind"
	reasonStaticNamespace = "the API server has no policies of a namespace"
	reasonStaticAdmission = "the policy is not evaluated at admission (spec.evaluation.admission.enabled)"
	reasonStaticParams    = "it has parameters (%s), which are objects of the cluster; write their values into the expressions"
	reasonStaticBinding   = "no binding applies it"
	reasonStaticService   = "the webhook %s is called by a Service (clientConfig.service), which is an object of the cluster; name its address in clientConfig.url"
)

// The notes about policies of the API server.
const (
	noteSubresources = "the API server does not evaluate it for pods/ephemeralcontainers and pods/resize; Ephor does"
	noteExtract      = "custom resources with Pod templates are not covered; the Pods that they create are"
)

// The kinds of webhook configurations.
const (
	ValidatingWebhooks = "ValidatingWebhookConfiguration"
	MutatingWebhooks   = "MutatingWebhookConfiguration"
)

// StaticKinds has one kind for each folder.
var StaticKinds = []string{native.ValidatingPolicy, native.MutatingPolicy, ValidatingWebhooks, MutatingWebhooks}

// StaticFolder returns the name of the folder for objects of a kind: an API server reads a folder for each of its four plugins. It is empty
// for kinds that are not loaded from files.
func StaticFolder(kind string) string {
	switch kind {
	case native.ValidatingPolicy, native.ValidatingBinding:
		return "validating-policies"
	case native.MutatingPolicy, native.MutatingBinding:
		return "mutating-policies"
	case ValidatingWebhooks:
		return "validating-webhooks"
	case MutatingWebhooks:
		return "mutating-webhooks"
	}
	return ""
}

// StaticConfiguration returns the AdmissionConfiguration that makes an API server (--admission-control-config-file) load the folders below dir.
func StaticConfiguration(dir string) string { return fmt.Sprintf(staticConfiguration, dir) }

const staticConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionPolicy
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ValidatingAdmissionPolicyConfiguration
    staticManifestsDir: %[1]s/validating-policies
- name: MutatingAdmissionPolicy
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: MutatingAdmissionPolicyConfiguration
    staticManifestsDir: %[1]s/mutating-policies
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    staticManifestsDir: %[1]s/validating-webhooks
- name: MutatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    staticManifestsDir: %[1]s/mutating-webhooks
`

// IsStaticBinding reports whether an object is a binding, which StaticOf takes with its policy.
func IsStaticBinding(object map[string]any) bool {
	return ofGroup(object, native.Group) && (object["kind"] == native.ValidatingBinding || object["kind"] == native.MutatingBinding)
}

// StaticOf returns what an API server loads from files for a policy or a webhook configuration. bindings are those of the API server's own
// policies.
func StaticOf(object map[string]any, bindings []map[string]any) Static {
	kind, _ := object["kind"].(string)
	if ofGroup(object, native.Group) {
		switch kind {
		case native.ValidatingPolicy, native.MutatingPolicy:
			return staticNative(object, bindings)
		case ValidatingWebhooks, MutatingWebhooks:
			return staticWebhooks(object)
		}
		return Static{Reason: reasonStaticKind}
	}
	if namespace, _, _ := unstructured.NestedString(object, "metadata", "namespace"); namespace != "" {
		return Static{Reason: reasonStaticNamespace}
	}
	apiVersion, _ := object["apiVersion"].(string)
	t := Of(apiVersion, kind)
	if t == nil || t.group != celpolicy.Group {
		return Static{Reason: reasonStaticKind}
	}
	if on, set, _ := unstructured.NestedBool(object, "spec", "evaluation", "admission", "enabled"); set && !on {
		return Static{Reason: reasonStaticAdmission}
	}
	return t.static(object)
}

// static translates a policy, and what is generated from it for the controllers of Pods.
func (t *Translator) static(object map[string]any) (out Static) {
	specs, field := map[string]any{}, "validatingAdmissionPolicy"
	if t.Native == Mutating {
		p, _ := mutating.Decode(object) // the compiler reports what cannot be decoded
		for key, c := range mutating.Autogen(p) {
			specs[key] = &c.Spec
		}
		field = "mutatingAdmissionPolicy"
	} else {
		p, _ := validating.Decode(object)
		for key, c := range validating.Autogen(p, object) {
			specs[key] = &c.Spec
		}
	}
	if len(specs) > 0 && t.Native == Validating {
		out.Notes = append(out.Notes, noteSubresources)
	}
	own, _ := object["spec"].(map[string]any)
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	parts := []struct {
		name string
		spec map[string]any
	}{{name, own}}
	for _, key := range slices.Sorted(maps.Keys(specs)) {
		if key == celpolicy.ConfigExtract {
			out.Notes = append(out.Notes, noteExtract)
			continue
		}
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(specs[key])
		if err != nil {
			return Static{Reason: err.Error()}
		}
		parts = append(parts, struct {
			name string
			spec map[string]any
		}{name + "-" + key, spec})
	}
	for _, part := range parts {
		spec := maps.Clone(part.spec)
		spec["autogen"] = map[string]any{"podControllers": map[string]any{"controllers": []any{}}, field: map[string]any{"enabled": true}}
		alone := maps.Clone(object)
		metadata, _ := object["metadata"].(map[string]any)
		metadata = maps.Clone(metadata)
		metadata["name"], alone["metadata"], alone["spec"] = part.name, metadata, spec
		made, err := t.Translate(Input{Object: alone})
		if err != nil {
			return Static{Reason: err.Error()}
		}
		if made.Reason != "" {
			return Static{Reason: strings.TrimLeft(strings.TrimPrefix(made.Reason, t.Native.Skipped()), ": ")}
		}
		for _, o := range []struct {
			kind   string
			object client.Object
		}{{t.Native.Kind, made.Policy}, {t.Native.Binding, made.Binding}} {
			object, err := staticObject(o.kind, o.object)
			if err != nil {
				return Static{Reason: err.Error()}
			}
			out.Objects = append(out.Objects, object)
		}
	}
	return out
}

// staticObject returns an object as it is in a file.
func staticObject(kind string, o client.Object) (map[string]any, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	tree["apiVersion"], tree["kind"] = admissionregistrationv1.SchemeGroupVersion.String(), kind
	return inFile(tree), nil
}

// inFile returns an object with the names, the version and only the metadata that files may have.
func inFile(object map[string]any) map[string]any {
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	out := map[string]any{"apiVersion": admissionregistrationv1.SchemeGroupVersion.String(), "kind": object["kind"], "metadata": map[string]any{"name": staticName(name)}}
	for _, field := range []string{"spec", "webhooks"} {
		if object[field] != nil {
			out[field] = object[field]
		}
	}
	if spec, ok := out["spec"].(map[string]any); ok && spec["policyName"] != nil {
		spec = maps.Clone(spec)
		policy, _ := spec["policyName"].(string)
		spec["policyName"], out["spec"] = staticName(policy), spec
	}
	return out
}

func staticName(name string) string {
	if strings.HasSuffix(name, StaticSuffix) {
		return name
	}
	return name + StaticSuffix
}

// staticNative checks a policy of the API server and its bindings.
func staticNative(object map[string]any, bindings []map[string]any) Static {
	out := Static{Objects: []map[string]any{inFile(object)}}
	if params, _, _ := unstructured.NestedMap(object, "spec", "paramKind"); params != nil {
		return Static{Reason: fmt.Sprintf(reasonStaticParams, "spec.paramKind")}
	}
	want := native.ValidatingBinding
	if object["kind"] == native.MutatingPolicy {
		want = native.MutatingBinding
	}
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	for _, b := range bindings {
		policy, _, _ := unstructured.NestedString(b, "spec", "policyName")
		if b["kind"] != want || policy != name {
			continue
		}
		if params, _, _ := unstructured.NestedMap(b, "spec", "paramRef"); params != nil {
			return Static{Reason: fmt.Sprintf(reasonStaticParams, "spec.paramRef of a binding")}
		}
		out.Objects = append(out.Objects, inFile(b))
	}
	if len(out.Objects) == 1 {
		return Static{Reason: reasonStaticBinding}
	}
	return out
}

// staticWebhooks checks a webhook configuration.
func staticWebhooks(object map[string]any) Static {
	webhooks, _ := object["webhooks"].([]any)
	for _, w := range webhooks {
		webhook, _ := w.(map[string]any)
		if url, _, _ := unstructured.NestedString(webhook, "clientConfig", "url"); url == "" {
			return Static{Reason: fmt.Sprintf(reasonStaticService, webhook["name"])}
		}
	}
	return Static{Objects: []map[string]any{inFile(object)}}
}

func ofGroup(object map[string]any, group string) bool {
	apiVersion, _ := object["apiVersion"].(string)
	found, _, _ := strings.Cut(apiVersion, "/")
	return found == group
}
