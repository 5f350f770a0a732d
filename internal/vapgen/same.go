package vapgen

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/ephemeral"
)

// same reports whether an existing object is as wanted, apart from the defaults that the API server has added.
func same(want, have client.Object) bool {
	for _, l := range []string{labelManaged, ephemeral.DisabledLabel} {
		h, there := have.GetLabels()[l]
		if w, wanted := want.GetLabels()[l]; h != w || there != wanted {
			return false
		}
	}
	if !equality.Semantic.DeepEqual(have.GetOwnerReferences(), want.GetOwnerReferences()) {
		return false
	}
	switch w := want.DeepCopyObject().(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		h, ok := have.(*admissionregistrationv1.ValidatingAdmissionPolicy)
		defaults(w.Spec.MatchConstraints)
		return ok && equality.Semantic.DeepEqual(w.Spec, h.Spec)
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		h, ok := have.(*admissionregistrationv1.MutatingAdmissionPolicy)
		defaults(w.Spec.MatchConstraints)
		return ok && equality.Semantic.DeepEqual(w.Spec, h.Spec)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		h, ok := have.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
		if !ok {
			return false
		}
		if p := w.Spec.ParamRef; p != nil && h.Spec.ParamRef != nil && p.ParameterNotFoundAction == nil {
			p.ParameterNotFoundAction = h.Spec.ParamRef.ParameterNotFoundAction
		}
		return equality.Semantic.DeepEqual(w.Spec, h.Spec)
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		h, ok := have.(*admissionregistrationv1.MutatingAdmissionPolicyBinding)
		return ok && equality.Semantic.DeepEqual(w.Spec, h.Spec)
	}
	return false
}

// defaults sets the API server's defaults for constraints.
func defaults(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	if m.MatchPolicy == nil {
		m.MatchPolicy = ptr.To(admissionregistrationv1.Equivalent)
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
}
