package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/controller"
)

func NewMigrate() *cobra.Command {
	var resources []string
	var kubeconfig, context string
	cmd := &cobra.Command{
		Use:   "migrate --resource CRD...",
		Short: "Store the custom resources of a cluster in the current version",
		Long: "Migrate rewrites every object of the given CustomResourceDefinitions, so that the API server stores it in the current\n" +
			"storage version, and then removes the other versions from status.storedVersions. Only after that can a later release stop\n" +
			"serving them. Running it again changes nothing.",
		Example: "  ephor migrate --resource policyexceptions.kyverno.io --resource clustercleanuppolicies.kyverno.io",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slices.Contains(resources, "") {
				return errors.New("resource cannot be empty")
			}
			config, err := remote.Config(kubeconfig, context)
			if err != nil {
				return err
			}
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				return err
			}
			return migrateAll(cmd, client, resources)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&resources, "resource", nil, "name of a CustomResourceDefinition, such as policyexceptions.kyverno.io (repeat it)")
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file")
	f.StringVar(&context, "context", "", "context of the kubeconfig to use")
	if err := cmd.MarkFlagRequired("resource"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

// migrateAll migrates the objects of definitions. One that fails does not stop the others.
func migrateAll(cmd *cobra.Command, client dynamic.Interface, names []string) error {
	var errs []error
	for _, name := range names {
		m := migration{cmd: cmd, client: client, name: name}
		if err := m.run(); err != nil {
			errs = append(errs, fmt.Errorf("migrate %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// definitions is the resource of CustomResourceDefinitions.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// migration is the migration of the objects of one definition.
type migration struct {
	cmd    *cobra.Command
	client dynamic.Interface
	name   string
}

func (m *migration) say(text string, args ...any) {
	fmt.Fprintf(m.cmd.OutOrStdout(), text+"\n", args...)
}

func (m *migration) run() error {
	m.say("migrating resource: %s ...", m.name)
	crd, err := m.client.Resource(definitions).Get(m.cmd.Context(), m.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	storage, err := storageVersion(crd)
	if err != nil {
		return err
	}
	m.say("stored version: %s", storage)
	stored, _, err := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	if err != nil {
		return err
	}
	if slices.Equal(stored, []string{storage}) {
		m.say("stored version is already up to date, nothing to do")
		return nil
	}
	m.say("migrating resources...")
	if err := m.rewrite(crd, storage); err != nil {
		return err
	}
	m.say("patching status...")
	return m.forget(storage)
}

func storageVersion(crd *unstructured.Unstructured) (string, error) {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return "", err
	}
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if storage, _ := version["storage"].(bool); storage {
			name, _ := version["name"].(string)
			return name, nil
		}
	}
	return "", errors.New("the definition names no storage version")
}

// listedFailures is the number of objects that could not be updated that are named.
const listedFailures = 20

// rewrite updates every object without changing it, so that the API server stores it in the new version. An object that the API server refuses does not
// stop the others.
func (m *migration) rewrite(crd *unstructured.Unstructured, version string) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	resource := m.client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
	list := func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		page, err := resource.List(ctx, o)
		if err != nil {
			err = fmt.Errorf("list: %w", err)
		}
		return page, err
	}
	var refused []error
	failed := 0
	_, err := controller.Pages(m.cmd.Context(), metav1.ListOptions{Limit: remote.PageSize}, list, func(page *unstructured.UnstructuredList) error {
		for i := range page.Items {
			err := m.touch(resource, &page.Items[i])
			if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
				return err
			}
			if err == nil {
				continue
			}
			if failed++; failed <= listedFailures {
				refused = append(refused, err)
			}
		}
		return nil
	})
	if failed > listedFailures {
		refused = append(refused, fmt.Errorf("and %d more objects", failed-listedFailures))
	}
	return errors.Join(append(refused, err)...)
}

// touch updates one object. It ignores conflicts, since another client's update also rewrites the object, and objects that were deleted.
func (m *migration) touch(resource dynamic.NamespaceableResourceInterface, o *unstructured.Unstructured) error {
	_, err := resource.Namespace(o.GetNamespace()).Update(m.cmd.Context(), o, metav1.UpdateOptions{})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("update %s/%s: %w", o.GetNamespace(), o.GetName(), err)
}

// forget makes version the only stored version.
func (m *migration) forget(version string) error {
	resource := m.client.Resource(definitions)
	for {
		crd, err := resource.Get(m.cmd.Context(), m.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if now, err := storageVersion(crd); err != nil || now != version {
			return errors.Join(err, fmt.Errorf("the storage version became %s meanwhile, run it again", now))
		}
		if err := unstructured.SetNestedStringSlice(crd.Object, []string{version}, "status", "storedVersions"); err != nil {
			return err
		}
		_, err = resource.UpdateStatus(m.cmd.Context(), crd, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}
