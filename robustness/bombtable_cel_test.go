package robustness

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// celPolicy returns a policy of policies.kyverno.io for Pods; lines are the other content of its spec.
func celPolicy(kind string, lines ...string) func() string {
	return func() string {
		return "apiVersion: policies.kyverno.io/v1\nkind: " + kind + "\nmetadata: {name: bomb}\nspec:\n" +
			"  matchConstraints: {resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}\n  " +
			strings.Join(lines, "\n  ") + "\n"
	}
}

// celValidates returns a ValidatingPolicy with one validation.
func celValidates(expression string, more ...string) func() string {
	return celPolicy("ValidatingPolicy", append(more, "validations: [{expression: "+quoted(expression)+"}]")...)
}

// celPatches returns a MutatingPolicy with one JSON patch.
func celPatches(expression string, more ...string) func() string {
	return celPolicy("MutatingPolicy", append(more, "mutations: [{patchType: JSONPatch, jsonPatch: {expression: "+quoted(expression)+"}}]")...)
}

// celConfigures returns a MutatingPolicy with one apply configuration.
func celConfigures(expression string, more ...string) func() string {
	return celPolicy("MutatingPolicy", append(more, "mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "+quoted(expression)+"}}]")...)
}

// celGenerates returns a GeneratingPolicy with one expression.
func celGenerates(expression string, more ...string) func() string {
	return celPolicy("GeneratingPolicy", append(more, "generate: [{expression: "+quoted(expression)+"}]")...)
}

// celDeletes returns a DeletingPolicy with one condition.
func celDeletes(expression string, more ...string) func() string {
	return celPolicy("DeletingPolicy", append(more, "schedule: '* * * * *'", "conditions: [{name: c, expression: "+quoted(expression)+"}]")...)
}

// celVariables returns variables v0, v1, …, each built from the previous one, for which next writes V.
func celVariables(n int, start, next string) string {
	parts := []string{"{name: v0, expression: " + quoted(start) + "}"}
	for i := 1; i <= n; i++ {
		parts = append(parts, fmt.Sprintf("{name: v%d, expression: %s}", i, quoted(strings.ReplaceAll(next, "V", fmt.Sprintf("variables.v%d", i-1)))))
	}
	return "variables: [" + strings.Join(parts, ", ") + "]"
}

func quotedCEL(s string) string { return `"` + s + `"` }

// repeated returns n items of a YAML list.
func repeated(n int, item string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+", ", n), ", ") + "]"
}

// gzipped returns the base64 form of n compressed zeros.
func gzipped(n int) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, n))
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

const (
	celLoops  = "object.spec.list.all(a, object.spec.list.all(b, object.spec.list.all(c, int(a) + int(b) + int(c) >= 0)))"
	celAnnotA = "object.metadata.annotations.a"
)

var (
	celText   = celVariables(30, "'xxxxxxxx'", "V + V")
	celList   = celVariables(30, "[1, 2]", "V + V")
	celShared = celVariables(30, "[dyn(1), dyn(2)]", "[dyn(V), dyn(V)]")
)

// celBombs are the bombs in policies of policies.kyverno.io.
var celBombs = []bomb{
	{name: "vpol: loops in loops over 10,000", policy: celValidates(celLoops), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "vpol: loops in loops in a condition", policy: celValidates("true", "matchConditions: [{name: c, expression: "+quoted(celLoops)+"}]"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "vpol: lists of lists of lists", policy: celValidates("object.spec.list.map(a, object.spec.list.map(b, object.spec.list)).size() > 0"), object: pod(numbered(1_000, "%d")), status: "error"},
	{name: "vpol: a range of a thousand million", policy: celValidates("lists.range(1000000000).all(x, true)"), status: "error"},
	{name: "vpol: a text that doubles", policy: celValidates("size(variables.v30) > 0", celText), status: "error"},
	{name: "vpol: a list that doubles", policy: celValidates("size(variables.v30) > 0", celList), status: "error"},
	{name: "vpol: a shared list that doubles, as JSON", policy: celValidates("size(json.marshal(variables.v30)) > 0", celShared), status: "error"},
	{name: "vpol: a shared list that doubles, compared", policy: celValidates("variables.v30 == variables.v29", celShared), status: "error"},
	{name: "vpol: a shared list that doubles, in a message", policy: celPolicy("ValidatingPolicy", celShared, "validations: [{expression: 'false', messageExpression: 'json.marshal(variables.v30)'}]"), status: "fail"},
	{name: "vpol: a shared list that doubles, in an annotation", policy: celPolicy("ValidatingPolicy", celShared, "validations: [{expression: 'true'}]", "auditAnnotations: [{key: k, valueExpression: 'json.marshal(variables.v30)'}]"), status: "error"},
	{name: "vpol: 120 variables with a loop each", policy: celValidates("variables.v120 > 0", celVariables(120, "1", "object.spec.list.filter(x, int(x) > V).size() + 1")), object: pod(numbered(1_000, "%d")), status: "error"},
	{name: "vpol: 1,100 variables", policy: celValidates("variables.v1100 > 0", celVariables(1100, "1", "V + 1")), status: "refused"},
	{name: "vpol: 240 validations with a loop each", policy: celPolicy("ValidatingPolicy", "validations: "+repeated(240, "{expression: 'object.spec.list.all(x, int(x) >= 0)'}")), object: pod(numbered(1_000, "%d")), status: "error"},
	{name: "vpol: a text that doubles by replace", policy: celValidates("size(variables.v30) > 0", celVariables(30, "'aa'", "V.replace('a', 'aa')")), status: "error"},
	{name: "vpol: a text that doubles by join", policy: celValidates("size(variables.v30) > 0", celVariables(30, "'aa'", "[V, V].join(V)")), status: "error"},
	{name: "vpol: a text that doubles by format", policy: celValidates("size(variables.v30) > 0", celVariables(30, "'aa'", "'%s%s'.format([V, V])")), status: "error"},
	{name: "vpol: a text that doubles by regex.replace", policy: celValidates("size(variables.v30) > 0", celVariables(30, "'aa'", "regex.replace(V, 'a', 'aa')")), status: "error"},
	{name: "vpol: a text with a thousand times its matches", policy: celValidates("size(regex.replace(" + celAnnotA + ", '.', " + celAnnotA + ")) > 0"), object: pod("", strings.Repeat("a", 100_000)), status: "error"},
	{name: "vpol: references to a long match", policy: celValidates("size(regex.replace(" + celAnnotA + ", '(.*)', " + quotedCEL(strings.Repeat(`\\1`, 1000)) + ")) > 0"), object: pod("", strings.Repeat("a", 1_000_000)), status: "error"},
	{name: "vpol: a million matches", policy: celValidates(celAnnotA + ".findAll('a').size() > 0 && regex.extractAll(" + celAnnotA + ", 'a').size() > 0"), object: pod("", strings.Repeat("a", 1_000_000)), status: "error"},
	{name: "vpol: a regular expression repeated a thousand times", policy: celValidates(celAnnotA + ".matches('(a{1000}|b)c')"), object: pod("", strings.Repeat("a", 1_000_000)), status: "error"},
	{name: "vpol: numbers of a million digits", policy: celValidates("size(" + celAnnotA + ".format(lists.range(1000).map(x, 1.5))) > 0"), object: pod("", strings.Repeat("%.999999f", 1000)), status: "error"},
	{name: "vpol: a thousand times a long text, joined", policy: celValidates("size(lists.range(1000).map(x, " + celAnnotA + ").join('')) > 0"), object: pod("", strings.Repeat("a", 1_000_000)), status: "error"},
	{name: "vpol: a thousand times a long text, as JSON", policy: celValidates("size(json.marshal(lists.range(1000).map(x, " + celAnnotA + "))) > 0"), object: pod("", strings.Repeat("a", 1_000_000)), status: "error"},
	{name: "vpol: a regular expression that expands", policy: celValidates("'a'.matches(" + celAnnotA + ")"), object: pod("", strings.Repeat("(a{1000})|", 1500)+"b"), status: "error"},
	{name: "vpol: split into characters", policy: celValidates(celAnnotA + ".split('').size() > 0"), object: pod("", strings.Repeat("a", 1_000_000)), status: "error"},
	{name: "vpol: a packed gigabyte", policy: celValidates("gzip.decompress(base64.decode(" + celAnnotA + ")).size() > 0"), object: func() string { return pod("", gzipped(1<<30))() }, status: "error"},
	{name: "vpol: a packed text, packed in loops", policy: celValidates("size(variables.v30) > 0", celVariables(30, "gzip.compress('a')", "gzip.compress(base64.encode(V))")), status: "pass"},
	{name: "vpol: laughs in YAML", policy: celValidates("size(yaml.parse(" + celAnnotA + ")) > 0"), object: func() string { return pod("", strings.ReplaceAll(laughs(), "\n", `\u000a`))() }, status: "error"},
	{name: "vpol: deep JSON", policy: celValidates("json.unmarshal(" + celAnnotA + ") != null"), object: pod("", nested(200_000, "[", "]")), status: "error"},
	{name: "vpol: a random text without end", policy: celValidates("size(random('(([a-z]{1000}){1000}){1000}')) > 0"), status: "error"},
	{name: "vpol: random texts in a loop", policy: celValidates("object.spec.list.all(x, size(random('[a-z]{1000}')) > 0)"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "vpol: a quantity with a giant exponent", policy: celValidates("quantity(" + celAnnotA + ").add(1).isGreaterThan(quantity('1'))"), object: pod("", "1e999999999"), status: "error"},
	{name: "vpol: sorts in a loop", policy: celValidates("object.spec.list.all(x, object.spec.list.sort().size() > 0)"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "vpol: distinct elements in a loop", policy: celValidates("object.spec.list.all(x, object.spec.list.distinct().size() > 0)"), object: pod(numbered(4_000, "%d")), status: "error"},
	{name: "vpol: reversed lists in a loop", policy: celValidates("object.spec.list.all(x, object.spec.list.reverse().slice(1, 9000).size() > 0)"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "vpol: ranges in a loop", policy: celValidates("object.spec.list.all(x, lists.range(100000).size() > 0)"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "vpol: base64 in a loop", policy: celValidates("object.spec.list.all(x, size(base64.encode(bytes(" + celAnnotA + "))) > 0)"), object: func() string { return pod(numbered(10_000, "%d"), strings.Repeat("a", 1_000_000))() }, status: "error"},
	{name: "vpol: regular expressions in a loop", policy: celValidates("object.spec.list.all(x, size(regex.replace(" + celAnnotA + ", 'b', 'c')) > 0)"), object: func() string { return pod(numbered(10_000, "%d"), strings.Repeat("a", 1_000_000))() }, status: "error"},
	{name: "vpol: errors in a loop", policy: celValidates("object.spec.list.all(x, quantity(" + celAnnotA + ").isInteger() || true)"), object: func() string { return pod(numbered(10_000, "%d"), strings.Repeat("a", 1_000_000))() }, status: "error"},
	{name: "vpol: sets in a loop", policy: celValidates("object.spec.list.all(x, sets.contains(object.spec.list, object.spec.list))"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "vpol: a flattened list that doubles", policy: celValidates("size(variables.v30) > 0", celVariables(30, "[1, 2]", "[V, V].flatten()")), status: "error"},
	{name: "vpol: hashes in a loop", policy: celValidates("object.spec.list.all(x, size(sha256(" + celAnnotA + ")) > 0)"), object: func() string { return pod(numbered(10_000, "%d"), strings.Repeat("a", 1_000_000))() }, status: "error"},

	{name: "mpol: loops in loops over 10,000", policy: celPatches("[JSONPatch{op: 'add', path: '/spec/made', value: " + celLoops + "}]"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "mpol: a patch for each of 10,000 items", policy: celPatches("object.spec.list.map(x, JSONPatch{op: 'add', path: '/spec/list/-', value: object.spec.list})"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "mpol: 64 patches that copy the spec", policy: celPatches("lists.range(64).map(x, JSONPatch{op: 'copy', from: '/spec', path: '/spec/c' + string(x)})"), object: pod(numbered(64, "%d")), status: "error"},
	{name: "mpol: 50 mutations that double the spec and remove it", policy: celPolicy("MutatingPolicy", "mutations: "+repeated(50, "{patchType: JSONPatch, jsonPatch: {expression: \"lists.range(11).map(x, JSONPatch{op: 'copy', from: '/spec', path: '/spec/c' + string(x)}) + lists.range(11).map(x, JSONPatch{op: 'remove', path: '/spec/c' + string(x)})\"}}")), object: pod(numbered(64, "%d")), status: "error"},
	{name: "mpol: 200 mutations that copy the spec", policy: celPolicy("MutatingPolicy", "mutations: "+repeated(200, "{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/spec/made', value: object.spec}]\"}}")), object: pod(numbered(64, "%d")), status: "error"},
	{name: "mpol: a patch with a text that doubles", policy: celPatches("[JSONPatch{op: 'add', path: '/spec/made', value: variables.v30}]", celText), status: "error"},
	{name: "mpol: a patch with a shared list that doubles", policy: celPatches("[JSONPatch{op: 'add', path: '/spec/made', value: variables.v30}]", celShared), status: "error"},
	{name: "mpol: a patch with a path of a million parts", policy: celPatches("[JSONPatch{op: 'add', path: " + celAnnotA + ", value: 1}]"), object: pod("", strings.Repeat("/a", 500_000)), status: "error"},
	{name: "mpol: a configuration with a text that doubles", policy: celConfigures("Object{metadata: Object.metadata{labels: {'a': variables.v30}}}", celText), status: "error"},
	{name: "mpol: a configuration of 10,000 containers", policy: celConfigures("Object{spec: Object.spec{containers: object.spec.list.map(x, Object.spec.containers{name: 'c' + string(x), image: 'i'})}}"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "mpol: a configuration of each of 20,000 containers", policy: celConfigures("Object{spec: Object.spec{containers: object.spec.list.map(x, Object.spec.containers{name: x.name, tty: true})}}"), object: pod(numbered(20_000, `{"name":"c%d"}`)), status: "error"},
	{name: "mpol: 100 configurations of 100 containers", policy: celPolicy("MutatingPolicy", "mutations: "+repeated(100, "{patchType: ApplyConfiguration, applyConfiguration: {expression: \"Object{spec: Object.spec{containers: lists.range(100).map(x, Object.spec.containers{name: 'c' + string(x), image: 'i'})}}\"}}")), status: "error"},
	{name: "mpol: loops in loops in a condition", policy: celPatches("[JSONPatch{op: 'add', path: '/x', value: 1}]", "matchConditions: [{name: c, expression: "+quoted(celLoops)+"}]"), object: pod(numbered(10_000, "%d")), status: "error"},

	{name: "gpol: loops in loops over 10,000", policy: celGenerates(celLoops), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "gpol: loops in loops in a condition", policy: celGenerates("true", "matchConditions: [{name: c, expression: "+quoted(celLoops)+"}]"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "gpol: an object for each of 10,000 items", policy: celGenerates("object.spec.list.all(x, generator.apply('d', [{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'c' + string(x)}}]))"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "gpol: 500 objects with the Pod in each", policy: celGenerates("lists.range(500).all(x, generator.apply('d', [{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'c' + string(x)}, 'data': object}]))"), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "gpol: an object with a text that doubles", policy: celGenerates("generator.apply('d', [{'apiVersion': 'v1', 'kind': 'ConfigMap', 'data': {'a': variables.v30}}])", celText), status: "error"},
	{name: "gpol: an object with a shared list that doubles", policy: celGenerates("generator.apply('d', [{'apiVersion': 'v1', 'kind': 'ConfigMap', 'data': variables.v30}])", celShared), status: "error"},
	{name: "gpol: a template with a text that doubles", policy: celPolicy("GeneratingPolicy", celText, "generate: [{template: {interpolate: cel, value: \"apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: c, namespace: d}\\ndata: {a: (( variables.v30 ))}\\n\"}}]"), status: "error"},
	{name: "gpol: a template with a shared list that doubles", policy: celPolicy("GeneratingPolicy", celShared, "generate: [{template: {interpolate: cel, value: \"apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: c, namespace: d}\\ndata: (( variables.v30 ))\\n\"}}]"), status: "error"},
	{name: "gpol: a template of laughs", policy: celPolicy("GeneratingPolicy", "generate: [{template: {value: "+strconv.Quote(laughs())+"}}]"), status: "refused"},
	{name: "gpol: 120 variables with a loop each", policy: celGenerates("variables.v120 > 0", celVariables(120, "1", "object.spec.list.filter(x, int(x) > V).size() + 1")), object: pod(numbered(1_000, "%d")), status: "error"},

	{name: "dpol: loops in loops over 10,000", policy: celDeletes(celLoops), object: pod(numbered(10_000, "%d")), status: "error"},
	{name: "dpol: a text that doubles", policy: celDeletes("size(variables.v30) > 0", celText), status: "error"},
	{name: "dpol: a list that doubles", policy: celDeletes("size(variables.v30) > 0", celList), status: "error"},
	{name: "dpol: a shared list that doubles, as JSON", policy: celDeletes("size(json.marshal(variables.v30)) > 0", celShared), status: "error"},
	{name: "dpol: 120 variables with a loop each", policy: celDeletes("variables.v120 > 0", celVariables(120, "1", "object.spec.list.filter(x, int(x) > V).size() + 1")), object: pod(numbered(1_000, "%d")), status: "error"},
	{name: "dpol: lists of lists of lists", policy: celDeletes("object.spec.list.map(a, object.spec.list.map(b, object.spec.list)).size() > 0"), object: pod(numbered(1_000, "%d")), status: "error"},
}

// allBombs are the bombs of all families.
func allBombs() []bomb { return append(bombs[:len(bombs):len(bombs)], celBombs...) }
