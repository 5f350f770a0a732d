package vapgen

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/family/mutating"
	"ephor.invalid/ephor/internal/family/validating"
	"ephor.invalid/ephor/internal/policy"
)

// Input is a policy with the information that its translation needs.
type Input struct {
	Object map[string]any
	// Exceptions are the exceptions for its rules, in order, without expired ones.
	Exceptions []*policy.Exception
	Resources  discovery.Resources
}

// Output is the translation of a policy.
type Output struct {
	// Reason is why the policy is not translated, as its status shows it; empty if it is.
	Reason          string
	Policy, Binding client.Object
}

// Translator translates policies of one kind into policies of the API server.
type Translator struct {
	// Native is the kind of the translation.
	Native *Native
	// Always: the status of every policy reports its translation, not only of those that request it.
	Always bool

	group, kind, apiVersion string
	prefix                  string // prefix of the names of generated objects
	asks                    func(object map[string]any) bool
	translate               func(Input) (Output, error)
	// generated and message are the paths of the status fields.
	generated, message []string
}

var translators = []*Translator{
	{
		Native: Validating, group: kyvernov1.GroupVersion.Group, kind: classic.ClusterPolicy, apiVersion: kyvernov1.GroupVersion.String(), prefix: "cpol-",
		asks: asksClassic, translate: translateClassic,
		generated: []string{"validatingadmissionpolicy", "generated"}, message: []string{"validatingadmissionpolicy", "message"},
	},
	{
		Native: Validating, Always: true, group: celpolicy.Group, kind: validating.Kind, apiVersion: celAPIVersion, prefix: "vpol-",
		asks: asksValidating, translate: translateValidating, generated: celGenerated, message: celMessage,
	},
	{
		Native: Mutating, Always: true, group: celpolicy.Group, kind: mutating.Kind, apiVersion: celAPIVersion, prefix: "mpol-",
		asks: mutating.AsksNative, translate: translateMutating, generated: celGenerated, message: celMessage,
	},
}

// celAPIVersion is the version in which controllers read policies of policies.kyverno.io.
const celAPIVersion = celpolicy.Group + "/v1beta1"

// The fields of the status of policies of policies.kyverno.io.
var celGenerated, celMessage = []string{"generated"}, []string{"conditionStatus", "message"}

// Of returns the translator for policies of a kind, in any version; nil for kinds that are never translated.
func Of(apiVersion, kind string) *Translator {
	group, _, _ := strings.Cut(apiVersion, "/")
	i := slices.IndexFunc(translators, func(t *Translator) bool { return t.group == group && t.kind == kind })
	if i < 0 {
		return nil
	}
	return translators[i]
}

// Asks reports whether the policy requests its translation.
func (t *Translator) Asks(object map[string]any) bool { return t.asks(object) }

// Translate translates a policy. The error means that the kinds could not be looked up.
func (t *Translator) Translate(in Input) (Output, error) { return t.translate(in) }

// Said returns what the status of the policy reports about its translation; known is false if it reports nothing.
func (t *Translator) Said(object map[string]any) (generated bool, message string, known bool) {
	status, _ := object["status"].(map[string]any)
	generated, known, _ = unstructured.NestedBool(status, t.generated...)
	message, _, _ = unstructured.NestedString(status, t.message...)
	return generated, message, known
}

// Waits reports whether the status has no conditions yet. The message is stored beside them, and clients that find one of the two
// expect both.
func (t *Translator) Waits(object map[string]any) bool {
	if t.message[0] != celpolicy.ConditionsPath[0] {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(object, append([]string{"status"}, celpolicy.ConditionsPath...)...)
	return len(conditions) == 0
}

// Status returns the part of the status that reports the translation.
func (t *Translator) Status(generated bool, message string) map[string]any {
	out := map[string]any{}
	// This cannot fail: the paths come from the table, and none goes through a field that is not an object.
	_ = unstructured.SetNestedField(out, generated, t.generated...)
	_ = unstructured.SetNestedField(out, message, t.message...)
	return out
}

// ownerOf returns the translator for the policy from which the object is generated, by its name and only owner; nil if there is none.
func ownerOf(o client.Object, end string) *Translator {
	owners := o.GetOwnerReferences()
	if len(owners) != 1 {
		return nil
	}
	owner := owners[0]
	group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group
	for _, t := range translators {
		if t.group == group && t.kind == owner.Kind && o.GetName() == t.prefix+owner.Name+end {
			return t
		}
	}
	return nil
}
