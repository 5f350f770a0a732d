package convert

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// fit is the metadata that a filter of match selects, as far as it names them.
type fit struct {
	name, namespace     string
	labels, annotations map[string]any
}

// fitting collects what the filters of match select: in random resources, a name and a namespace rarely come together.
func (s *sampler) fitting(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s.fitting(e)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			e := v[k]
			if match, ok := e.(map[string]any); ok && k == "match" {
				s.fit(fitOf(match["resources"]))
				filters, _ := match["any"].([]any)
				for _, f := range filters {
					filter, _ := f.(map[string]any)
					s.fit(fitOf(filter["resources"]))
				}
				all := fitOf(nil)
				filters, _ = match["all"].([]any)
				for _, f := range filters {
					filter, _ := f.(map[string]any)
					one := fitOf(filter["resources"])
					all.name, all.namespace = cmp.Or(all.name, one.name), cmp.Or(all.namespace, one.namespace)
					maps.Copy(all.labels, one.labels)
					maps.Copy(all.annotations, one.annotations)
				}
				s.fit(all)
				continue
			}
			s.fitting(e)
		}
	}
}

// fitOf returns what one filter selects.
func fitOf(resources any) fit {
	r, _ := resources.(map[string]any)
	first := func(field string) string {
		list, _ := r[field].([]any)
		if len(list) == 0 {
			return ""
		}
		if text, _ := list[0].(string); !strings.Contains(text, "{{") {
			return instance(text, "x")
		}
		return ""
	}
	selector, _ := r["selector"].(map[string]any)
	f := fit{name: first("names"), namespace: first("namespaces"), labels: map[string]any{}, annotations: map[string]any{}}
	if name, _ := r["name"].(string); name != "" {
		f.name = instance(name, "x")
	}
	fill := func(into map[string]any, from any) {
		m, _ := from.(map[string]any)
		for k, v := range m {
			text, _ := v.(string)
			into[instance(k, "x")] = instance(text, "x")
		}
	}
	fill(f.labels, selector["matchLabels"])
	fill(f.annotations, r["annotations"])
	expressions, _ := selector["matchExpressions"].([]any)
	for _, e := range expressions {
		expression, _ := e.(map[string]any)
		key, _ := expression["key"].(string)
		values, _ := expression["values"].([]any)
		switch {
		case expression["operator"] == "In" && len(values) > 0:
			f.labels[key] = values[0]
		case expression["operator"] == "Exists":
			f.labels[key] = "x"
		}
	}
	return f
}

// fit adds what filters select.
func (s *sampler) fit(f fit) {
	if f.name != "" || f.namespace != "" || len(f.labels)+len(f.annotations) > 0 {
		s.fits = append(s.fits, f)
	}
}

// set sets the name and the namespace of metadata.
func (f *fit) set(m map[string]any) {
	if f.name != "" {
		m["name"] = f.name
	}
	if f.namespace != "" {
		m["namespace"] = f.namespace
	}
}

// mark sets the labels and annotations of metadata.
func (f *fit) mark(m map[string]any) {
	for field, more := range map[string]map[string]any{"labels": f.labels, "annotations": f.annotations} {
		if len(more) == 0 {
			continue
		}
		all, _ := m[field].(map[string]any)
		if all == nil {
			all = map[string]any{}
		}
		maps.Copy(all, more)
		m[field] = all
	}
}
