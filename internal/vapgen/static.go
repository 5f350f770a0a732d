package vapgen

import (
	"fmt"
	"maps"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/family/native"
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
	reasonStaticParams  = "it has parameters (%s), which are objects of the cluster; write their values into the expressions"
	reasonStaticBinding = "no binding applies it"
	reasonStaticService = "the webhook %s is called by a Service (clientConfig.service), which is an object of the cluster; name its address in clientConfig.url"
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
		return Static{Reason: reasonKind}
	}
	alone := AloneOf(object)
	out := Static{Reason: alone.Reason, Notes: alone.Notes}
	for _, part := range alone.Parts {
		out.Objects = append(out.Objects, inFile(part.Policy), inFile(part.Binding))
	}
	return out
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
