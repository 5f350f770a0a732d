package rule

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	kindnames "ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/world"
)

// text compiles a field that must be a string.
func (c *compiler) text(source, path string) *template.Template {
	t := template.Compile(source, template.Options{Allowance: c.in.Allowance})
	c.noted(t, path)
	return t
}

// noted records the reads and mistakes of a template.
func (c *compiler) noted(t *template.Template, path string) {
	for _, d := range t.Diags() {
		d.Path = path
		c.diags.Add(d)
	}
	c.reads.Add(t)
}

// texts are fields whose templates are evaluated together.
type texts []*template.Template

func (ts texts) eval(s *scope.Scope) ([]string, error) {
	out := make([]string, len(ts))
	for i, t := range ts {
		v, err := t.EvalString(s.QueryEnv(), s)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// identity compiles the apiVersion, kind, namespace and name of the target.
func (c *compiler) identity(p *kyvernov1.GeneratePattern, path string) func(*scope.Scope) (target, error) {
	fields := texts{
		c.text(p.APIVersion, path+".apiVersion"), c.text(p.Kind, path+".kind"),
		c.text(p.Namespace, path+".namespace"), c.text(p.Name, path+".name"),
	}
	return func(s *scope.Scope) (target, error) {
		v, err := fields.eval(s)
		if err != nil {
			return target{}, fmt.Errorf("variable substitution failed for rule %s: %w", s.Rule.Name, err)
		}
		return target{v[0], v[1], v[2], v[3]}, nil
	}
}

func (c *compiler) generateData(p *kyvernov1.GeneratePattern, path string) generator {
	identity := c.identity(p, path)
	v, ok := c.decode(p.RawData, path+".data")
	if !ok && p.RawData != nil {
		return nil
	}
	c.noAnchors(v, path+".data")
	data := template.Compile(v, template.Options{Path: "/data", Allowance: c.in.Allowance})
	c.noted(data, path+".data")
	return func(s *scope.Scope) ([]policy.Generated, error) {
		t, err := identity(s)
		if err != nil {
			return nil, err
		}
		v, err := data.Eval(s.QueryEnv(), s)
		if err != nil {
			return nil, fmt.Errorf("variable substitution failed for rule %s: %w", s.Rule.Name, err)
		}
		if err := charge(s.Env.Meter, v); err != nil {
			return nil, err
		}
		content, isMap := v.(map[string]any)
		if !isMap && v != nil {
			return nil, fmt.Errorf("the data of %s are no object", t)
		}
		object, err := t.object(s, content, nil)
		if err != nil {
			return nil, err
		}
		return []policy.Generated{{Object: object}}, nil
	}
}

// noAnchors rejects anchors, which have no meaning in data.
func (c *compiler) noAnchors(v any, path string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			c.noAnchors(e, path)
		}
	case map[string]any:
		for k, e := range v {
			if open := strings.IndexByte(k, '('); open >= 0 && open <= 1 && strings.HasSuffix(k, ")") && isStatic(k) && (open == 0 || strings.ContainsRune("+=^X<", rune(k[0]))) {
				c.diags.Errorf(path, "anchors not supported on generate resources: %s", k)
				c.diags.Hint("remove the parentheses: the object is written as it stands in data")
				continue
			}
			c.noAnchors(e, path)
		}
	}
}

func (c *compiler) generateClone(p *kyvernov1.GeneratePattern, path string) generator {
	identity := c.identity(p, path)
	from := texts{c.text(p.Clone.Namespace, path+".clone.namespace"), c.text(p.Clone.Name, path+".clone.name")}
	c.reads.Needs.Lookups = true
	return func(s *scope.Scope) ([]policy.Generated, error) {
		t, err := identity(s)
		if err != nil {
			return nil, err
		}
		v, err := from.eval(s)
		if err != nil {
			return nil, fmt.Errorf("variable substitution failed for rule %s: %w", s.Rule.Name, err)
		}
		namespace, name := v[0], v[1]
		if own := s.Program.Namespace; own != "" && namespace != own {
			return nil, fmt.Errorf(textCloneNamespace, own, namespace)
		}
		if namespace == t.namespace && name == t.name {
			return nil, nil // the object would be copied onto itself
		}
		objects := s.Env.World.Objects
		if objects == nil {
			return nil, fmt.Errorf("source resource %s not found: resources are %w", t, world.ErrUnavailable)
		}
		source, err := objects.Get(s.Env.Meter.Context(), t.apiVersion, t.kind, namespace, name)
		if err != nil {
			return nil, fmt.Errorf("source resource %s not found: %w", t, err)
		}
		made, err := t.copyOf(s, source)
		if err != nil {
			return nil, err
		}
		return []policy.Generated{made}, nil
	}
}

func (t target) copyOf(s *scope.Scope, source map[string]any) (policy.Generated, error) {
	metadata, _ := source["metadata"].(map[string]any)
	text := func(k string) string { v, _ := metadata[k].(string); return v }
	from := &policy.Source{APIVersion: t.apiVersion, Kind: t.kind, Namespace: text("namespace"), Name: text("name"), UID: text("uid")}
	object, err := t.object(s, source, from)
	return policy.Generated{Object: object, Source: from}, err
}

func (c *compiler) generateCloneList(p *kyvernov1.GeneratePattern, path string) generator {
	l := p.CloneList
	namespaces := texts{c.text(p.Namespace, path+".namespace"), c.text(l.Namespace, path+".cloneList.namespace")}
	var kinds texts
	for _, k := range l.Kinds {
		kinds = append(kinds, c.text(k, path+".cloneList.kinds"))
	}
	selector := c.selector(l.Selector, path+".cloneList.selector")
	c.reads.Needs.Lookups = true
	return func(s *scope.Scope) ([]policy.Generated, error) {
		v, err := namespaces.eval(s)
		if err != nil {
			return nil, fmt.Errorf("variable substitution failed for rule %s: %w", s.Rule.Name, err)
		}
		to, from := v[0], v[1]
		if own := s.Program.Namespace; own != "" && from != own {
			return nil, fmt.Errorf(textListNamespace, own, from)
		}
		names, err := kinds.eval(s)
		if err != nil {
			return nil, fmt.Errorf("variable substitution failed for rule %s: %w", s.Rule.Name, err)
		}
		if from == "" && l.Namespace != "" { // the objects of all namespaces would be copied
			return nil, fmt.Errorf("failed to list source resource for cloneList %s: the variables of its namespace give an empty text", strings.Join(names, ", "))
		}
		labels, err := selector(s)
		if err != nil {
			return nil, fmt.Errorf("variable substitution failed for rule %s: %w", s.Rule.Name, err)
		}
		var out []policy.Generated
		for _, name := range names {
			made, err := cloneKind(s, name, from, to, labels)
			out = append(out, made...)
			if err != nil {
				return out, err
			}
		}
		return out, nil
	}
}

// cloneKind copies all selected objects of one kind.
func cloneKind(s *scope.Scope, kindText, from, to, selector string) ([]policy.Generated, error) {
	apiVersion, kind, ok := splitKind(kindText)
	if !ok {
		return nil, fmt.Errorf("%q is not of the form version/Kind or group/version/Kind", kindText)
	}
	lists := s.Env.World.Lists
	if lists == nil {
		return nil, fmt.Errorf("failed to list source resource for cloneList %s %s/%s. resources are %w", apiVersion, kind, from, world.ErrUnavailable)
	}
	if kindnames.ClusterScoped(apiVersion, kind) {
		from, to = "", ""
	}
	sources, err := lists(s.Env.Meter.Context(), world.Query{APIVersion: apiVersion, Kind: kind, Namespace: from, Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("failed to list source resource for cloneList %s %s/%s. %w", apiVersion, kind, from, err)
	}
	var out []policy.Generated
	for _, source := range sources {
		if err := s.Env.Meter.Step(1); err != nil {
			return out, err
		}
		metadata, _ := source["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		if from == to {
			continue // the object would be copied onto itself
		}
		made, err := target{apiVersion, kind, to, name}.copyOf(s, source)
		if err != nil {
			return out, err
		}
		out = append(out, made)
	}
	return out, nil
}

// selector compiles a label selector that may contain variables. The returned function returns the selector in text form.
func (c *compiler) selector(l *metav1.LabelSelector, path string) func(*scope.Scope) (string, error) {
	if l == nil {
		return func(*scope.Scope) (string, error) { return "", nil }
	}
	type requirement struct {
		key      *template.Template
		operator metav1.LabelSelectorOperator
		values   texts
	}
	var requirements []requirement
	for k, v := range l.MatchLabels {
		requirements = append(requirements, requirement{c.text(k, path), metav1.LabelSelectorOpIn, texts{c.text(v, path)}})
	}
	for _, e := range l.MatchExpressions {
		r := requirement{key: c.text(e.Key, path), operator: e.Operator}
		for _, v := range e.Values {
			r.values = append(r.values, c.text(v, path))
		}
		requirements = append(requirements, r)
	}
	return func(s *scope.Scope) (string, error) {
		var out metav1.LabelSelector
		for _, r := range requirements {
			key, err := r.key.EvalString(s.QueryEnv(), s)
			if err != nil {
				return "", err
			}
			values, err := r.values.eval(s)
			if err != nil {
				return "", err
			}
			out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: r.operator, Values: values})
		}
		selector, err := metav1.LabelSelectorAsSelector(&out)
		if err != nil {
			return "", err
		}
		return selector.String(), nil
	}
}

func splitAPIVersion(s string) (group, version string) {
	group, version, ok := strings.Cut(s, "/")
	if !ok {
		return "", s
	}
	return group, version
}
