package app

import (
	"fmt"
	"log/slog"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ephor-dev/ephor/internal/webhookconf"
)

// The kinds of policies, read as data: the compiler wants every field that was written, known or not.
var (
	clusterPolicyGVK = schema.GroupVersionKind{Group: "kyverno.io", Version: "v1", Kind: "ClusterPolicy"}
	policyGVK        = schema.GroupVersionKind{Group: "kyverno.io", Version: "v1", Kind: "Policy"}
	namespaceGVK     = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

func policyObject(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

func namespaceObject() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(namespaceGVK)
	return o
}

// restConfig tells how to reach the API server.
func restConfig(kubeconfig string, qps float32, burst int) (*rest.Config, error) {
	var cfg *rest.Config
	var err error
	if kubeconfig == "" {
		cfg, err = rest.InClusterConfig()
	} else {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("find out how to reach the API server: %w", err)
	}
	cfg.QPS, cfg.Burst = qps, burst
	if qps <= 0 {
		cfg.QPS = -1
	}
	return cfg, nil
}

// newManager returns the process's manager. Its cache holds only what admission needs, reduced on arrival.
func newManager(cfg *rest.Config, f *admissionFlags, e env, log *slog.Logger) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, admissionv1.AddToScheme, rbacv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	own := map[string]cache.Config{e.namespace: {}}
	ours := labels.SelectorFromSet(labels.Set{webhookconf.ManagedLabel: webhookconf.ManagedValue})
	owners := labels.SelectorFromSet(labels.Set{webhookconf.OwnerLabel: webhookconf.OwnerValue})
	shared := true // bindings are only read
	noDrain := time.Duration(0)
	m, err := manager.New(cfg, manager.Options{
		Scheme:                  scheme,
		LeaderElection:          false,
		Metrics:                 server.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: &noDrain,
		Cache: cache.Options{
			SyncPeriod:       &f.resyncPeriod,
			DefaultTransform: f.exceptions.transform,
			ByObject: map[client.Object]cache.ByObject{ // only kinds that are always there
				&corev1.Secret{}:    {Namespaces: own, Transform: onlySecrets(f.certificateFlags)},
				&corev1.ConfigMap{}: {Namespaces: own, Field: fields.OneTermEqualSelector("metadata.name", e.configMap)},
				&admissionv1.ValidatingWebhookConfiguration{}: {Label: ours},
				&admissionv1.MutatingWebhookConfiguration{}:   {Label: ours},
				namespaceObject():            {Transform: onlyLabels, UnsafeDisableDeepCopy: &shared},
				crdObject():                  {Transform: onlyIdentity},
				ownerObject():                {Label: owners, Transform: onlyIdentity},
				&rbacv1.RoleBinding{}:        {Transform: onlySubjects, UnsafeDisableDeepCopy: &shared},
				&rbacv1.ClusterRoleBinding{}: {Transform: onlySubjects, UnsafeDisableDeepCopy: &shared},
			},
		},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: false}},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	log.Debug("connected", "host", cfg.Host)
	return m, nil
}

// stripManagedFields drops the bookkeeping of field ownership, often the largest part of an object.
func stripManagedFields(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// onlyLabels reduces a Namespace to what selectors read.
func onlyLabels(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		o.ObjectMeta = metav1.ObjectMeta{
			Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels, DeletionTimestamp: o.DeletionTimestamp,
		}
	}
	return obj, nil
}

// onlySubjects reduces a binding to its role and subjects.
func onlySubjects(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
		o.SetLabels(nil)
		o.SetAnnotations(nil)
		o.SetOwnerReferences(nil)
	}
	return obj, nil
}
