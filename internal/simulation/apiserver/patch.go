package apiserver

import (
	"encoding/json"
	"fmt"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// patched returns an object after a patch.
func (s *Server) patched(q *Request, t *table, before *object) (map[string]any, error) {
	gr := t.resource.GroupResource()
	kind, _, _ := strings.Cut(q.ContentType, ";")
	if kind == "application/apply-patch+yaml" || kind == "application/apply-patch+cbor" {
		return s.applied(q, t, before)
	}
	if before == nil {
		return nil, apierrors.NewNotFound(gr, q.Name)
	}
	was := before.text(t.resource, form{version: q.Version})
	var text []byte
	var err error
	switch kind {
	case "application/merge-patch+json":
		text, err = jsonpatch.MergePatch(was, q.Body)
	case "application/strategic-merge-patch+json":
		if t.resource.Custom {
			return nil, unsupported(q)
		}
		text, err = jsonpatch.MergePatch(was, q.Body) // lists are replaced; the controllers send none
	case "application/json-patch+json":
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(q.Body); err == nil {
			if text, err = p.Apply(was); err != nil {
				return nil, apierrors.NewGenericServerResponse(422, "patch", gr, q.Name, err.Error(), 0, false)
			}
		}
	default:
		return nil, unsupported(q)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var o map[string]any
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	plain(o)
	return s.next(q, t, before, o)
}

func unsupported(q *Request) error {
	return apierrors.NewGenericServerResponse(415, "patch", q.GroupResource(), q.Name, "the body of the request was in an unknown format: "+q.ContentType, 0, false)
}

// applied returns an object after a server-side apply. The lists of an object are single values, as in kinds without a schema.
func (s *Server) applied(q *Request, t *table, before *object) (map[string]any, error) {
	gvk := t.resource.gvk(q.Version)
	manager := q.Query.Get("fieldManager")
	if manager == "" {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", field.ErrorList{field.Required(field.NewPath("fieldManager"), "is required for apply patch")})
	}
	var intent map[string]any
	if err := yaml.Unmarshal(q.Body, &intent); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	plain(intent)
	if metaOf(intent) == nil {
		intent["metadata"] = map[string]any{}
	}
	m, err := managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), same{}, same{}, same{}, gvk, gvk.GroupVersion(), q.Subresource, nil)
	if err != nil {
		return nil, err
	}
	var live map[string]any
	if before == nil {
		live = map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": map[string]any{"name": q.Name}}
		if t.resource.Namespaced {
			metaOf(live)["namespace"] = q.Namespace
		}
		if textOf(metaOf(intent), "uid") != "" {
			return nil, apierrors.NewConflict(t.resource.GroupResource(), q.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", textOf(metaOf(intent), "uid")))
		}
	} else {
		live = copyOf(present(before.data, t.resource, form{version: q.Version}))
	}
	out, err := m.Apply(&unstructured.Unstructured{Object: live}, &unstructured.Unstructured{Object: intent}, manager, q.Query.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	o := plain(out.(*unstructured.Unstructured).Object).(map[string]any)
	if before == nil {
		delete(metaOf(o), "resourceVersion")
		return o, s.begin(q, t, o)
	}
	return s.next(q, t, before, o)
}

// same converts objects between versions, which are all the same.
type same struct{}

func (same) Convert(in, out, _ any) error { return fmt.Errorf("convert %T to %T", in, out) }
func (same) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (same) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", nil
}
func (same) Default(runtime.Object) {}
func (same) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}
