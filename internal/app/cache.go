package app

import (
	"fmt"
	"maps"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/scan"
	"ephor.invalid/ephor/internal/webhookconf"
)

// restConfig returns the configuration for requests to the API server.
func restConfig(kubeconfig string, qps float32, burst int) (*rest.Config, error) {
	var cfg *rest.Config
	var err error
	if kubeconfig == "" {
		cfg, err = rest.InClusterConfig()
	} else {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration for the API server: %w", err)
	}
	cfg.QPS, cfg.Burst = qps, burst
	if qps <= 0 {
		cfg.QPS = -1
	}
	return cfg, nil
}

// cached describes what a controller caches in addition to the objects that every controller caches.
type cached struct {
	schemes   []func(*runtime.Scheme) error
	objects   map[client.Object]cache.ByObject // only kinds that every cluster serves
	transform toolscache.TransformFunc         // for kinds without a transform in objects
}

// newManager returns the manager of a controller. Its cache holds only the objects that the controller needs, and reduces them when they
// arrive.
func newManager(b *base, f *commonFlags, e env, own cached) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range append(own.schemes, corev1.AddToScheme) {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	shared := true // namespaces are only read
	noDrain := time.Duration(0)
	objects := map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{e.namespace: {}}, Field: fields.OneTermEqualSelector("metadata.name", e.configMap),
		},
		intake.NamespaceObject(): {Transform: onlyLabels, UnsafeDisableDeepCopy: &shared},
	}
	maps.Copy(objects, own.objects)
	m, err := manager.New(b.cfg, manager.Options{
		Scheme:                  scheme,
		LeaderElection:          false,
		Metrics:                 server.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: &noDrain,
		Cache:                   cache.Options{NewInformer: controller.NewInformer, SyncPeriod: &f.resyncPeriod, DefaultTransform: own.transform, ByObject: objects},
		Client:                  client.Options{Cache: &client.CacheOptions{Unstructured: false}},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	b.log.Debug("connected", "host", b.cfg.Host)
	return m, nil
}

// webhookObjects returns the objects that a controller with webhooks caches: its Secrets, the webhook configurations, and the
// ClusterRoles, which include the owner of the configurations.
func webhookObjects(f serving.Flags, paths string, e env, roles labels.Selector) map[client.Object]cache.ByObject {
	ours := labels.SelectorFromSet(labels.Set{webhookconf.ManagedLabel: webhookconf.ManagedValue})
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{e.namespace: {}}, Transform: onlySecrets(f, paths)},
		&admissionv1.ValidatingWebhookConfiguration{}: {Label: ours},
		&admissionv1.MutatingWebhookConfiguration{}:   {Label: ours},
		serving.OwnerObject():                         {Label: roles, Transform: serving.OnlyIdentity},
	}
}

// rolesOfControllers selects the ClusterRoles of all controllers. One of them owns the webhook configurations; changes of the others
// change the rights of their controllers.
func rolesOfControllers() labels.Selector {
	in, err := labels.NewRequirement(webhookconf.OwnerLabel, selection.In, []string{
		webhookconf.OwnerValue, "admission-controller", "background-controller", "cleanup-controller", "reports-controller",
	})
	if err != nil {
		panic(err) // the label and its values are constants
	}
	return labels.NewSelector().Add(*in)
}

// admissionObjects returns the objects that the admission controller caches.
func admissionObjects(f *admissionFlags, e env) cached {
	shared := true // bindings are only read
	objects := webhookObjects(f.Flags, keystore.Routes, e, rolesOfControllers())
	objects[intake.DefinitionObject()] = cache.ByObject{Transform: serving.OnlyIdentity}
	objects[&rbacv1.RoleBinding{}] = cache.ByObject{Transform: onlySubjects, UnsafeDisableDeepCopy: &shared}
	objects[&rbacv1.ClusterRoleBinding{}] = cache.ByObject{Transform: onlySubjects, UnsafeDisableDeepCopy: &shared}
	return cached{
		schemes:   []func(*runtime.Scheme) error{admissionv1.AddToScheme, rbacv1.AddToScheme, authorizationv1.AddToScheme},
		objects:   objects,
		transform: f.exceptions.transform,
	}
}

// stripManagedFields removes managedFields, which are often the largest part of an object.
func stripManagedFields(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// onlyLabels reduces a Namespace to the fields that selectors read, and to the annotation that requests a scan.
func onlyLabels(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		rescan, asked := o.Annotations[scan.RescanAnnotation]
		o.ObjectMeta = metav1.ObjectMeta{
			Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels, DeletionTimestamp: o.DeletionTimestamp,
		}
		if asked {
			o.Annotations = map[string]string{scan.RescanAnnotation: rescan}
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

// onlySecrets keeps the content of the Secrets of a server: its certificates and the key of its paths. It removes the content of all
// other Secrets, which may have any type if users provide them.
func onlySecrets(f serving.Flags, paths string) toolscache.TransformFunc {
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
