package serving

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/webhookconf"
)

// Cached returns the objects that a process with webhooks caches: its Secrets, the webhook configurations, and the ClusterRoles, which include
// the owner of the configurations. paths is the name of the Secret of its webhook paths.
func Cached(f Flags, paths, namespace string, roles labels.Selector) map[client.Object]cache.ByObject {
	ours := labels.SelectorFromSet(labels.Set{webhookconf.ManagedLabel: webhookconf.ManagedValue})
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{namespace: {}}, Transform: onlySecrets(f, paths)},
		&admissionv1.ValidatingWebhookConfiguration{}: {Label: ours},
		&admissionv1.MutatingWebhookConfiguration{}:   {Label: ours},
		OwnerObject(): {Label: roles, Transform: OnlyIdentity},
	}
}

// RolesOfControllers selects the ClusterRoles of all controllers. One of them owns the webhook configurations; changes of the others
// change the rights of their controllers.
func RolesOfControllers() labels.Selector {
	in, err := labels.NewRequirement(webhookconf.OwnerLabel, selection.In, []string{
		webhookconf.OwnerValue, "admission-controller", "background-controller", "cleanup-controller", "reports-controller",
	})
	if err != nil {
		panic(err) // the label and its values are constants
	}
	return labels.NewSelector().Add(*in)
}

// onlySecrets keeps the content of the Secrets of a server: its certificates and the key of its paths. It removes the content of all
// other Secrets, which may have any type if users provide them.
func onlySecrets(f Flags, paths string) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if s, ok := obj.(*corev1.Secret); ok {
			s.SetManagedFields(nil)
			if s.Name != f.CASecret && s.Name != f.TLSSecret && s.Name != paths {
				s.Data, s.StringData, s.Annotations = nil, nil, nil
			}
		}
		return obj, nil
	}
}
