package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// attempts is how often a patch without a resource version is repeated when the object changes meanwhile.
const attempts = 5

// write carries out a request that changes objects.
func (s *Server) write(q *Request, t *table, f form) (code int, text []byte, err error) {
	if q.Verb == "deletecollection" {
		return s.deleteAll(q, t, f)
	}
	for range attempts {
		code, text, err = s.writeOnce(q, t, f)
		if !errors.Is(err, errChanged) {
			return code, text, err
		}
	}
	return 0, nil, apierrors.NewConflict(t.resource.GroupResource(), q.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

// errChanged is the error of a write whose object changed while webhooks were called.
var errChanged = errors.New("the object changed during the request")

func (s *Server) writeOnce(q *Request, t *table, f form) (int, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dry := q.Query.Get("dryRun") == "All"
	key := keyOf(q.Namespace, q.Name)
	before := t.live[key]
	var after map[string]any
	var err error
	code := http.StatusOK
	switch q.Verb {
	case "create":
		code = http.StatusCreated
		if after, err = s.created(q, t); err != nil {
			return 0, nil, err
		}
		key = keyOf(q.Namespace, textOf(metaOf(after), "name"))
		if before = t.live[key]; before != nil {
			return 0, nil, apierrors.NewAlreadyExists(t.resource.GroupResource(), textOf(metaOf(after), "name"))
		}
	case "update":
		after, err = s.updated(q, t, before)
	case "patch":
		if after, err = s.patched(q, t, before); err == nil && before == nil {
			code = http.StatusCreated
		}
	case "delete":
		return s.deleted(q, t, key, before, f, dry)
	}
	if err != nil {
		return 0, nil, err
	}
	if s.options.Defaults != nil {
		s.options.Defaults(t.resource.gvk("").GroupKind(), after)
	}
	if after, err = s.admit(q, t, key, before, after, dry); err != nil {
		return 0, nil, err
	}
	if before != nil {
		if done := s.unchanged(t, before, after); done {
			return code, before.text(t.resource, f), nil
		}
	} else if err := s.mayCreate(t, q.Namespace); err != nil {
		return 0, nil, err
	}
	if dry {
		o := &object{data: after}
		return code, o.text(t.resource, f), nil
	}
	meta := metaOf(after)
	if list, _ := meta["finalizers"].([]any); meta["deletionTimestamp"] != nil && len(list) == 0 {
		s.remove(q.Client, t, key)
		o := &object{data: after}
		return code, o.text(t.resource, f), nil
	}
	o := s.put(q.Client, t, key, after)
	s.react(t, after)
	return code, o.text(t.resource, f), nil
}

// decode reads an object of a request.
func decode(q *Request, t *table) (map[string]any, error) {
	var o map[string]any
	if err := json.Unmarshal(q.Body, &o); err != nil {
		return nil, apierrors.NewBadRequest("the object provided is unrecognized: " + err.Error())
	}
	if kind := textOf(o, "kind"); kind != t.resource.Kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is a %q, not a %s", kind, t.resource.Kind))
	}
	if metaOf(o) == nil {
		o["metadata"] = map[string]any{}
	}
	if n := textOf(metaOf(o), "namespace"); n != "" && n != q.Namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if t.resource.Namespaced {
		metaOf(o)["namespace"] = q.Namespace
	}
	plain(o)
	return o, nil
}

// plain replaces numbers without fractions by integers, and drops null timestamps.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = plain(e)
		}
		if t, ok := v["creationTimestamp"]; ok && t == nil {
			delete(v, "creationTimestamp")
		}
	case []any:
		for i, e := range v {
			v[i] = plain(e)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

// created returns the object of a creation as it is stored.
func (s *Server) created(q *Request, t *table) (map[string]any, error) {
	o, err := decode(q, t)
	if err != nil {
		return nil, err
	}
	if err := s.begin(q, t, o); err != nil {
		return nil, err
	}
	return o, nil
}

// begin fills in what the server sets on new objects.
func (s *Server) begin(q *Request, t *table, o map[string]any) error {
	r, m := t.resource, metaOf(o)
	if textOf(m, "resourceVersion") != "" {
		return errors.New("resourceVersion should not be set on objects to be created") // the API server answers 500
	}
	if textOf(m, "name") == "" {
		prefix := textOf(m, "generateName")
		if prefix == "" {
			return apierrors.NewInvalid(r.gvk("").GroupKind(), "", field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")})
		}
		s.names++
		m["name"] = prefix + fmt.Sprintf("%05d", s.names)
	}
	if err := s.mayCreate(t, q.Namespace); err != nil {
		return err
	}
	m["uid"], m["creationTimestamp"] = s.newUID(), now()
	delete(m, "deletionTimestamp")
	delete(m, "deletionGracePeriodSeconds")
	delete(m, "generation")
	if r.Generation || r.Custom {
		m["generation"] = int64(1)
	}
	if r.Status {
		delete(o, "status")
	}
	switch r.Kind {
	case "Namespace":
		if r.Group == "" {
			labels, _ := m["labels"].(map[string]any)
			if labels == nil {
				labels = map[string]any{}
			}
			labels["kubernetes.io/metadata.name"] = m["name"]
			m["labels"] = labels
			o["spec"], o["status"] = map[string]any{"finalizers": []any{"kubernetes"}}, map[string]any{"phase": "Active"}
		}
	case "Secret":
		if o["type"] == nil {
			o["type"] = "Opaque"
		}
	}
	return nil
}

// mayCreate checks the namespace of a new object.
func (s *Server) mayCreate(t *table, namespace string) error {
	if !t.resource.Namespaced {
		return nil
	}
	all := s.tables[namespaces]
	if all == nil {
		return nil
	}
	ns := all.live[keyOf("", namespace)]
	if ns == nil {
		return apierrors.NewNotFound(namespaces, namespace)
	}
	if metaOf(ns.data)["deletionTimestamp"] != nil {
		err := apierrors.NewForbidden(t.resource.GroupResource(), "", fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: "NamespaceTerminating", Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: "metadata.namespace"})
		return err
	}
	return nil
}

// updated returns the object of an update as it is stored.
func (s *Server) updated(q *Request, t *table, before *object) (map[string]any, error) {
	o, err := decode(q, t)
	if err != nil {
		return nil, err
	}
	if name := textOf(metaOf(o), "name"); name != q.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, q.Name))
	}
	if before == nil {
		return nil, apierrors.NewNotFound(t.resource.GroupResource(), q.Name)
	}
	if t.resource.Custom && textOf(metaOf(o), "resourceVersion") == "" {
		return nil, apierrors.NewInvalid(t.resource.gvk("").GroupKind(), q.Name, field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	}
	return s.next(q, t, before, o)
}

// next returns a new version of an object: it checks the preconditions, and keeps what clients may not change.
func (s *Server) next(q *Request, t *table, before *object, o map[string]any) (map[string]any, error) {
	r, m, old := t.resource, metaOf(o), metaOf(before.data)
	gr := r.GroupResource()
	if v := textOf(m, "resourceVersion"); v != "" && v != strconv.FormatInt(before.version, 10) {
		return nil, apierrors.NewConflict(gr, q.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if uid := textOf(m, "uid"); uid != "" && uid != textOf(old, "uid") {
		return nil, apierrors.NewConflict(gr, q.Name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, textOf(old, "uid"))) //lint:ignore ST1005 the API server\'s words
	}
	if q.Subresource == "status" {
		status, has := o["status"]
		managed := m["managedFields"]
		o = maps.Clone(before.data)
		if delete(o, "status"); has {
			o["status"] = status
		}
		m = maps.Clone(old)
		if managed != nil {
			m["managedFields"] = managed
		}
		o["metadata"] = m
	} else if r.Status {
		delete(o, "status")
		if status, ok := before.data["status"]; ok {
			o["status"] = status
		}
	}
	for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "namespace", "name", "generateName"} {
		if v, ok := old[name]; ok {
			m[name] = v
		} else {
			delete(m, name)
		}
	}
	if old["deletionTimestamp"] != nil {
		had, _ := old["finalizers"].([]any)
		has, _ := m["finalizers"].([]any)
		for _, f := range has {
			if !slices.Contains(had, f) {
				return nil, apierrors.NewInvalid(r.gvk("").GroupKind(), q.Name, field.ErrorList{field.Forbidden(field.NewPath("metadata", "finalizers"), "no new finalizers can be added if the object is being deleted")})
			}
		}
	}
	for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		if empty(m[name]) {
			delete(m, name)
		}
	}
	m["resourceVersion"] = strconv.FormatInt(before.version, 10)
	if (r.Generation || r.Custom) && q.Subresource == "" && !sameSpec(before.data, o) {
		g, _ := old["generation"].(int64)
		m["generation"] = g + 1
	}
	return o, nil
}

func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil
}

// sameSpec reports whether two versions differ at most in metadata and status.
func sameSpec(a, b map[string]any) bool {
	rest := func(o map[string]any) map[string]any {
		o = maps.Clone(o)
		for _, k := range []string{"metadata", "status", "apiVersion", "kind"} {
			delete(o, k)
		}
		return o
	}
	return reflect.DeepEqual(rest(a), rest(b))
}

// unchanged reports whether a write changes nothing; it is then not stored.
func (s *Server) unchanged(t *table, before *object, after map[string]any) bool {
	a, b := maps.Clone(before.data), maps.Clone(after)
	for _, o := range []map[string]any{a, b} {
		delete(o, "apiVersion")
		delete(o, "kind")
		m := maps.Clone(metaOf(o))
		delete(m, "managedFields")
		delete(m, "resourceVersion")
		o["metadata"] = m
	}
	return reflect.DeepEqual(a, b)
}

// deleteOptions are the options of a deletion.
func deleteOptions(q *Request) (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	if len(q.Body) > 0 {
		if err := json.Unmarshal(q.Body, o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := q.Query.Get("propagationPolicy"); p != "" {
		policy := metav1.DeletionPropagation(p)
		o.PropagationPolicy = &policy
	}
	return o, nil
}

// deleted deletes an object, or marks it as long as it has finalizers.
func (s *Server) deleted(q *Request, t *table, key string, before *object, f form, dry bool) (int, []byte, error) {
	gr := t.resource.GroupResource()
	options, err := deleteOptions(q)
	if err != nil {
		return 0, nil, err
	}
	dry = dry || slices.Contains(options.DryRun, metav1.DryRunAll)
	if before == nil {
		return 0, nil, apierrors.NewNotFound(gr, q.Name)
	}
	meta := metaOf(before.data)
	if p := options.Preconditions; p != nil {
		if uid := textOf(meta, "uid"); p.UID != nil && string(*p.UID) != uid {
			return 0, nil, apierrors.NewConflict(gr, q.Name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", *p.UID, uid)) //lint:ignore ST1005 the API server\'s words
		}
		if v := textOf(meta, "resourceVersion"); p.ResourceVersion != nil && *p.ResourceVersion != v {
			return 0, nil, apierrors.NewConflict(gr, q.Name, fmt.Errorf("Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", *p.ResourceVersion, v)) //lint:ignore ST1005 the API server\'s words
		}
	}
	if _, err := s.admit(q, t, key, before, nil, dry); err != nil {
		return 0, nil, err
	}
	if dry {
		return http.StatusOK, before.text(t.resource, f), nil
	}
	if p := options.PropagationPolicy; p != nil && *p == metav1.DeletePropagationOrphan {
		s.orphan(textOf(meta, "uid"))
	}
	if o := s.erase(q.Client, t, key); o != nil {
		return http.StatusOK, o.text(t.resource, f), nil
	}
	text, _ := json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: q.Name, Group: gr.Group, Kind: gr.Resource, UID: types.UID(textOf(meta, "uid"))},
	})
	return http.StatusOK, text, nil
}

// deleteAll deletes the objects that a request selects.
func (s *Server) deleteAll(q *Request, t *table, f form) (int, []byte, error) {
	sel, err := selectionOf(q)
	if err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(t.live)) {
		if sel.matches(key, t.live[key]) {
			s.erase(q.Client, t, key)
		}
	}
	text, _ := json.Marshal(&metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	return http.StatusOK, text, nil
}

func copyOf(o map[string]any) map[string]any { return runtime.DeepCopyJSON(o) }
