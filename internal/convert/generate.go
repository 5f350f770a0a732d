package convert

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/family/celpolicy"
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
		if c.mark(celpolicy.ReplaceExistingAnnotation, "true"); c.policy.Kind == "Policy" {
			delete(c.marks, celpolicy.ReplaceExistingAnnotation)
			c.note(c.path+".generate.synchronize", "the classic rule replaces an object that already exists; a NamespacedGeneratingPolicy does not change objects that it did not create", "")
		}
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
	case g.RawData != nil && variableKeys(string(g.RawData.Raw)):
		made = c.applied(&g.GeneratePattern, path)
	default:
		made = c.data(&g.GeneratePattern, path)
	}
	spec["generate"] = []any{made}
}

// variableKeys reports whether a key in an object in JSON has a variable.
func variableKeys(object string) bool { return keyWithVariable().MatchString(object) }

var keyWithVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"[^"]*\{\{[^"]*"\s*:`) })

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
		value := t.inPlace(v.value().text)
		if (v.shape == numberShape || v.shape == boolShape) && marking().MatchString(path) {
			value = "string(" + value + ")"
		}
		out.WriteString("(( " + value + " ))")
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
	source := "resource.get(" + strings.Join(arguments, ", ") + ")"
	if g.Name != g.Clone.Name {
		source, ok = c.renamedCopy(g, source, path)
		if !ok {
			return nil
		}
		return c.generatorCall(to, source)
	}
	out := c.generatorCall(to, source)
	if strings.Contains(g.Namespace+g.Clone.Namespace, "{{") { // an object cannot be copied onto itself
		out["expression"] = to + " == " + from + " || " + out["expression"].(string)
	}
	return out
}

// copied are the fields of kinds that a copy takes from its source, besides its metadata.
var copied = map[string][]string{
	"ConfigMap": {"data", "binaryData", "immutable"}, "Secret": {"data", "type", "immutable"}, "NetworkPolicy": {"spec"}, "LimitRange": {"spec"}, "ResourceQuota": {"spec"},
	"Role": {"rules"}, "RoleBinding": {"roleRef", "subjects"}, "ServiceAccount": {"secrets", "imagePullSecrets", "automountServiceAccountToken"}, "PodDisruptionBudget": {"spec"},
}

// renamedCopy returns an object with the content of a source and another name.
func (c *converter) renamedCopy(g *kyvernov1.GeneratePattern, source, path string) (string, bool) {
	fields, known := copied[g.Kind]
	if !known {
		c.refuse(path+".clone", "a copy of a "+g.Kind+" with a different name than its source is not converted: which fields it has is not known", "name the copy like its source, or write its fields in a template")
		return "", false
	}
	name, ok := c.place(g.Name, path+".name")
	if !ok {
		return "", false
	}
	metadata := "'name': " + name + ", ?'labels': source.metadata.?labels, ?'annotations': source.metadata.?annotations"
	parts := []string{"'apiVersion': dyn(" + text(g.APIVersion) + ")", "'kind': dyn(" + text(g.Kind) + ")", "'metadata': dyn({" + strings.Replace(metadata, name, "dyn("+name+")", 1) + "})"}
	for _, f := range fields {
		parts = append(parts, "?"+text(f)+": source.?"+f)
	}
	return "[dyn(" + source + ")].map(source, dyn({" + strings.Join(parts, ", ") + "}))[0]", true
}

// cloneList converts copies of several objects.
func (c *converter) cloneList(g *kyvernov1.GeneratePattern, path string) map[string]any {
	path += ".cloneList"
	from, ok := c.place(g.CloneList.Namespace, path+".namespace")
	to, also := c.place(g.Namespace, path[:strings.LastIndexByte(path, '.')]+".namespace")
	if !ok || !also {
		return nil
	}
	labels, kept := "", yes
	if s := g.CloneList.Selector; s != nil {
		if len(s.MatchExpressions) > 0 || hasWildcards(s) {
			kept = c.selector(s, member("item.metadata"), path+".selector")
			s = &metav1.LabelSelector{}
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
		list := "resource.list(" + arguments + labels + ")"
		if kept != yes {
			list = "dyn({'items': dyn(" + list + ").items.filter(item, " + kept.text + ")})"
		}
		lists = append(lists, list)
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
