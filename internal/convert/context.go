package convert

import (
	"fmt"
	"slices"

	"ephor.invalid/ephor/internal/value"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// context converts the context entries of a rule. It replaces each use of a name by the content of its entry, since the conditions of
// CEL policies cannot use variables; share makes variables of them elsewhere.
func (c *converter) context(all []kyvernov1.ContextEntry, path string) {
	for i := range all {
		e, at := &all[i], fmt.Sprintf("%s[%d]", path, i)
		before := len(c.demands)
		var t term
		var ok bool
		switch {
		case e.Variable != nil:
			t, ok = c.contextVariable(e.Variable, at+".variable")
		case e.ConfigMap != nil:
			t, ok = c.contextConfigMap(e.ConfigMap, at+".configMap")
		case e.GlobalReference != nil:
			t, ok = c.contextGlobal(e.GlobalReference, at+".globalReference")
		case e.APICall != nil && e.APICall.URLPath != "":
			t, ok = c.contextAPICall(e.APICall, at+".apiCall")
		case e.APICall != nil:
			t, ok = c.contextService(e.APICall, at+".apiCall")
		case e.ImageRegistry != nil:
			t, ok = c.contextImage(e.ImageRegistry, at+".imageRegistry")
		default:
			c.refuse(at, "an empty entry of the context is not converted", "")
		}
		if !ok {
			continue
		}
		if c.entries == nil {
			c.entries = map[string]term{}
		}
		t.demands, c.demands = slices.Clone(c.demands[before:]), c.demands[:before]
		c.entries[e.Name] = t
		c.enter(e.Name, t)
	}
}

// contextVariable converts a variable entry: a value, or a query with a default for missing values.
func (c *converter) contextVariable(v *kyvernov1.Variable, path string) (t term, ok bool) {
	switch {
	case v.Value != nil:
		if t, ok = c.given(v.Value.Raw, path+".value"); ok && v.JMESPath != "" {
			t, ok = c.query(v.JMESPath, path+".jmesPath", t)
		}
	default:
		if _, whole := wholeVariable(v.JMESPath); whole {
			c.refuse(path+".jmesPath", "a query that is the value of a variable is not converted", "")
			return t, false
		}
		t, ok = c.search(v.JMESPath, path+".jmesPath")
	}
	if !ok || v.Default == nil {
		return t, ok
	}
	instead, ok := c.given(v.Default.Raw, path+".default")
	if !ok {
		return t, false
	}
	return c.orDefault(t, instead), true
}

// orDefault returns the value, or a default where it is missing or null.
func (c *converter) orDefault(t, instead term) term {
	out := term{shape: instead.shape, elements: instead.elements, maybeList: t.shape != instead.shape}
	switch sound := t.sound(); {
	case sound == yes:
		return t
	case t.simple() && orYes(t.safe) == yes:
		out.expr = member(t.optional().text + ".orValue(" + instead.text + ")")
	default:
		out.expr = expr{sound.within(bindsOr) + " ? dyn(" + t.value().text + ") : dyn(" + instead.text + ")", bindsTernary}
	}
	return out
}

// given converts the literal value of an entry: a text, which may contain variables, a number, true, false, or a list of texts.
func (c *converter) given(raw []byte, path string) (t term, ok bool) {
	v, err := value.DecodeJSON(raw)
	if err != nil {
		c.refuse(path, err.Error(), "")
		return t, false
	}
	t, ok = c.operand(v, path)
	if t.expr.text != "" && isLiteralValue(v) {
		t.constant = v
	}
	return t, ok
}

// contextConfigMap converts a ConfigMap entry. The ConfigMap is read at the place where one of its keys is used.
func (c *converter) contextConfigMap(m *kyvernov1.ConfigMapReference, path string) (t term, ok bool) {
	name, ok := c.place(m.Name, path+".name")
	namespace, also := c.place(m.Namespace, path+".namespace")
	if !ok || !also {
		return t, false
	}
	if m.Namespace == "" {
		namespace = text("default")
	}
	arguments := "'v1', 'configmaps', " + namespace + ", " + name
	if c.policy.Kind == "Policy" {
		if m.Namespace != c.policy.Namespace {
			c.refuse(path+".namespace", "a namespaced policy can read only its own namespace", "write a ClusterPolicy")
			return t, false
		}
		arguments = "'v1', 'configmaps', " + name
	}
	root := member("resource.get(" + arguments + ")")
	return term{expr: root, root: root, lookup: root}, true
}
