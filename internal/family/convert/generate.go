package convert

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/wildcard"
)

// generationSettings converts the settings of the policy for generate rules.
func (c *converter) generationSettings(r *kyvernov1.Rule, spec map[string]any) {
	s, g := &c.policy.Spec, r.Generation
	evaluation := map[string]any{}
	enable := func(name string) { evaluation[name] = map[string]any{"enabled": true} }
	if s.Admission != nil && !*s.Admission {
		evaluation["admission"] = map[string]any{"enabled": false}
	}
	existing := s.GenerateExisting
	if g.GenerateExisting != nil {
		existing = *g.GenerateExisting
	}
	if existing {
		enable("generateExisting")
	}
	if g.Synchronize {
		enable("synchronize")
		c.note(c.path+".generate.synchronize", "the classic rule replaces an object that already exists; a GeneratingPolicy does not change objects that it did not create", "")
	}
	switch copies := g.Clone != (kyvernov1.CloneFrom{}) || len(g.CloneList.Kinds) > 0; {
	case g.OrphanDownstreamOnPolicyDelete:
		enable("orphanDownstreamOnPolicyDelete")
	case g.Synchronize && copies: // without the switch, copies would stay
		evaluation["orphanDownstreamOnPolicyDelete"] = map[string]any{"enabled": false}
	}
	if r.SkipBackgroundRequests != nil && !*r.SkipBackgroundRequests {
		evaluation["skipBackgroundRequests"] = false
	}
	if len(evaluation) > 0 {
		spec["evaluation"] = evaluation
	}
	if s.UseServerSideApply {
		spec["useServerSideApply"] = true
	}
	c.commonSettings(r, spec)
}

// generation converts the generate block of a rule.
func (c *converter) generation(r *kyvernov1.Rule, spec map[string]any) {
	g, path := r.Generation, c.path+".generate"
	if len(g.ForEachGeneration) > 0 {
		var all []any
		for i := range g.ForEachGeneration {
			all = append(all, c.generateLoop(&g.ForEachGeneration[i], path+".foreach["+strconv.Itoa(i)+"]"))
		}
		spec["generate"] = all
		return
	}
	var made map[string]any
	switch {
	case g.Clone != (kyvernov1.CloneFrom{}):
		made = c.clone(&g.GeneratePattern, path)
	case len(g.CloneList.Kinds) > 0:
		made = c.cloneList(&g.GeneratePattern, path)
	default:
		made = c.data(&g.GeneratePattern, path)
	}
	spec["generate"] = []any{made}
}

// generated returns the object that a rule describes, with its variables.
func (c *converter) generated(g *kyvernov1.GeneratePattern, path string) (map[string]any, bool) {
	object := map[string]any{}
	if g.RawData != nil {
		raw, ok := c.decode(g.RawData, path+".data")
		if object, _ = raw.(map[string]any); !ok || object == nil {
			c.refuse(path+".data", "the data is not an object", "")
			return nil, false
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	out := map[string]any{"name": g.Name}
	if g.Namespace != "" {
		out["namespace"] = g.Namespace
	}
	for k, v := range metadata {
		switch k {
		case "name", "namespace", "uid", "creationTimestamp", "managedFields", "resourceVersion", "selfLink", "generation", "generateName":
		default:
			out[k] = v
		}
	}
	document := map[string]any{"apiVersion": g.APIVersion, "kind": g.Kind, "metadata": out}
	for k, v := range object {
		if k != "apiVersion" && k != "kind" && k != "metadata" {
			document[k] = v
		}
	}
	return document, true
}

// data converts an object whose content is part of the rule. The result is a template in YAML.
func (c *converter) data(g *kyvernov1.GeneratePattern, path string) map[string]any {
	document, ok := c.generated(g, path)
	if !ok {
		return nil
	}
	t := &templating{converter: c}
	written, ok := t.value(document, path).(map[string]any)
	if !ok {
		return nil
	}
	text, err := yaml.Marshal(written)
	if err != nil {
		c.refuse(path+".data", err.Error(), "")
		return nil
	}
	template := map[string]any{"value": string(text)}
	if t.placeholders {
		template["interpolate"] = "cel"
	}
	return map[string]any{"template": template}
}

// templating converts variables to placeholders.
type templating struct {
	*converter
	placeholders bool
}

func (t *templating) value(v any, path string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if strings.Contains(k, "{{") {
				t.refuse(path+"."+k, "a key with a variable has no counterpart in a template", "write an expression with generator.apply")
				continue
			}
			out[k] = t.value(e, path+"."+k)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = t.value(e, path+"["+strconv.Itoa(i)+"]")
		}
		return out
	case string:
		return t.text(v, path)
	}
	return v
}

// text converts one text. A variable without surrounding text keeps its type; within other text it must be a scalar, in both languages.
func (t *templating) text(s, path string) string {
	if !strings.Contains(s, "{{") {
		if strings.Contains(s, "((") {
			if !t.placeholders {
				t.placeholders = true // the escape only has a meaning in a template with placeholders
			}
			s = strings.ReplaceAll(s, "((", `\((`)
		}
		return s
	}
	t.placeholders = true
	var out strings.Builder
	parts := partsOf(s)
	for _, p := range parts {
		if p.variable == "" {
			out.WriteString(strings.ReplaceAll(p.literal, "((", `\((`))
			continue
		}
		v, ok := t.search(p.variable, path)
		if !ok {
			return s
		}
		out.WriteString("(( " + v.value().text + " ))")
	}
	if len(parts) == 1 {
		return strings.TrimSpace(out.String())
	}
	return out.String()
}

// generatorCall returns a call of generator.apply. A namespaced policy generates in its own namespace.
func (c *converter) generatorCall(namespace, objects string) map[string]any {
	if c.policy.Kind == "Policy" {
		return map[string]any{"expression": "generator.apply([" + objects + "])"}
	}
	return map[string]any{"expression": "generator.apply(" + namespace + ", [" + objects + "])"}
}

// place converts a name or namespace, which may contain variables.
func (c *converter) place(s, path string) (string, bool) {
	t, ok := c.operand(s, path)
	if ok && t.shape != textShape {
		return "string(" + t.text + ")", true
	}
	return t.text, ok
}

// clone converts a copy of one object.
func (c *converter) clone(g *kyvernov1.GeneratePattern, path string) map[string]any {
	if g.Name != g.Clone.Name {
		c.refuse(path+".clone", "a copy with a different name than its source has no counterpart: CEL cannot change a part of an object", "name the copy like its source, or write its fields in a template")
		return nil
	}
	plural, ok := c.plural(g.APIVersion, g.Kind, path+".kind")
	if !ok {
		return nil
	}
	name, ok := c.place(g.Clone.Name, path+".clone.name")
	from, also := c.place(g.Clone.Namespace, path+".clone.namespace")
	to, too := c.place(g.Namespace, path+".namespace")
	if !ok || !also || !too {
		return nil
	}
	arguments := []string{text(g.APIVersion), text(plural), from, name}
	if c.policy.Kind == "Policy" {
		if g.Clone.Namespace != g.Namespace || g.Namespace != c.policy.Namespace {
			c.refuse(path+".clone.namespace", "a namespaced policy can read and create objects only in its own namespace", "write a ClusterPolicy")
			return nil
		}
		arguments = []string{text(g.APIVersion), text(plural), name}
	}
	out := c.generatorCall(to, "resource.get("+strings.Join(arguments, ", ")+")")
	if strings.Contains(g.Namespace+g.Clone.Namespace, "{{") { // an object cannot be copied onto itself
		out["expression"] = to + " == " + from + " || " + out["expression"].(string)
	}
	return out
}

// cloneList converts copies of several objects.
func (c *converter) cloneList(g *kyvernov1.GeneratePattern, path string) map[string]any {
	path += ".cloneList"
	from, ok := c.place(g.CloneList.Namespace, path+".namespace")
	to, also := c.place(g.Namespace, path[:strings.LastIndexByte(path, '.')]+".namespace")
	if !ok || !also {
		return nil
	}
	labels := ""
	if s := g.CloneList.Selector; s != nil {
		if len(s.MatchExpressions) > 0 || hasWildcards(s) {
			c.refuse(path+".selector", "resource.list can select only by equal labels", "use matchLabels without wildcards")
			return nil
		}
		var pairs []string
		for _, k := range sortedKeys(s.MatchLabels) {
			pairs = append(pairs, text(k)+": "+text(s.MatchLabels[k]))
		}
		if len(pairs) > 0 {
			labels = ", {" + strings.Join(pairs, ", ") + "}"
		}
	}
	var lists []string
	for _, kind := range g.CloneList.Kinds {
		t, err := match.ParseKind(kind)
		if err != nil || wildcard.Has(kind) {
			c.refuse(path+".kinds", strconv.Quote(kind)+" does not name a single kind", "write group/version/Kind")
			return nil
		}
		apiVersion := t.Version
		if t.Group != "" && t.Group != "*" {
			apiVersion = t.Group + "/" + t.Version
		}
		plural, ok := c.plural(apiVersion, t.Kind, path+".kinds")
		if !ok {
			return nil
		}
		arguments := text(apiVersion) + ", " + text(plural) + ", " + from
		if c.policy.Kind == "Policy" {
			arguments = text(apiVersion) + ", " + text(plural)
		}
		lists = append(lists, "resource.list("+arguments+labels+")")
	}
	return c.generatorCall(to, strings.Join(lists, ", "))
}

func hasWildcards(s *metav1.LabelSelector) bool {
	for k, v := range s.MatchLabels {
		if wildcard.Has(k) || wildcard.Has(v) {
			return true
		}
	}
	return false
}

// plural returns the resource of a kind.
func (c *converter) plural(apiVersion, kind, path string) (string, bool) {
	t, err := match.ParseKind(apiVersion + "/" + kind)
	if err == nil && !strings.Contains(apiVersion+kind, "{{") {
		if found := c.schemas.Resources(t); len(found) == 1 {
			return found[0].Resource, true
		}
	}
	c.refuse(path, "the resource of "+apiVersion+" "+kind+" is not known", "name its definition with --crd-paths")
	return "", false
}
