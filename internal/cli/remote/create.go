package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Create creates the objects of a text of YAML documents in a cluster, and writes their names to out and the warnings of the API server to
// errs.
func Create(ctx context.Context, kubeconfig, kubeContext string, text []byte, out, errs io.Writer) error {
	c, err := Open(kubeconfig, kubeContext, false)
	if err != nil {
		return fmt.Errorf("failed to reach the cluster (%w)", err)
	}
	config, err := Config(kubeconfig, kubeContext)
	if err != nil {
		return err
	}
	config.UserAgent, config.WarningHandler = "ephor-cli", rest.NewWarningWriter(errs, rest.WarningWriterOptions{})
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		u := &unstructured.Unstructured{}
		switch err := documents.Decode(&u.Object); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(u.Object) == 0:
			continue
		}
		kinds, err := c.Kinds.Of(u.GroupVersionKind())
		if err != nil {
			return err
		}
		if len(kinds) == 0 {
			return fmt.Errorf("the cluster does not serve %s %s: install its definition", u.GetAPIVersion(), u.GetKind())
		}
		kind := kinds[0].GVR()
		made, err := objects.Resource(kind).Namespace(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{FieldManager: "ephor"})
		if err != nil {
			return fmt.Errorf("create %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
		}
		fmt.Fprintf(out, "created %s.%s %s/%s\n", kind.Resource, kind.Group, made.GetNamespace(), made.GetName())
	}
}
