package execute

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// The labels of generated objects.
const (
	LabelPrefix  = "generate.kyverno.io/"
	labelManaged = "app.kubernetes.io/managed-by"
	managedBy    = "kyverno"
)

// LabelsOfRule selects the objects of a rule by their labels.
func LabelsOfRule(p *policy.Program, rule string) labels.Set {
	if bareLabels(p) {
		return labels.Set{labelManaged: managedBy, LabelPrefix + "policy-name": updaterequest.LabelValue(p.Name)}
	}
	return labels.Set{
		labelManaged: managedBy, LabelPrefix + "policy-name": p.Name, LabelPrefix + "policy-namespace": p.Namespace, LabelPrefix + "rule-name": rule,
	}
}

// bareLabels reports whether the labels for this kind of policy are set here, and not by the evaluation.
func bareLabels(p *policy.Program) bool {
	k := compile.Kinds.Named(p.Kind)
	return k != nil && k.BareLabels
}

// label adds the labels of the task's work to an object before it is written.
func (t *task) label(planned *unstructured.Unstructured, source *policy.Source) {
	gvk := schema.FromAPIVersionAndKind(t.Trigger.APIVersion, t.Trigger.Kind)
	set := LabelsOfRule(t.program, t.rule.Name)
	for name, value := range map[string]string{
		"trigger-group": gvk.Group, "trigger-version": gvk.Version, "trigger-kind": gvk.Kind,
		"trigger-namespace": t.Trigger.Namespace, "trigger-name": updaterequest.LabelValue(t.Trigger.Name), "trigger-uid": string(t.Trigger.UID),
	} {
		set[LabelPrefix+name] = value
	}
	if source != nil {
		set[LabelPrefix+"source-uid"] = source.UID
	}
	own := union(planned.GetLabels(), set)
	if source == nil {
		delete(own, LabelPrefix+"source-uid") // the object may be built from one that has it
	}
	planned.SetLabels(own)
}
