package generating

import (
	"strconv"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/reads"
	"ephor.invalid/ephor/internal/policy"
)

// unknown is the placeholder in a grant for a value that is only known after an evaluation.
const unknown = "{{ evaluated }}"

var generatingVerbs = []string{"create", "delete", "get", "update"}

// grants returns the rights that the author of a namespaced policy needs: rights on the kinds of its templates, and on every kind if an
// expression creates the objects. A cluster-wide policy uses the rights of the background controller.
func (g *generator) grants(in []policiesv1beta1.Generation) (out []policy.Grant) {
	if g.namespace == "" || len(in) != len(g.steps) {
		return nil
	}
	for i, s := range g.steps {
		at := "spec.generate[" + strconv.Itoa(i) + "]"
		add := func(apiVersion, kind string) {
			out = append(out, policy.Grant{APIVersion: apiVersion, Kind: kind, Namespace: g.namespace, Verbs: generatingVerbs, Path: at})
		}
		if s.expression != nil {
			add(unknown, unknown)
			continue
		}
		for _, document := range s.template {
			add(kindIn(document))
		}
	}
	return out
}

// kindIn returns the API version and kind of a document. They are empty if they come from an expression.
func kindIn(n node) (apiVersion, kind string) {
	get := func(name string) string {
		var v any
		switch n := n.(type) {
		case literal:
			m, _ := n.value.(map[string]any)
			v = m[name]
		case mapping:
			for _, f := range n {
				if l, ok := f.value.(literal); ok && f.name == name {
					v = l.value
				}
			}
		}
		if text, ok := v.(string); ok {
			return text
		}
		return unknown
	}
	return get("apiVersion"), get("kind")
}

// foreseen returns the rights that the background controller needs, as far as templates and expressions state the kinds literally.
func (g *generator) foreseen(named []reads.NamedObject, made *policy.Generation) (out []policy.Grant) {
	verbs := []string{"get", "create"}
	switch {
	case made.Synchronize && made.ServerSideApply:
		verbs = append(verbs, "patch", "delete")
	case made.Synchronize:
		verbs = append(verbs, "update", "delete")
	}
	add := func(grant policy.Grant) {
		grant.Namespace, grant.Path = g.namespace, "spec.generate"
		out = append(out, grant)
	}
	for _, s := range g.steps {
		for _, document := range s.template {
			apiVersion, kind := kindIn(document)
			add(policy.Grant{APIVersion: apiVersion, Kind: kind, Verbs: verbs})
		}
	}
	for _, n := range named {
		if n.Verb == "" {
			add(policy.Grant{APIVersion: n.APIVersion, Kind: n.Name, Verbs: verbs})
			continue
		}
		add(policy.Grant{APIVersion: n.APIVersion, Kind: n.Name, Verbs: []string{n.Verb}, ByResource: true, Source: true})
	}
	return out
}
