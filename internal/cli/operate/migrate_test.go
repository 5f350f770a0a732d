package operate

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// An object or a definition that cannot be migrated stops no other one. All are named, and the definition keeps its old version.
func TestMigrateGoesOn(t *testing.T) {
	definition := func(name, plural string) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"group": "example.com", "names": map[string]any{"plural": plural},
				"versions": []any{map[string]any{"name": "v1", "storage": true}},
			},
			"status": map[string]any{"storedVersions": []any{"v1beta1", "v1"}},
		}}
	}
	object := func(kind, name string) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": "n"}}}
	}
	lists := map[schema.GroupVersionResource]string{
		definitions: "CustomResourceDefinitionList",
		{Group: "example.com", Version: "v1", Resource: "gadgets"}: "GadgetList", {Group: "example.com", Version: "v1", Resource: "tools"}: "ToolList",
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists,
		definition("gadgets.example.com", "gadgets"), definition("tools.example.com", "tools"), object("Gadget", "a"), object("Gadget", "bad"), object("Gadget", "c"), object("Gadget", "worse"), object("Tool", "d"))
	var updated []string
	client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		u := action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured)
		if name := u.GetName(); name == "bad" || name == "worse" {
			return true, nil, apierrors.NewInternalError(errors.New("a webhook refuses it"))
		}
		updated = append(updated, u.GetName())
		return false, nil, nil
	})
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetOut(new(bytes.Buffer))
	err := migrateAll(cmd, client, []string{"gadgets.example.com", "missing.example.com", "tools.example.com"})
	for _, part := range []string{"n/bad", "n/worse", "migrate missing.example.com"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, without %q", err, part)
		}
	}
	if want := []string{"a", "c", "d", "tools.example.com"}; !slices.Equal(updated, want) {
		t.Errorf("%q are updated, want %q", updated, want)
	}
}
