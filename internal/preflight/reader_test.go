package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// recorded is a cluster with recorded objects. It reads like an API server, and patches annotations.
type recorded struct {
	client.Writer
	t       *testing.T
	objects []*unstructured.Unstructured
	refuses map[string]bool // kinds that may not be read
}

// read adds the objects of YAML documents.
func (r *recorded) read(text []byte) {
	r.t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := map[string]any{}
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			r.t.Fatal(err)
		}
		if len(o) > 0 {
			r.objects = append(r.objects, &unstructured.Unstructured{Object: o})
		}
	}
}

var scheme = Scheme()

func typeOf(t *testing.T, o runtime.Object) schema.GroupVersionKind {
	t.Helper()
	gvk, err := apiutil.GVKForObject(o, scheme)
	if err != nil {
		t.Fatal(err)
	}
	return gvk
}

func (r *recorded) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk := typeOf(r.t, into)
	kind := gvk.Kind
	if r.refuses[kind] {
		return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, key.Name, nil)
	}
	for _, o := range r.objects {
		if o.GroupVersionKind().GroupKind() == gvk.GroupKind() && o.GetName() == key.Name && o.GetNamespace() == key.Namespace {
			return copyInto(o, into)
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
}

func (r *recorded) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	gvk := typeOf(r.t, into)
	kind := gvk.Kind
	if r.refuses[kind] {
		return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", nil)
	}
	var o client.ListOptions
	for _, option := range options {
		option.ApplyToList(&o)
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	for _, object := range r.objects {
		if object.GetKind()+"List" == kind && object.GroupVersionKind().Group == gvk.Group && (o.Namespace == "" || o.Namespace == object.GetNamespace()) &&
			(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(object.GetLabels()))) {
			list.Items = append(list.Items, *object.DeepCopy())
		}
	}
	return copyInto(list, into)
}

func copyInto(from, into any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	if u, ok := into.(*unstructured.UnstructuredList); ok {
		gvk := u.GroupVersionKind()
		u.Items = slices.Clone(from.(*unstructured.UnstructuredList).Items)
		u.SetGroupVersionKind(gvk)
		return nil
	}
	return json.Unmarshal(text, into)
}

func (r *recorded) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	if patch.Type() != types.MergePatchType {
		return errors.New("an unexpected patch")
	}
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	var content struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(data, &content); err != nil {
		return err
	}
	for _, object := range r.objects {
		if object.GetKind() == o.GetObjectKind().GroupVersionKind().Kind && object.GetName() == o.GetName() {
			all := object.GetAnnotations()
			if all == nil {
				all = map[string]string{}
			}
			for k, v := range content.Metadata.Annotations {
				all[k] = v
			}
			object.SetAnnotations(all)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, o.GetName())
}
