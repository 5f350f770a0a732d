package origin

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// The labels of generated objects. They select objects, and prove nothing.
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

// label adds the labels of a rule and a trigger to an object before it is written.
func label(planned *unstructured.Unstructured, p *policy.Program, rule string, trigger kyvernov2.ResourceSpec, source *policy.Source) {
	gvk := schema.FromAPIVersionAndKind(trigger.APIVersion, trigger.Kind)
	set := LabelsOfRule(p, rule)
	for name, value := range map[string]string{
		"trigger-group": gvk.Group, "trigger-version": gvk.Version, "trigger-kind": gvk.Kind,
		"trigger-namespace": trigger.Namespace, "trigger-name": updaterequest.LabelValue(trigger.Name), "trigger-uid": string(trigger.UID),
	} {
		set[LabelPrefix+name] = value
	}
	if source != nil {
		set[LabelPrefix+"source-uid"] = source.UID
	}
	own := with(planned.GetLabels(), set)
	if source == nil {
		delete(own, LabelPrefix+"source-uid") // the object may be built from one that has it
	}
	planned.SetLabels(own)
}

// with returns the texts of a, replaced and completed by those of b.
func with(a, b map[string]string) map[string]string {
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// TriggersOf returns the distinct triggers in the labels of the objects. Labels are no proof.
func TriggersOf(objects ...*unstructured.Unstructured) []kyvernov2.ResourceSpec {
	var out []kyvernov2.ResourceSpec
	seen := map[kyvernov2.ResourceSpec]bool{}
	for _, u := range objects {
		l := u.GetLabels()
		get := func(name string) string { return l[LabelPrefix+name] }
		t := kyvernov2.ResourceSpec{
			APIVersion: schema.GroupVersion{Group: get("trigger-group"), Version: get("trigger-version")}.String(), Kind: get("trigger-kind"),
			Namespace: get("trigger-namespace"), Name: get("trigger-name"), UID: types.UID(get("trigger-uid")),
		}
		if t.Kind != "" && (t.UID != "" || t.Name != "") && !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// IsLabelled reports whether the labels of an object name the policy and the trigger.
func IsLabelled(u *unstructured.Unstructured, p *policy.Program, trigger kyvernov2.ResourceSpec) bool {
	l := u.GetLabels()
	return l[labelManaged] == managedBy && l[LabelPrefix+"policy-name"] == updaterequest.LabelValue(p.Name) &&
		trigger.UID != "" && l[LabelPrefix+"trigger-uid"] == string(trigger.UID)
}

// unlabel removes the labels and the mark of a rule from an object.
func unlabel(u *unstructured.Unstructured) {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	for _, name := range []string{"policy-name", "policy-namespace", "rule-name"} {
		delete(labels, LabelPrefix+name)
	}
	delete(annotations, mark.Annotation)
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
}
