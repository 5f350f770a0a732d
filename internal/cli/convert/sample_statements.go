package convert

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"
)

// contents returns, for each type of attestation in a policy, the fields that its conditions read.
func contents(original map[string]any) map[string]*value.Fields {
	out := map[string]*value.Fields{}
	for _, entry := range imageEntries(original) {
		attestations, _ := entry["attestations"].([]any)
		for _, a := range attestations {
			attestation, _ := a.(map[string]any)
			kind, _ := attestation["type"].(string)
			if kind == "" {
				kind, _ = attestation["predicateType"].(string)
			}
			f := out[kind]
			if f == nil {
				f = &value.Fields{}
				out[kind] = f
			}
			conditionFields(attestation["conditions"], f)
			if name, _ := attestation["name"].(string); name != "" {
				all := &value.Fields{}
				conditionFields(entry["validate"], all)
				f.Merge(all.Member(name))
			}
		}
	}
	return out
}

// imageEntries returns the entries of verifyImages of all rules.
func imageEntries(original map[string]any) (out []map[string]any) {
	spec, _ := original["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		entries, _ := rule["verifyImages"].([]any)
		for _, e := range entries {
			if entry, ok := e.(map[string]any); ok {
				out = append(out, entry)
			}
		}
	}
	return out
}

// innermost matches the variables in a text that contain no other variables.
var innermost = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{([^{}]*)\}\}`) })

// conditionFields adds the fields that the variables in conditions read.
func conditionFields(conditions any, f *value.Fields) {
	switch v := conditions.(type) {
	case map[string]any:
		for _, e := range v {
			conditionFields(e, f)
		}
	case []any:
		for _, e := range v {
			conditionFields(e, f)
		}
	case string:
		for range 5 { // from the inside to the outside
			found := innermost().FindAllStringSubmatch(v, -1)
			for _, m := range found {
				if tree, err := jmespath.Parse(strings.TrimSpace(m[1])); err == nil {
					treeFields(&tree, []*value.Fields{f})
				}
			}
			v = innermost().ReplaceAllString(v, "x")
		}
	}
}

// treeFields adds the fields that an expression reads below some places, and returns the places of its value; those of the elements, if it is a
// projection.
func treeFields(t *jmespath.Tree, at []*value.Fields) (out []*value.Fields) {
	each := func(of []*value.Fields, next func(*value.Fields) *value.Fields) (out []*value.Fields) {
		for _, f := range of {
			out = append(out, next(f))
		}
		return out
	}
	switch t.Kind {
	case "ASTField":
		name, err := strconv.Unquote(t.Value)
		if err != nil {
			return nil
		}
		return each(at, func(f *value.Fields) *value.Fields { return f.Member(name) })
	case "ASTIdentity", "ASTCurrentNode":
		return at
	case "ASTSubexpression", "ASTPipe":
		return treeFields(&t.Children[1], treeFields(&t.Children[0], at))
	case "ASTIndexExpression":
		return each(treeFields(&t.Children[0], at), (*value.Fields).Items)
	case "ASTFlatten": // the projection around it adds the elements
		return treeFields(&t.Children[0], at)
	case "ASTProjection", "ASTFilterProjection":
		items := each(treeFields(&t.Children[0], at), (*value.Fields).Items)
		for i := 2; i < len(t.Children); i++ {
			treeFields(&t.Children[i], items)
		}
		return treeFields(&t.Children[1], items)
	}
	if t.Kind == "ASTFunctionExpression" && t.Value == `"contains"` && len(t.Children) == 2 {
		name, isText := t.Children[1].Literal()
		if keys := &t.Children[0]; isText && keys.Kind == "ASTFunctionExpression" && keys.Value == `"keys"` && len(keys.Children) == 1 { // has a member
			return each(treeFields(&keys.Children[0], at), func(f *value.Fields) *value.Fields { return f.Member(name) })
		}
	}
	for i := range t.Children {
		out = append(out, treeFields(&t.Children[i], at)...)
	}
	return out
}

// extractors returns the imageExtractors of a policy, by kind, except those that convert what they find: digests are not added to these.
func extractors(original map[string]any) map[string][]imageref.Extractor {
	out := map[string][]imageref.Extractor{}
	eachExtractor(original, func(kind string, x map[string]any) {
		text := func(name string) string { s, _ := x[name].(string); return s }
		made, err := imageref.NewExtractor(text("path"), text("value"), text("key"), text("name"), false)
		if err == nil && text("jmesPath") == "" {
			out[kind] = append(out[kind], made)
		}
	})
	return out
}

func eachExtractor(original map[string]any, do func(kind string, extractor map[string]any)) {
	spec, _ := original["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		kinds, _ := rule["imageExtractors"].(map[string]any)
		for kind, list := range kinds {
			all, _ := list.([]any)
			for _, e := range all {
				if x, ok := e.(map[string]any); ok {
					do(kind, x)
				}
			}
		}
	}
}

// listed adds the elements of the lists over which rules loop, and what filters of the lists read: of a kind without a definition, nothing else says that
// a field is a list. The elements of other lists get a name and, like containers, an image.
func (s *sampler) listed(rules any) {
	unknown := slices.ContainsFunc(s.kinds, func(k schema.Found) bool { return k.Type == schema.Any })
	switch v := rules.(type) {
	case []any:
		for _, e := range v {
			s.listed(e)
		}
	case map[string]any:
		loops, _ := v["foreach"].([]any)
		for _, l := range loops {
			loop, _ := l.(map[string]any)
			text, _ := loop["list"].(string)
			tree, err := jmespath.Parse(strings.TrimSpace(text))
			if err != nil {
				continue
			}
			root := &value.Fields{}
			for _, f := range treeFields(&tree, []*value.Fields{root}) {
				if !projects(&tree) {
					f = f.Items()
				}
				if !unknown {
					f.Member("name")
					f.Member("image")
				}
			}
			object := root.Member("request").Member("object")
			if s.reads.Merge(object); !unknown {
				s.reads.Member("spec").Member("template").Merge(object)
				s.reads.Member("spec").Member("jobTemplate").Member("spec").Member("template").Merge(object)
			}
		}
		for _, e := range v {
			s.listed(e)
		}
	}
}

// projects reports whether the places that treeFields returns are those of elements.
func projects(t *jmespath.Tree) bool {
	switch t.Kind {
	case "ASTPipe":
		return projects(&t.Children[1])
	case "ASTProjection", "ASTFilterProjection":
		return true
	}
	return false
}

// variables adds the fields of the object that variables read: programs that change objects read the whole of them.
func (s *sampler) variables(spec any) {
	root := &value.Fields{}
	conditionFields(spec, root)
	s.reads.Merge(root.Member("request").Member("object"))
}
