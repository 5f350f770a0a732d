package remote

import (
	"context"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/world"
)

func AddRegistryFlag(f *pflag.FlagSet, to *bool) {
	f.BoolVar(to, "registry", false, "read image data from registries, with the Docker configuration of this machine")
}

// providers are the credential providers that the command line uses: those available to its user.
var providers = []string{"default", "google", "amazon", "azure", "github"}

// Images returns the lookups in image registries, or none if queries are not allowed.
func Images(allowed bool) (none world.Images, err error) {
	if !allowed {
		return none, nil
	}
	client, err := registry.New(registry.Options{Providers: providers, Namespace: secretsNamespace, ConfinedLogin: true}) // the login is that of the user
	if err != nil {
		return none, err
	}
	return client.Lookups(), nil
}

// secretsNamespace is the namespace of pull secrets that are named without one: the namespace of the controllers.
const secretsNamespace = "kyverno"

// registries returns the options for registry queries with the pull secrets of the cluster.
func (c *Cluster) registries(*apicall.Services) registry.Options {
	return registry.Options{Providers: providers, Namespace: secretsNamespace, Secret: c.secret, ServiceAccount: c.pullSecrets, ConfinedLogin: true}
}

// pullSecrets returns the names of the pull secrets of a ServiceAccount.
func (c *Cluster) pullSecrets(ctx context.Context, namespace, name string) ([]string, error) {
	accounts := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"})
	o, err := accounts.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var a corev1.ServiceAccount
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &a); err != nil {
		return nil, err
	}
	var names []string
	for _, s := range a.ImagePullSecrets {
		names = append(names, s.Name)
	}
	return names, nil
}

// secret reads the data of a Secret.
func (c *Cluster) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secrets := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	o, err := secrets.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return secretData(o)
}

func secretData(o *unstructured.Unstructured) (map[string][]byte, error) {
	var s corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s); err != nil {
		return nil, err
	}
	return s.Data, nil
}
