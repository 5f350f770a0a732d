package robustness

import (
	"fmt"
	"strings"
)

// rule returns a ClusterPolicy whose only rule has the given content, indented by four.
func rule(lines ...string) func() string {
	return func() string {
		return "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: bomb}\nspec:\n  rules:\n  - name: r\n" +
			"    match: {any: [{resources: {kinds: [Pod]}}]}\n    " + strings.Join(lines, "\n    ") + "\n"
	}
}

// deny returns a rule with context entries that denies on a key.
func deny(context []string, key string) func() string {
	lines := []string{"context:"}
	lines = append(lines, context...)
	if len(context) == 0 {
		lines = nil
	}
	return rule(append(lines, "validate:", "  message: boom", "  deny:", "    conditions:", "      all:",
		"      - {key: "+quoted(key)+", operator: Equals, value: \"x\"}")...)
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// variables returns context entries v0, v1, …, each built from the previous one.
func variables(n int, start, next string) []string {
	out := []string{"- {name: v0, variable: {jmesPath: " + quoted(start) + "}}"}
	for i := 1; i <= n; i++ {
		out = append(out, fmt.Sprintf("- {name: v%d, variable: {jmesPath: %s}}", i, quoted(strings.ReplaceAll(next, "V", fmt.Sprintf("v%d", i-1)))))
	}
	return out
}

// templated is variables with a value of text instead of a query.
func templated(n int, start, next string) []string {
	out := []string{"- {name: v0, variable: {value: " + quoted(start) + "}}"}
	for i := 1; i <= n; i++ {
		out = append(out, fmt.Sprintf("- {name: v%d, variable: {value: %s}}", i, quoted(strings.ReplaceAll(next, "V", fmt.Sprintf("v%d", i-1)))))
	}
	return out
}

// pod returns a Pod with annotations a, b, … of the given texts and a list spec.list of JSON items.
func pod(list string, annotations ...string) func() string {
	return func() string {
		var b strings.Builder
		for i, a := range annotations {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:%q", string(rune('a'+i)), a)
		}
		if list == "" {
			list = "[]"
		}
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d","annotations":{` + b.String() + `}},"spec":{"list":` + list + `}}`
	}
}

// items returns a JSON list of n times the item.
func items(n int, item string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

// numbered returns a JSON list of n items with a number in each.
func numbered(n int, format string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	b.WriteByte(']')
	return b.String()
}

func nested(n int, open, close string) string {
	return strings.Repeat(open, n) + strings.Repeat(close, n)
}

const exhausted = "evaluation budget exhausted"

var bombs = []bomb{
	// Context variables that double.
	{name: "text doubled 30 times by templates", policy: deny(templated(30, "xxxxxxxx", "{{V}}{{V}}"), "{{v30}}"), status: "error", message: exhausted},
	{name: "text doubled 30 times by join", policy: deny(variables(30, "'xxxxxxxx'", "join('', [V, V])"), "{{v30}}"), status: "error", message: exhausted},
	{name: "list doubled 30 times by flattening", policy: deny(variables(30, "[`1`, `2`]", "[V, V][]"), "{{v30}}"), status: "error", message: exhausted},
	{name: "shared list doubled 30 times, as text", policy: deny(variables(30, "[`1`, `2`]", "[V, V]"), "{{to_string(v30)}}"), status: "error", message: exhausted},
	{name: "shared list doubled 30 times, in text", policy: deny(variables(30, "[`1`, `2`]", "[V, V]"), "is {{v30}}"), status: "error", message: exhausted},
	{name: "shared list doubled 30 times, in a message", policy: rule(append(append([]string{"context:"}, variables(30, "[`1`, `2`]", "[V, V]")...), "validate: {message: \"is {{v30}}\", deny: {}}")...), status: "fail", message: "the message was not made: evaluation budget exhausted"},
	{name: "shared list doubled 30 times, as a key", policy: deny(variables(30, "[`1`, `2`]", "[V, V]"), "{{v30}}"), status: "error", message: exhausted},
	{name: "shared list doubled 30 times, compared", policy: deny(append(variables(30, "[`1`, `2`]", "[V, V]"), variables(30, "[`1`, `2`]", "[V, V]")[1:]...), "{{ v30 == [v29, v29] && v30 == [[v28,v28],v29] }}"), status: "error", message: exhausted},
	{name: "shared list doubled 30 times, searched", policy: deny(variables(30, "[`1`, `2`]", "[V, V]"), "{{ contains([v30], [v29, v29]) }}"), status: "error", message: exhausted},
	{name: "shared list doubled 30 times, wrong type", policy: deny(variables(30, "[`1`, `2`]", "[V, V]"), "{{ to_upper(v30) }}"), status: "error", message: "Invalid type for"},
	{name: "shared object doubled 30 times, as text", policy: deny(variables(30, "{a: `1`}", "{a: V, b: V}"), "{{to_string(v30)}}"), status: "error", message: exhausted},
	{name: "shared object doubled 30 times, In", policy: rule(append(append([]string{"context:"}, variables(30, "[`1`, `2`]", "[V, V]")...),
		"validate: {message: bad, deny: {conditions: {all: [{key: \"{{ v30 }}\", operator: AnyIn, value: \"{{ [v30] }}\"}]}}}")...), status: "error", message: exhausted},
	{name: "shared list doubled 30 times, in a pattern", policy: rule(append(append([]string{"context:"}, variables(30, "[`1`, `2`]", "[V, V]")...),
		"validate: {message: bad, pattern: {spec: {list: \"{{ v30 }}\"}}}")...), status: "error", message: exhausted},
	{name: "shared list doubled 30 times, bad query", policy: deny(append(variables(30, "[`1`, `2`]", "[V, V]"), "- {name: bad, variable: {value: '{{v30}}', jmesPath: 'to_upper(@)'}}"), "{{bad}}"), status: "error", message: "failed to apply jmespath to_upper(@) to variable [[["},
	{name: "text doubled by replace_all", policy: deny(variables(30, "'aa'", "replace_all(V, 'a', 'aa')"), "{{v30}}"), status: "error", message: exhausted},
	{name: "text doubled by regex_replace_all", policy: deny(variables(30, "'aa'", "regex_replace_all('a', V, 'aa')"), "{{v30}}"), status: "error", message: exhausted},
	{name: "object_from_lists and items, doubled", policy: deny(variables(30, "[`1`, `2`]", "[items(V, 'k', 'v'), items(V, 'k', 'v')][]"), "{{v30}}"), status: "error", message: exhausted},

	// Loops in loops.
	{name: "nested filters over 10,000 elements", policy: deny(nil, "{{ length(request.object.spec.list[?items[?items[?a == 'x']]]) }}"), object: pod(items(22, `{"items":`+items(22, `{"items":`+items(21, `{"a":"b"}`)+`}`)+`}`)), status: "pass"},
	{name: "filters of a list for each of its items", policy: deny(nil, "{{ length(map(&length(request.object.spec.list[?@ == `9`]), request.object.spec.list)) }}"), object: pod(numbered(10_000, "%d")), status: "error", message: "Invalid type for"},
	{name: "nested filters over 10,000 by 10,000", policy: deny(nil, "{{ request.object.spec.list[*].[@] | map(&to_array(@), @) | [?length([@, @][?length(@) > `0`]) > `0`] | [@[?[0] != `1`], @[?[0] != `2`], @[?[0] != `3`], @[?[0] != `4`], @[?[0] != `5`]][] | [@[?[0] != `1`], @[?[0] != `2`], @[?[0] != `3`], @[?[0] != `4`], @[?[0] != `5`]][] | length(@) }}"), object: pod(numbered(10_000, "%d")), status: "pass"},
	{name: "map over filter, 10,000 elements", policy: deny([]string{"- {name: all, variable: {jmesPath: 'request.object.spec.list'}}"}, "{{ length(map(&length(to_array(@)), all)) && length(all[?length(map(&@, [@,@,@,@])) == `9`]) && all[*].[@,@][] | [@[*].[@,@][], @[*].[@,@][]][] | [@[?@ > `5`], @, @][] | map(&[@,@,@,@], @)[] | sort(@) | length(@) }}"), object: pod(numbered(10_000, "%d")), status: "error", message: exhausted},
	{name: "filter of self within filter, 10,000", policy: deny(nil, "{{ request.object.spec.list[*].items[].[@] | [?a==b] | length(@) }}"), object: pod(items(10, `{"items":`+items(1000, `{"a":1,"b":2}`)+`}`)), status: "pass"},
	{name: "cross product by map of map", policy: deny(nil, "{{ request.object.spec | map(&length(map(&a, @.list)), [@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@][*].[@,@,@,@,@,@,@,@][]) }}"), object: pod(items(10_000, `{"a":1}`)), status: "error", message: exhausted},
	{name: "foreach in foreach, 10,000 elements", policy: rule("validate:", "  message: bad", "  foreach:", "  - list: request.object.spec.list", "    foreach:", "    - list: request.object.spec.list",
		"      deny: {conditions: {all: [{key: \"{{element}}\", operator: Equals, value: \"{{element1}}x\"}]}}"), object: pod(numbered(10_000, "%d")), status: "error", message: exhausted},
	{name: "foreach in foreach with context", policy: rule("validate:", "  message: bad", "  foreach:", "  - list: request.object.spec.list", "    context: [{name: c, variable: {jmesPath: 'length(request.object.spec.list)'}}]", "    foreach:", "    - list: request.object.spec.list",
		"      pattern: {a: \"{{c}}*|1\"}"), object: pod(items(10_000, `{"a":"1"}`)), status: "error", message: exhausted},
	{name: "foreach of patterns in foreach", policy: rule("validate:", "  message: bad", "  foreach:", "  - list: request.object.spec.list", "    foreach:", "    - list: request.object.spec.list",
		"      elementScope: false", "      pattern: {spec: {list: [{a: \"1 | 2 | 3\"}]}}"), object: pod(items(10_000, `{"a":"1"}`)), status: "error", message: exhausted},
	{name: "AllIn of 10,000 in 10,000 globs", policy: rule("validate:", "  message: bad", "  deny: {conditions: {all: [{key: \"{{ request.object.spec.list }}\", operator: AllNotIn, value: \"{{ request.object.spec.list }}\"}]}}"), object: pod(numbered(10_000, `"*a*%d"`)), status: "pass"},
	{name: "existence anchor, 3,000 by 10,000", policy: func() string {
		return rule("validate:", "  message: bad", "  pattern: {spec: {^(list): "+numbered(3000, `{a: "x%d"}`)+"}}")()
	}, object: pod(items(10_000, `{"a":"1"}`)), status: "fail", message: "/spec/list/"},

	// Regular expressions, globs, numbers.
	{name: "regular expression, nested quantifiers", policy: deny(nil, "{{ regex_match('^(([a-z])+.)+[A-Z]([a-z])+$', request.object.metadata.annotations.a) }}"), object: pod("", strings.Repeat("a", 200_000)), status: "pass"},
	{name: "regular expression that expands", policy: deny(nil, "{{ regex_match(request.object.metadata.annotations.a, 'a') }}"), object: pod("", strings.Repeat("(a{1000})|", 1500)+"b"), status: "error", message: "too large"},
	{name: "regular expression literal that expands", policy: deny(nil, "{{ regex_match('"+strings.Repeat("(a{1000})|", 50)+"b', 'a') }}"), status: "refused", message: "to compile"},
	{name: "glob with many stars", policy: deny(nil, "{{ pattern_match(request.object.metadata.annotations.a, request.object.metadata.annotations.b) }}"), object: pod("", strings.Repeat("*a", 50_000)+"*b", strings.Repeat("a", 1_000_000)), status: "pass"},
	{name: "glob with a long piece", policy: deny(nil, "{{ pattern_match(request.object.metadata.annotations.a, request.object.metadata.annotations.b) }}"), object: pod("", "*"+strings.Repeat("a", 500_000)+"b*c", strings.Repeat("a", 1_000_000)), status: "pass"},
	{name: "glob with a long piece of ?", policy: deny(nil, "{{ pattern_match(request.object.metadata.annotations.a, request.object.metadata.annotations.b) }}"), object: pod("", "*"+strings.Repeat("a", 500_000)+"?b*c", strings.Repeat("a", 1_000_000)), status: "error", message: exhausted},
	{name: "glob in a condition", policy: rule("validate:", "  message: bad", "  deny: {conditions: {all: [{key: \"{{ request.object.metadata.annotations.b }}\", operator: AnyIn, value: [\"{{ request.object.metadata.annotations.a }}\"]}]}}"), object: pod("", "*"+strings.Repeat("a", 500_000)+"?b*c", strings.Repeat("a", 1_000_000)), status: "error", message: exhausted},
	{name: "glob in a pattern", policy: rule("validate:", "  message: bad", "  pattern: {metadata: {annotations: {b: \"{{ request.object.metadata.annotations.a }}\"}}}"), object: pod("", "*"+strings.Repeat("a", 500_000)+"?b*c", strings.Repeat("a", 1_000_000)), status: "error", message: exhausted},
	{name: "pattern of 500,000 alternatives", policy: rule("validate:", "  message: bad", "  pattern: {metadata: {annotations: {b: \"{{ request.object.metadata.annotations.a }}\"}}}"), object: pod("", strings.Repeat("1|", 500_000)+"1", "x"), status: "error", message: exhausted},
	{name: "quantity with a giant exponent", policy: deny(nil, "{{ add('1e999999999', '1') }}"), status: "error", message: "invalid operand"},
	{name: "quantity with a million digits", policy: deny(nil, "{{ add(request.object.metadata.annotations.a, '1') }}"), object: pod("", strings.Repeat("9", 1_000_000)), status: "error", message: "invalid operand"},
	{name: "quantity of a million digits in a pattern", policy: rule("validate:", "  message: bad", "  pattern: {metadata: {annotations: {a: \">1Mi\"}}}"), object: pod("", strings.Repeat("9", 1_000_000)), status: "fail", message: "/metadata/annotations/a/"},
	{name: "range of a million digits in a pattern", policy: rule("validate:", "  message: bad", "  pattern: {metadata: {annotations: {b: \"{{ request.object.metadata.annotations.a }}\"}}}"), object: pod("", "1-"+strings.Repeat("9", 1_000_000), "1e999999999"), status: "fail", message: "/metadata/annotations/b/"},
	{name: "modulo of giant quantities", policy: deny(nil, "{{ modulo('1e500', '1n') }}"), status: "error", message: "invalid operand"},
	{name: "duration of a million digits", policy: rule("validate:", "  message: bad", "  deny: {conditions: {all: [{key: \"{{ request.object.metadata.annotations.a }}\", operator: GreaterThan, value: 1h}]}}"), object: pod("", strings.Repeat("9", 1_000_000)+"h"), status: "pass"},
	{name: "random with a large count", policy: deny(nil, "{{ random('(([a-z]{1000}){1000}){1000}') }}"), status: "error", message: "invalid repeat count"},
	{name: "random of nothing, repeated", policy: deny(nil, "{{ random('"+strings.Repeat("(", 200)+strings.Repeat("){9}", 200)+"') }}"), status: "error", message: "invalid repeat count"},
	{name: "random in a loop", policy: rule("validate:", "  message: bad", "  foreach:", "  - list: request.object.spec.list", "    deny: {conditions: {all: [{key: \"{{ random('[a-z]{1000}[0-9]{1000}') }}\", operator: Equals, value: x}]}}"), object: pod(numbered(10_000, "%d")), status: "error", message: exhausted},
	{name: "semver range of many alternatives", policy: deny(nil, "{{ semver_compare('1.2.3', request.object.metadata.annotations.a) }}"), object: pod("", strings.Repeat("<1.0.0 || ", 100_000)+"<1.0.0"), status: "error", message: "too large"},
	{name: "slices with giant bounds", policy: deny(nil, "{{ length(request.object.spec.list[-9223372036854775808:9223372036854775807:1]) }}"), object: pod(numbered(10_000, "%d")), status: "pass"},
	{name: "split into characters", policy: deny(nil, "{{ length(split(request.object.metadata.annotations.a, '')) }}"), object: pod("", strings.Repeat("a", 1_000_000)), status: "error", message: exhausted},
	{name: "split and join in turns", policy: deny(variables(12, "'a,b'", "join('a,b', split(V, ','))"), "{{v12}}"), status: "pass"},
	{name: "merge of wide objects, doubled", policy: deny(variables(20, "object_from_lists(request.object.spec.list, request.object.spec.list)", "merge(V, object_from_lists(map(&join('-', [to_string(@), 'V']), keys(V)), keys(V)))"), "{{v20}}"), object: pod(numbered(1000, "%d")), status: "error", message: exhausted},

	// Parsers.
	{name: "parse_yaml, billion laughs", policy: deny(nil, "{{ parse_yaml(request.object.metadata.annotations.a) }}"), object: pod("", laughs()), status: "error", message: "with its aliases replaced"},
	{name: "parse_yaml, 10,000 levels", policy: deny(nil, "{{ parse_yaml(request.object.metadata.annotations.a) }}"), object: pod("", nested(10_000, "[", "]")), status: "error", message: "nests deeper than 1000 levels"},
	{name: "parse_yaml, 1 MB of keys", policy: deny(nil, "{{ parse_yaml(request.object.metadata.annotations.a) }}"), object: pod("", manyKeys(100_000)), status: "error", message: "evaluation budget exhausted"},
	{name: "parse_json, 10,000 levels", policy: deny(nil, "{{ parse_json(request.object.metadata.annotations.a) }}"), object: pod("", nested(10_000, "[", "]")), status: "error", message: "nests deeper"},
	{name: "parse_json, 1 MB of brackets", policy: deny(nil, "{{ parse_json(request.object.metadata.annotations.a) }}"), object: pod("", items(300_000, "[]")), status: "pass"},
	{name: "x509_decode of 1 MB", policy: deny(nil, "{{ x509_decode(request.object.metadata.annotations.a) }}"), object: pod("", "-----BEGIN CERTIFICATE-----\n"+strings.Repeat("MIIB", 250_000)+"\n-----END CERTIFICATE-----\n"), status: "error", message: "too large"},
	{name: "expression in data, 10,000 levels", policy: deny(nil, "{{ {{request.object.metadata.annotations.a}} }}"), object: pod("", nested(10_000, "(", ")")), status: "error"},
	{name: "expression in data, 500 kB", policy: deny(nil, "{{ {{request.object.metadata.annotations.a}} }}"), object: pod("", strings.Repeat("a.", 250_000)+"a"), status: "error", message: "evaluation budget exhausted"},
	{name: "expressions in data, 10,000 different", policy: rule("validate:", "  message: bad", "  foreach:", "  - list: request.object.spec.list", "    deny: {conditions: {all: [{key: \"{{ {{element}} }}\", operator: Equals, value: x}]}}"), object: pod(numbered(10_000, `"'%d' && (a || b[?c == 'd'].{e: f, g: h})"`)), status: "error", message: "is data and not a part of the query"},
	{name: "data that names itself", policy: deny(nil, "{{ request.object.metadata.annotations.a }} and {{ request.object.metadata.annotations.b }}"), object: pod("", "{{request.object.metadata.annotations.b}}{{request.object.metadata.annotations.b}}", "{{request.object.metadata.annotations.a}}{{request.object.metadata.annotations.a}}"), status: "pass"},
	{name: "many braces in data", policy: deny(nil, "a {{ request.object.metadata.annotations.a }}"), object: pod("", strings.Repeat("{{a {", 200_000)), status: "pass"},
	{name: "references in a pattern that double", policy: rule("validate:", "  message: bad", "  pattern: {metadata: {annotations: {"+doubledReferences(30)+"}}}"), status: "refused", message: "NotResolvedReferenceErr"},

	// Patches, and inputs of third-party code.
	{name: "mutate: labels of a doubled text", policy: rule(append(append([]string{"context:"}, templated(30, "xxxxxxxx", "{{V}}{{V}}")...), "mutate: {patchStrategicMerge: {metadata: {labels: {a: \"{{v30}}\"}}}}")...), status: "error", message: exhausted},
	{name: "mutate: a shared list doubled 30 times", policy: rule(append(append([]string{"context:"}, variables(30, "[`1`, `2`]", "[V, V]")...), "mutate: {patchStrategicMerge: {spec: {made: \"{{v30}}\"}}}")...), status: "error", message: exhausted},
	{name: "mutate: JSON patch with a shared list", policy: rule(append(append([]string{"context:"}, variables(30, "[`1`, `2`]", "[V, V]")...), "mutate: {patchesJson6902: \"[{op: add, path: /spec/made, value: '{{v30}}'}]\"}")...), status: "error", message: exhausted},
	{name: "mutate: foreach that copies the spec", policy: rule("mutate:", "  foreach:", "  - list: request.object.spec.list", "    patchesJson6902: |-", "      - {op: copy, from: /spec, path: \"/spec/c{{elementIndex}}\"}"), object: pod(numbered(64, "%d")), status: "error", message: exhausted},
	{name: "mutate: 10,000 elements, each a merge", policy: rule("mutate:", "  foreach:", "  - list: request.object.spec.list", "    patchStrategicMerge: {spec: {list: [{(name): \"{{element.name}}\", done: true}]}}"), object: pod(numbered(10_000, `{"name":"n%d"}`)), status: "error", message: exhausted},
	{name: "mutate: 1,000 containers, each a merge", policy: rule("mutate:", "  foreach:", "  - list: request.object.spec.containers", "    patchStrategicMerge: {spec: {containers: [{(name): \"{{element.name}}\", tty: true}]}}"), object: func() string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"},"spec":{"containers":` + numbered(1_000, `{"name":"n%d","image":"i"}`) + `}}`
	}, status: "pass", message: "mutated Pod/p"},
	{name: "mutate: lists merged by key, 10,000 by 10,000", policy: rule("mutate: {patchStrategicMerge: {spec: {containers: \"{{request.object.spec.list}}\"}}}"), object: func() string {
		list := numbered(10_000, `{"name":"n%d"}`)
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"},"spec":{"containers":` + list + `,"list":` + list + `}}`
	}, status: "skip", message: "no patches applied"},
	{name: "mutate: 20 conditions on 20,000 containers", policy: rule("mutate: {patchStrategicMerge: {spec: {containers: " + numbered(20, `{"(name)":"*%d*","tty":true}`) + "}}}"), object: func() string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"},"spec":{"containers":` + numbered(20_000, `{"name":"c%d","image":"nginx"}`) + `}}`
	}, status: "error", message: exhausted},
	{name: "generate: data of a shared list", policy: rule(append(append([]string{"context:"}, variables(30, "[`1`, `2`]", "[V, V]")...), "generate: {apiVersion: v1, kind: ConfigMap, name: x, namespace: d, data: {data: \"{{v30}}\"}}")...), status: "pass", work: exhausted},
	{name: "podSecurity: 8,000 containers", policy: rule("validate: {podSecurity: {level: restricted}}"), object: func() string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"},"spec":{"containers":` + numbered(8_000, `{"name":"n%d","image":"i","securityContext":{"privileged":true}}`) + `}}`
	}, status: "fail", message: "It violates PodSecurity"},
	{name: "podSecurity: 7,000 containers, 200 exclusions", policy: rule("validate: {podSecurity: {level: restricted, exclude: " +
		items(200, `{"controlName":"Privilege Escalation","images":["*"],"restrictedField":"spec.containers[*].securityContext.allowPrivilegeEscalation","values":["x*"]}`) + "}}"), object: func() string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"},"spec":{"containers":` + numbered(7000, `{"name":"c%d","image":"nginx","securityContext":{"allowPrivilegeEscalation":true}}`) + `}}`
	}, status: "error", message: exhausted},
	{name: "podSecurity: 160,000 capabilities", policy: rule("validate: {podSecurity: {level: restricted}}"), object: func() string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"},"spec":{"containers":[{"securityContext":{"capabilities":{"add":` + numbered(160_000, `"X%07d"`) + `}}}]}}`
	}, status: "error", message: exhausted},
	{name: "cel: loops in loops over 10,000", policy: rule("validate: {cel: {expressions: [{expression: \"object.spec.list.all(a, object.spec.list.all(b, object.spec.list.all(c, a + b + c >= 0)))\"}]}}"), object: pod(numbered(10_000, "%d")), status: "error", message: "running out of cost budget"},
	{name: "cel: a text that doubles", policy: rule("validate: {cel: {variables: [" + celDoubled(30) + "], expressions: [{expression: \"size(variables.v30) > 0\"}]}}"), status: "error", message: "actual cost limit exceeded"},
	{name: "reportProperties with a long list, 200 times", policy: rule("reportProperties: {"+strings.Trim(numbered(200, `"k%d": "{{request.object.spec.list}}"`), "[]")+"}", "validate: {message: bad, pattern: {metadata: {name: p}}}"), object: pod(numbered(10_000, `{"name":"c%d","image":"nginx"}`)), status: "pass"},
	{name: "reportProperties of a doubled text", policy: rule(append(append([]string{"context:"}, templated(30, "xxxxxxxx", "{{V}}{{V}}")...), "reportProperties: {a: \"{{v30}}\"}", "validate: {message: bad, pattern: {metadata: {name: p}}}")...), status: "pass"},

	// Size and depth of objects.
	{name: "5 MB object, pattern passes", policy: rule("validate: {message: bad, pattern: {spec: {list: [{name: \"?*\", image: \"!*:latest\"}]}}}"), object: pod(numbered(70_000, `{"name":"c%07d","image":"registry.example.com/some/image/of/a/team:1.2.3"}`)), status: "pass", decode: true},
	{name: "5 MB object, pattern fails", policy: rule("validate: {message: bad, pattern: {spec: {list: \"?*\"}}}"), object: pod(numbered(70_000, `{"name":"c%07d","image":"registry.example.com/some/image/of/a/team:1.2.3"}`)), status: "fail", message: "failed at path /spec/list/", decode: true},
	{name: "5 MB object, anchors skip", policy: rule("validate: {message: bad, pattern: {spec: {list: [{(name): \"x\", image: \"y\"}]}}}"), object: pod(numbered(70_000, `{"name":"c%07d","image":"registry.example.com/some/image/of/a/team:1.2.3"}`)), status: "error", message: "evaluation budget exhausted", decode: true},
	{name: "5 MB object, as text", policy: deny(nil, "{{ to_string(request.object) }}"), object: pod(numbered(70_000, `{"name":"c%07d","image":"registry.example.com/some/image/of/a/team:1.2.3"}`)), status: "pass", decode: true},
	{name: "5 MB object, the whole context", policy: deny(nil, "{{ @ }}"), object: pod(numbered(70_000, `{"name":"c%07d","image":"registry.example.com/some/image/of/a/team:1.2.3"}`)), status: "pass", decode: true},
	{name: "5 MB of one string", policy: deny(nil, "{{ to_upper(request.object.metadata.annotations.a) }}"), object: pod("", strings.Repeat("x", 5<<20)), status: "pass", decode: true},
	{name: "5 MB of brackets", policy: deny(nil, "{{ length(request.object.spec.list) }}"), object: pod(items(1_700_000, "[]")), status: "not decoded", message: "more than 524288 items", decode: true},
	{name: "5 MB of small numbers", policy: deny(nil, "{{ length(request.object.spec.list) }}"), object: pod(items(2_500_000, "1")), status: "not decoded", message: "more than 524288 items", decode: true},
	{name: "5 MB object, wrong type in the message", policy: deny(nil, "{{ to_upper(request.object) }}"), object: pod(numbered(70_000, `{"name":"c%07d","image":"registry.example.com/some/image/of/a/team:1.2.3"}`)), status: "error", message: "Invalid type for", decode: true},
	{name: "10,000 levels of nesting", policy: deny(nil, "{{ request.object.spec.list }}"), object: pod(nested(10_000, "[", "]")), status: "not decoded", message: "nests deeper than 1000"},
	{name: "a million levels of nesting", policy: deny(nil, "{{ request.object.spec.list }}"), object: pod(nested(1_000_000, "[", "]")), status: "not decoded", message: "nests deeper than 1000", decode: true},
	{name: "200 levels of nesting", policy: deny(nil, "{{ to_string(request.object.spec.list) }}"), object: pod(nested(200, "[", "]")), status: "pass"},
	{name: "200 levels of pattern", policy: rule("validate: {message: bad, pattern: {spec: {list: " + nested(200, "{a: ", "}")[:200*4] + "\"1\"" + strings.Repeat("}", 200) + "}}}"), object: pod(strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)), status: "pass"},
	{name: "policy of 10,000 levels", policy: jsonRule(`{"message":"bad","pattern":{"spec":` + nested(10_000, "[", "]") + `}}`), status: "not decoded", message: "nests deeper than 1000"},
	{name: "long keys, deep, with paths", policy: jsonRule(`{"message":"bad","pattern":{"spec":{"list":` + deepKeys(`"2"`) + `}}}`), object: pod(deepKeys("1")), status: "refused", message: "too large", decode: true},

	// Amplification by conditions, selectors and matching.
	{name: "selector against 10,000 labels", policy: func() string {
		return strings.Replace(rule("validate: {message: bad, pattern: {metadata: {name: x}}}")(), "{kinds: [Pod]}", "{kinds: [Pod], selector: {matchLabels: {\"*a*a*a*\": \"*b*b*b*\"}}}", 1)
	}, object: manyLabels, status: "fail", message: "/metadata/name/", decode: false},
	{name: "annotations against 10,000 globs", policy: func() string {
		return strings.Replace(rule("validate: {message: bad, pattern: {metadata: {name: x}}}")(), "{kinds: [Pod]}", "{kinds: [Pod], annotations: {"+strings.Trim(numbered(2000, `"*a*%d": "*b*"`), "[]")+"}}", 1)
	}, object: manyLabels, status: "error", message: "takes too long", decode: false},
}

// celDoubled returns CEL variables, each of which doubles the previous text.
func celDoubled(n int) string {
	parts := []string{`{name: v0, expression: "'xxxxxxxx'"}`}
	for i := 1; i <= n; i++ {
		parts = append(parts, fmt.Sprintf(`{name: v%d, expression: "variables.v%d + variables.v%d"}`, i, i-1, i-1))
	}
	return strings.Join(parts, ", ")
}

func laughs() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	return b.String()
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

// doubledReferences returns a pattern in which each value contains two references to the previous one.
func doubledReferences(n int) string {
	parts := []string{`a0: "xxxxxxxxxxxxxxxx"`}
	for i := 1; i <= n; i++ {
		parts = append(parts, fmt.Sprintf(`a%d: "$(./../a%d)$(./../a%d)"`, i, i-1, i-1))
	}
	return strings.Join(parts, ", ")
}

// jsonRule is rule with a JSON text for the validate block: YAML supports neither such depths nor such keys.
func jsonRule(validate string) func() string {
	return func() string {
		return `{"apiVersion":"kyverno.io/v1","kind":"ClusterPolicy","metadata":{"name":"bomb"},"spec":{"rules":[{"name":"r","match":{"any":[{"resources":{"kinds":["Pod"]}}]},"validate":` + validate + `}]}}`
	}
}

const deepLevels, deepKey = 200, 20_000

// deepKeys returns nested objects with long keys, so that every path is long.
func deepKeys(innermost string) string {
	return strings.Repeat(`{"`+strings.Repeat("k", deepKey)+`":`, deepLevels) + innermost + strings.Repeat("}", deepLevels)
}

func manyLabels() string {
	var b strings.Builder
	for i := range 10_000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%s%d":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"`, strings.Repeat("a", 57), i)
	}
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d","labels":{` + b.String() + `},"annotations":{` + b.String() + `}},"spec":{}}`
}
