package apiserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// token is the continue token of a list. Version is -1 for the rest of a list that lost its state.
type token struct {
	Version int64  `json:"rv"`
	After   string `json:"start"`
}

func (t token) String() string {
	text, _ := json.Marshal(t)
	return base64.RawURLEncoding.EncodeToString(text)
}

// selectionOf returns what a list or watch selects.
func selectionOf(q *Request) (selection, error) {
	sel := selection{namespace: q.Namespace, labels: labels.Everything(), fields: fields.Everything()}
	var err error
	if text := q.Query.Get("labelSelector"); text != "" {
		if sel.labels, err = labels.Parse(text); err != nil {
			return sel, apierrors.NewBadRequest(err.Error())
		}
	}
	if text := q.Query.Get("fieldSelector"); text != "" {
		if sel.fields, err = fields.ParseSelector(text); err != nil {
			return sel, apierrors.NewBadRequest(err.Error())
		}
		for _, r := range sel.fields.Requirements() {
			if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
				return sel, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
			}
		}
	}
	if q.Name != "" { // a watch of one object
		sel.fields = fields.OneTermEqualSelector("metadata.name", q.Name)
	}
	return sel, nil
}

// list returns one page of a list. The caller holds the lock.
func (s *Server) list(q *Request, t *table, sel selection, f form) ([]byte, error) {
	limit, _ := strconv.Atoi(q.Query.Get("limit"))
	at, start := s.version, ""
	objects := t.live
	if text := q.Query.Get("continue"); text != "" {
		var next token
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || json.Unmarshal(raw, &next) != nil {
			return nil, apierrors.NewBadRequest("continue key is not valid")
		}
		if rv := q.Query.Get("resourceVersion"); rv != "" && rv != "0" {
			return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		start = next.After
		if next.Version >= 0 {
			var kept bool
			if objects, kept = t.at(next.Version); !kept || s.options.ShortTokens {
				gone := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
				gone.ErrStatus.ListMeta = metav1.ListMeta{Continue: token{Version: -1, After: next.After}.String()}
				return nil, gone
			}
			at = next.Version
		}
	} else if q.Query.Get("resourceVersionMatch") == "Exact" {
		version, err := strconv.ParseInt(q.Query.Get("resourceVersion"), 10, 64)
		if err != nil || version == 0 {
			return nil, apierrors.NewBadRequest("resourceVersionMatch=Exact needs a resourceVersion")
		}
		var kept bool
		if objects, kept = t.at(version); !kept {
			return nil, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
		}
		at = version
	} else if rv := q.Query.Get("resourceVersion"); rv != "" && rv != "0" {
		version, err := strconv.ParseInt(rv, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest("invalid resource version: " + rv)
		}
		if version > s.version {
			return nil, apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, s.version), 1)
		}
	} else if rv == "0" && q.behind > 0 {
		if older, kept := t.at(s.version - q.behind); kept {
			objects, at = older, s.version-q.behind
		}
	}
	meta := map[string]any{"resourceVersion": strconv.FormatInt(at, 10)}
	var items bytes.Buffer
	sent, rest := 0, 0
	last := ""
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		if key <= start || !sel.matches(key, objects[key]) {
			continue
		}
		if limit > 0 && sent == limit {
			rest++
			continue
		}
		if sent > 0 {
			items.WriteByte(',')
		}
		items.Write(objects[key].text(t.resource, f))
		sent, last = sent+1, key
	}
	if rest > 0 {
		meta["continue"] = token{Version: at, After: last}.String()
		if sel.labels.Empty() && sel.fields.Empty() {
			meta["remainingItemCount"] = rest
		}
	}
	kind, version, field := t.resource.Kind+"List", t.resource.gvk(f.version).GroupVersion().String(), "items"
	columns := ""
	switch f.as {
	case metadataOnly:
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	case tableRow:
		kind, version, field = "Table", "meta.k8s.io/v1", "rows"
		columns = `"columnDefinitions":[{"name":"Name","type":"string","format":"name"},{"name":"Created At","type":"date"}],`
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"kind":%q,"apiVersion":%q,"metadata":%s,%s%q:[`, kind, version, text, columns, field)
	out.Write(items.Bytes())
	out.WriteString("]}")
	return out.Bytes(), nil
}
