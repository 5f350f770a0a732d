package vapgen

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/family/native"
	"ephor.invalid/ephor/internal/policy"
)

// Names and labels of generated objects.
const (
	bindingEnd   = "-binding"
	labelManaged = "app.kubernetes.io/managed-by"
	managedBy    = "kyverno"
)

// Native describes a kind of the API server's policies into which policies are translated.
type Native struct {
	// Kind is the kind of the policies, and Binding the kind of their bindings; the others are the resources of both.
	Kind, Binding       string
	Resource, Resources string
	// Words are the name of such a policy in events; empty for no events.
	Words string
	// Versions are the versions that can be written, the preferred one first. Their objects have the same fields.
	Versions []string
	// new and newBinding create objects of the types in which both are compared.
	new, newBinding func() client.Object
}

// The kinds.
var (
	Validating = &Native{
		Kind: native.ValidatingPolicy, Binding: native.ValidatingBinding, Resource: "ValidatingAdmissionPolicies", Resources: "ValidatingAdmissionPolicyBindings",
		Words: "validating admission policy", Versions: []string{"v1"},
		new:        func() client.Object { return &admissionregistrationv1.ValidatingAdmissionPolicy{} },
		newBinding: func() client.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{} },
	}
	Mutating = &Native{
		Kind: native.MutatingPolicy, Binding: native.MutatingBinding, Resource: "MutatingAdmissionPolicies", Resources: "MutatingAdmissionPolicyBindings",
		Versions:   []string{"v1", "v1beta1", "v1alpha1"},
		new:        func() client.Object { return &admissionregistrationv1.MutatingAdmissionPolicy{} },
		newBinding: func() client.Object { return &admissionregistrationv1.MutatingAdmissionPolicyBinding{} },
	}
	Natives = []*Native{Validating, Mutating}
)

// Skipped returns the beginning of the texts that say why a policy is not translated.
func (n *Native) Skipped() string { return "skip generating " + n.Kind }

// NotServed returns the reason if the API server does not serve the kind.
func (n *Native) NotServed() string {
	return n.Skipped() + ": requested but no " + n.Kind + " API/informers are available."
}

// NoRight returns the reason if the controller may not write objects of the kind.
func (n *Native) NoRight(bindings bool) string {
	if bindings {
		return "insufficient permissions to generate " + n.Resources
	}
	return "insufficient permissions to generate " + n.Resource
}

// Served returns the preferred version that the API server serves; empty for none.
func (n *Native) Served(resources discovery.Resources) (string, error) {
	found, err := resources.Find(policy.Target{Group: native.Group, Version: "*", Kind: n.Kind})
	if err != nil {
		return "", err
	}
	for _, v := range n.Versions {
		if slices.ContainsFunc(found, func(r discovery.Resource) bool { return r.Version == v }) {
			return v, nil
		}
	}
	return "", nil
}

func gvk(version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: native.Group, Version: version, Kind: kind}
}

// metaOf returns the metadata of an object that is generated from a policy.
func metaOf(apiVersion, kind, name string, of *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Labels: map[string]string{labelManaged: managedBy},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: of.Name, UID: of.UID}},
	}
}

// withoutReports copies the label that excludes the policy from reports.
func withoutReports(to, from *metav1.ObjectMeta) {
	if _, off := from.Labels[ephemeral.DisabledLabel]; off {
		to.Labels[ephemeral.DisabledLabel] = "true"
	}
}
