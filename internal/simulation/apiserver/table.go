package apiserver

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// table holds the objects of one kind, and their history.
type table struct {
	resource *Resource
	live     map[string]*object
	log      []event
	// compacted is the version up to which the history is forgotten.
	compacted int64
	watchers  map[*watcher]struct{}
}

func newTable(r *Resource) *table {
	return &table{resource: r, live: map[string]*object{}, watchers: map[*watcher]struct{}{}}
}

// object is one version of an object. It does not change.
type object struct {
	data    map[string]any
	version int64
	texts   map[form][]byte
}

// event is one change in the history.
type event struct {
	version       int64
	key           string
	before, after *object // nil if there was none, or is none any more
}

// form is the form in which an object is sent.
type form struct {
	version string
	as      as
}

type as int

const (
	whole as = iota
	metadataOnly
	tableRow
)

// text returns the JSON form of an object. The caller holds the lock of the server.
func (o *object) text(r *Resource, f form) []byte {
	if t := o.texts[f]; t != nil {
		return t
	}
	if o.texts == nil {
		o.texts = map[form][]byte{}
	}
	t, err := json.Marshal(present(o.data, r, f))
	if err != nil {
		panic(err) // the object was decoded from JSON
	}
	o.texts[f] = t
	return t
}

// present returns an object in the form of an answer.
func present(data map[string]any, r *Resource, f form) map[string]any {
	switch f.as {
	case metadataOnly:
		return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": data["metadata"]}
	case tableRow:
		m := metaOf(data)
		return map[string]any{
			"cells":  []any{m["name"], m["creationTimestamp"]},
			"object": map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": m},
		}
	}
	out := maps.Clone(data)
	out["apiVersion"], out["kind"] = r.gvk(f.version).GroupVersion().String(), r.Kind
	return out
}

// selection selects objects of a list or watch.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func (s *selection) matches(key string, o *object) bool {
	if o == nil {
		return false
	}
	namespace, name := splitKey(key)
	if s.namespace != "" && s.namespace != namespace {
		return false
	}
	if !s.fields.Empty() && !s.fields.Matches(fields.Set{"metadata.name": name, "metadata.namespace": namespace}) {
		return false
	}
	if s.labels.Empty() {
		return true
	}
	set := labels.Set{}
	l, _ := metaOf(o.data)["labels"].(map[string]any)
	for k, v := range l {
		set[k], _ = v.(string)
	}
	return s.labels.Matches(set)
}

// at returns the objects as they were at a version; false if that version is forgotten.
func (t *table) at(version int64) (map[string]*object, bool) {
	if version < t.compacted {
		return nil, false
	}
	if len(t.log) == 0 || t.log[len(t.log)-1].version <= version {
		return t.live, true
	}
	was := maps.Clone(t.live)
	for _, e := range slices.Backward(t.log) {
		if e.version <= version {
			break
		}
		if e.before == nil {
			delete(was, e.key)
		} else {
			was[e.key] = e.before
		}
	}
	return was, true
}

// put stores a change, and sends it to the watches. after is nil for a deletion. The caller holds the lock.
func (s *Server) put(client string, t *table, key string, after map[string]any) *object {
	s.version++
	before := t.live[key]
	e := event{version: s.version, key: key, before: before}
	if after == nil {
		// The event of a deletion has the last state with the version of the deletion.
		last := maps.Clone(before.data)
		meta := maps.Clone(metaOf(last))
		meta["resourceVersion"] = strconv.FormatInt(s.version, 10)
		last["metadata"] = meta
		delete(t.live, key)
		t.record(e, s.options.History)
		t.send(e, &object{data: last, version: s.version})
	} else {
		metaOf(after)["resourceVersion"] = strconv.FormatInt(s.version, 10)
		e.after = &object{data: after, version: s.version}
		t.live[key] = e.after
		t.record(e, s.options.History)
		t.send(e, e.after)
	}
	if s.Observed != nil {
		c := Change{Client: client, Resource: t.resource.GroupResource(), Key: key, After: after}
		if before != nil {
			c.Before = before.data
		}
		s.Observed(c)
	}
	return e.after
}

func (t *table) record(e event, most int) {
	t.log = append(t.log, e)
	if len(t.log) > 2*most {
		t.compacted = t.log[len(t.log)-most-1].version
		t.log = slices.Clone(t.log[len(t.log)-most:])
	}
}
