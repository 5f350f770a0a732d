package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is policies.kyverno.io/v1beta1.
var GroupVersion = schema.GroupVersion{Group: "policies.kyverno.io", Version: "v1beta1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the kinds of this package, so that typed clients can read and write them.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ValidatingPolicy{}, &ValidatingPolicyList{},
		&NamespacedValidatingPolicy{}, &NamespacedValidatingPolicyList{},
		&MutatingPolicy{}, &MutatingPolicyList{},
		&NamespacedMutatingPolicy{}, &NamespacedMutatingPolicyList{},
		&GeneratingPolicy{}, &GeneratingPolicyList{},
		&NamespacedGeneratingPolicy{}, &NamespacedGeneratingPolicyList{},
		&DeletingPolicy{}, &DeletingPolicyList{},
		&NamespacedDeletingPolicy{}, &NamespacedDeletingPolicyList{},
		&ImageValidatingPolicy{}, &ImageValidatingPolicyList{},
		&NamespacedImageValidatingPolicy{}, &NamespacedImageValidatingPolicyList{},
		&PolicyException{}, &PolicyExceptionList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
