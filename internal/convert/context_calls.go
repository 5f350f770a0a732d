package convert

import (
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// contextAPICall converts an API call entry: an object or a list of the Kubernetes API, or the result of a query on it.
func (c *converter) contextAPICall(a *kyvernov1.ContextAPICall, path string) (t term, ok bool) {
	root, call, ok := c.resource(a, path+".urlPath")
	if !ok {
		return t, false
	}
	t = term{expr: root, root: root}
	if call == "get" {
		t.lookup = root
	}
	if a.Default == nil || call != "get" {
		if a.JMESPath == "" {
			return t, true
		}
		return c.query(a.JMESPath, path+".jmesPath", t)
	}
	instead, ok := c.given(a.Default.Raw, path+".default")
	if !ok {
		return t, false
	}
	x := c.variable()
	of := term{expr: member(x), root: member(x)}
	if a.JMESPath != "" {
		if of, ok = c.query(a.JMESPath, path+".jmesPath", of); !ok {
			return of, false
		}
	}
	found := of.sound()
	value := expr{comparison(x+" == null").within(bindsOr) + " ? dyn(" + instead.text + ") : dyn(" + of.value().text + ")", bindsTernary}
	if found != yes {
		value = expr{and(comparison(x+" != null"), found).within(bindsOr) + " ? dyn(" + of.value().text + ") : dyn(" + instead.text + ")", bindsTernary}
	}
	return term{expr: member("[" + root.text + "].map(" + x + ", " + value.text + ")[0]"), shape: instead.shape, maybeList: true}, true
}

// resource returns the call that reads what the path of an API call names.
func (c *converter) resource(a *kyvernov1.ContextAPICall, path string) (root expr, call string, ok bool) {
	refuse := func(text string) (expr, string, bool) {
		c.refuse(path, text, "write a variable with resource.get or resource.list")
		return expr{}, "", false
	}
	where, query, _ := strings.Cut(a.URLPath, "?")
	parts := segments(strings.Trim(where, "/"))
	version := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		version, parts = parts[1]+"/"+parts[2], parts[3:]
	default:
		return refuse("the path names no resource")
	}
	namespace := ""
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	segment := func(s string) (string, bool) { // an empty one is an error
		t, ok := c.place(s, path)
		if ok && strings.Contains(s, "{{") && strings.Contains(t, "''") {
			x := c.variable()
			t = "[" + t + "].filter(" + x + ", " + x + " != '')[0]"
		}
		return t, ok
	}
	if len(parts) > 2 || strings.Contains(version+parts[0], "{{") {
		return refuse("the path has another form than group, version, namespace, resource and name")
	}
	arguments := []string{text(version), text(parts[0])}
	switch in, ok := segment(namespace); {
	case !ok:
		return expr{}, "", false
	case c.policy.Kind == "Policy" && namespace != c.policy.Namespace:
		return refuse("a namespaced policy can read only its own namespace")
	case c.policy.Kind != "Policy":
		arguments = append(arguments, in)
	}
	if a.Method == "POST" {
		data, ok := c.sent(a.Data, path)
		return member("dyn(resource.post(" + strings.Join(append(arguments, data), ", ") + "))"), "post", ok
	}
	call = "list"
	if len(parts) == 2 {
		name, ok := segment(parts[1])
		if !ok {
			return expr{}, "", false
		}
		call, arguments = "get", append(arguments, name)
	}
	kept := yes
	x := "item"
	if query != "" {
		labels, conditions, ok := c.selectors(query, x, path)
		if !ok || call == "get" {
			return refuse("the selectors of the path are not converted")
		}
		if kept = conditions; labels != "" {
			arguments = append(arguments, labels)
		}
	}
	root = member("dyn(resource." + call + "(" + strings.Join(arguments, ", ") + "))")
	if kept != yes {
		root = member("dyn({'items': " + root.field("items").macro("filter", x, kept).text + "})")
	}
	return root, call, true
}

// segments returns the segments of a path, in which variables may contain slashes.
func segments(s string) (out []string) {
	out = []string{""}
	for _, p := range partsOf(s) {
		if p.variable != "" {
			out[len(out)-1] += "{{ " + p.variable + " }}"
			continue
		}
		for i, piece := range strings.Split(p.literal, "/") {
			if i > 0 {
				out = append(out, "")
			}
			out[len(out)-1] += piece
		}
	}
	return out
}

// selectors converts the parameters labelSelector and fieldSelector of a path: the argument for labels, and a condition for each item x.
func (c *converter) selectors(query, x, path string) (labels string, kept expr, ok bool) {
	var pairs []string
	kept = yes
	for _, parameter := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.Contains(value, "{{") {
			if plain, err := url.QueryUnescape(value); err == nil {
				value = plain
			}
		}
		switch name {
		case "limit", "resourceVersion", "timeoutSeconds":
			continue
		case "labelSelector", "fieldSelector":
		default:
			return "", no, false
		}
		if name == "labelSelector" && !strings.Contains(value, "{{") {
			more, ok := c.labelRequirements(value, x, &pairs)
			if !ok {
				return "", no, false
			}
			kept = and(kept, more)
			continue
		}
		for _, one := range strings.Split(value, ",") {
			operator, key, want := "=", "", ""
			if key, want, ok = strings.Cut(one, "!="); ok {
				operator = "!="
			} else if key, want, ok = strings.Cut(one, "=="); !ok {
				key, want, ok = strings.Cut(one, "=")
			}
			if !ok || strings.ContainsAny(key, " ({") {
				return "", no, false
			}
			text1, ok := c.place(want, path)
			if !ok {
				return "", no, false
			}
			switch {
			case name == "labelSelector" && operator == "=":
				pairs = append(pairs, text(key)+": "+text1)
			case name == "labelSelector":
				kept = and(kept, comparison(member(x+".metadata").optional("labels").optional(key).text+".orValue('') != "+text1))
			default:
				at := member(x)
				for _, k := range strings.Split(key, ".") {
					at = at.optional(k)
				}
				op := " == "
				if operator == "!=" {
					op = " != "
				}
				kept = and(kept, comparison("string("+at.text+".orValue(''))"+op+text1))
			}
		}
	}
	if len(pairs) > 0 {
		labels = "{" + strings.Join(pairs, ", ") + "}"
	}
	return labels, kept, true
}

// labelRequirements converts a label selector without variables: equal labels become pairs, and the rest a condition for each item x.
func (c *converter) labelRequirements(selector, x string, pairs *[]string) (kept expr, ok bool) {
	all, err := labels.ParseToRequirements(selector)
	if err != nil {
		return no, false
	}
	kept = yes
	for i := range all {
		r := &all[i]
		at := member(x + ".metadata").optional("labels").optional(r.Key())
		there, values := member(at.text+".hasValue()"), slices.Sorted(slices.Values(r.ValuesUnsorted()))
		among := comparison(at.text + ".orValue('') in " + list(values))
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals:
			*pairs = append(*pairs, text(r.Key())+": "+text(values[0]))
		case selection.In:
			kept = and(kept, there, among)
		case selection.NotIn, selection.NotEquals:
			kept = and(kept, or(not(there), not(among)))
		case selection.Exists:
			kept = and(kept, there)
		case selection.DoesNotExist:
			kept = and(kept, not(there))
		default:
			return no, false
		}
	}
	return kept, true
}

// sent returns the body of a request.
func (c *converter) sent(data []kyvernov1.RequestData, path string) (string, bool) {
	var parts []string
	for i := range data {
		if data[i].Value == nil {
			continue
		}
		v, ok := c.given(data[i].Value.Raw, path+".data")
		if !ok {
			return "", false
		}
		parts = append(parts, text(data[i].Key)+": dyn("+v.value().text+")")
	}
	return "{" + strings.Join(parts, ", ") + "}", true
}

// contextService converts a call of a service.
func (c *converter) contextService(a *kyvernov1.ContextAPICall, path string) (t term, ok bool) {
	if a.Service == nil || c.policy.Kind == "Policy" {
		c.refuse(path, "a call of a service is not converted in this place", "write a variable with http.get")
		return t, false
	}
	address, ok := c.place(a.Service.URL, path+".service.url")
	if !ok {
		return t, false
	}
	client := "http"
	if a.Service.CABundle != "" {
		client = "http.client(" + text(a.Service.CABundle) + ")"
	}
	arguments := []string{address}
	function := ".get("
	if a.Method == "POST" {
		data, ok := c.sent(a.Data, path)
		if !ok {
			return t, false
		}
		function, arguments = ".post(", append(arguments, data)
	}
	var headers []string
	for _, h := range a.Service.Headers {
		value, ok := c.place(h.Value, path+".service.headers")
		if !ok {
			return t, false
		}
		headers = append(headers, text(h.Key)+": "+value)
	}
	if len(headers) > 0 {
		arguments = append(arguments, "{"+strings.Join(headers, ", ")+"}")
	}
	x := c.variable()
	// An answer other than 2xx is an error. An answer that is no object is in body.
	root := member("[" + client + function + strings.Join(arguments, ", ") + ")].filter(" + x + ", " + x + ".statusCode < 300).map(" + x + ", has(" + x + ".body) ? dyn(" + x + ".body) : dyn(" + x + "))[0]")
	t = term{expr: root, root: root}
	if a.JMESPath != "" {
		if t, ok = c.query(a.JMESPath, path+".jmesPath", t); !ok {
			return t, false
		}
	}
	if a.Default != nil {
		c.refuse(path+".default", "a default for a service that does not answer is not converted", "")
		return t, false
	}
	return t, true
}

// contextGlobal converts an entry that reads the global context. An entry that does not exist is an error.
func (c *converter) contextGlobal(g *kyvernov1.GlobalContextEntryReference, path string) (t term, ok bool) {
	if c.policy.Kind == "Policy" {
		c.refuse(path, "a namespaced policy cannot read the global context", "write a ClusterPolicy")
		return t, false
	}
	name, projection, has := strings.Cut(g.Name, ".")
	arguments := text(name)
	if has {
		arguments += ", " + text(projection)
	}
	x := c.variable()
	root := member("[globalContext.get(" + arguments + ")].filter(" + x + ", " + x + " != null)[0]")
	t = term{expr: root, root: root}
	if g.JMESPath == "" {
		return t, true
	}
	return c.query(g.JMESPath, path+".jmesPath", t)
}

// metadataNames are the fields of the data of an image that have another name in CEL.
var metadataNames = map[string]string{"configData": "config", "manifestList": "imageIndex", "identifier": "digest"}

// contextImage converts an entry that reads the data of an image in its registry.
func (c *converter) contextImage(r *kyvernov1.ImageRegistry, path string) (t term, ok bool) {
	if r.ImageRegistryCredentials != nil {
		c.refuse(path+".imageRegistryCredentials", "credentials for one image are not converted", "give them to the controllers with --imagePullSecrets")
		return t, false
	}
	reference, ok := c.place(r.Reference, path+".reference")
	if !ok {
		return t, false
	}
	root := member("image.getMetadata(" + reference + ")")
	t = term{expr: root, root: root}
	if r.JMESPath == "" {
		return t, true
	}
	return c.query(r.JMESPath, path+".jmesPath", t)
}

// renamed returns the name of a field of a value that CEL reads in another form.
func renamed(root expr, keys []string, name string) string {
	if len(keys) == 0 && strings.HasPrefix(root.text, "image.getMetadata(") && !slices.Contains(keys, name) {
		if other, ok := metadataNames[name]; ok {
			return other
		}
	}
	return name
}
