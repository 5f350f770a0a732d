package classic

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/value"
)

// variable is one `{{ … }}` in a rule: its text without braces, and its path.
type variable struct {
	text string
	path string // below the rule: /validate/message
}

var (
	// variableText finds innermost variables. It does not find multi-select hashes, which contain braces; the compiler checks those.
	variableText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(\\?)\{\{-?\s*([^{}]*?)\s*\}\}`) })
	leadingName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*`) })
	userInfoText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(^|[^A-Za-z0-9_.])(serviceAccountNamespace|serviceAccountName|request\.userInfo|request\.roles|request\.clusterRoles)\b`)
	})
	elementText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^element(Index)?\d*$`) })
	attestation = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/verifyImages/\d+/(attestations|validate)/`) })
	insideLoop  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[a-zA-Z]+/(\d+/)?foreach/`) })
)

// builtins are the variables that every rule has.
var builtins = []string{"request", "serviceAccountName", "serviceAccountNamespace", "images", "image"}

// allowedNames lists the allowed names in the message for an unknown one.
const allowedNames = `request\.|serviceAccountName|serviceAccountNamespace|element|elementIndex|@|images|images\.|image\.|([a-z_0-9]+\()[^{}]`

// textPolicyChangePrefix is Kyverno's text, verbatim.
const textPolicyChangePrefix = "only select variables are allowed in on policy update. Set spec.mutateExistingOnPolicyUpdate=false to disable update policy mode for this policy rule: "

// variables checks which data the variables of a rule use, and where they are used.
func (c *checker) variables(r *kyvernov1.Rule, path string) {
	tree, err := ruleTree(r)
	if err != nil {
		c.diags.Errorf(path, "%v", err)
		return
	}
	for _, block := range []string{"match", "exclude"} {
		if len(collect(tree[block], "/"+block)) > 0 {
			c.diags.Errorf(path+"."+block, "policy contains invalid variables: rule %q should not have variables in %s section", r.Name, block)
			c.diags.Code(diag.VariablePlace)
			c.diags.Hint("write fixed values there, and compare variables in preconditions")
		}
		delete(tree, block)
	}
	if len(collect(r.Name, "/name")) > 0 {
		c.diags.Errorf(path+".name", "policy contains invalid variables: rule %q should not have variables in name section", r.Name)
		c.diags.Code(diag.VariablePlace)
		c.diags.Hint("write a fixed name: results are reported by it")
	}
	if m := r.Mutation; m != nil && variablePaths(m.PatchesJSON6902) {
		c.diags.Errorf(path+".mutate.patchesJson6902", "policy contains invalid variables: rule %q should not have variables in patchesJSON6902 path section", r.Name)
		c.diags.Code(diag.VariablePlace)
		c.diags.Hint("the patches of a foreach may have them")
	}
	known := contextNames(tree)
	// A scan has no requester, and neither has a change of the policy.
	forbidden, hint := "", ""
	switch {
	case onPolicyChange(c.spec, r):
		forbidden, hint = textPolicyChangePrefix, "the change of a policy is not a request; a rule whose trigger asks for it may use its data"
	case c.background && !mutatesExisting(c.spec):
		forbidden, hint = textBackgroundPrefix, "a background scan does not know who made a request"
	}
	for _, v := range collect(tree, "") {
		at := path + fieldPath(v.path)
		if found := userInfoText().FindStringSubmatch(v.text); forbidden != "" && found != nil {
			c.diags.Errorf(at, "%svariable {{%s}} is not allowed ", forbidden, found[2])
			c.diags.Code(diag.NoRequester)
			c.diags.Hint("%s", hint)
		}
		c.name(r, v, at, known)
	}
	for _, e := range bareExpressions(tree) {
		if found := userInfoText().FindStringSubmatch(e.text); forbidden != "" && found != nil {
			c.diags.Errorf(path+fieldPath(e.path), "%svariable {{%s}} is not allowed ", forbidden, found[2])
			c.diags.Code(diag.NoRequester)
			c.diags.Hint("%s", hint)
		}
		if e.named {
			c.name(r, e.variable, path+fieldPath(e.path), known)
		}
	}
}

// name checks the first name of a variable. It accepts any name in function calls and literals, where a missing name evaluates to null.
func (c *checker) name(r *kyvernov1.Rule, v variable, at string, known []string) {
	name := leadingName().FindString(v.text)
	rest := strings.TrimSpace(v.text[len(name):])
	if name == "" || strings.HasPrefix(rest, "(") {
		return
	}
	switch {
	case elementText().MatchString(name):
		if !insideLoop().MatchString(v.path) && !slices.Contains(known, name) {
			c.diags.Errorf(at, "variable '%s' present outside of foreach at path %s", v.text, v.path)
			c.diags.Code(diag.ElementOutsideForeach, v.text)
			c.diags.Hint("use it under foreach, whose list it is an element of, or read the whole list with a query such as request.object.spec.containers[].image")
		}
	case slices.Contains(builtins, name), slices.Contains(known, name):
	case attestation().MatchString(v.path): // the attested statement defines these names
	case name == "target" && hasTarget(r, v.path):
	default:
		where := "variable substitution failed for rule " + r.Name
		if i := targetSpec().FindStringSubmatch(v.path); i != nil {
			where = "invalid variables defined at mutate.targets[" + i[1] + "]"
		}
		c.diags.Errorf(at, "policy contains invalid variables: %s: variable %s must match regex \"%s\" or patterns [%s]",
			where, v.text, allowedNames, strings.Join(known, " "))
		c.diags.Plain("there is no variable %s in rule %s", name, r.Name)
		c.diags.Code(diag.UnknownVariable, name)
		c.diags.Hint("define %s in the rule's context, or correct the name", name)
		if near := strict.Nearest(name, slices.Concat(known, builtins)); near != "" {
			c.diags.Hint("did you mean %s?", near)
		} else if slices.Contains(objectFields, name) {
			c.diags.Hint("did you mean request.object.%s?", name)
		}
	}
}

// objectFields are fields of objects, which are often written without request.object before them.
var objectFields = []string{"apiVersion", "kind", "metadata", "spec", "status", "data", "stringData"}

var (
	targetSpec = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/mutate/targets/(\d+)/`) })
	// targetOwn matches the parts of a target that are evaluated once the target is found.
	targetOwn = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/mutate/targets/\d+/(context|preconditions)/`) })
)

// hasTarget reports whether the variable `target` is defined at a path of the rule. It is undefined while the trigger is evaluated, and
// while targets are searched.
func hasTarget(r *kyvernov1.Rule, path string) bool {
	if r.Mutation == nil || len(r.Mutation.Targets) == 0 {
		return false
	}
	return targetOwn().MatchString(path) ||
		!targetSpec().MatchString(path) && !strings.HasPrefix(path, "/context/") && !strings.HasPrefix(path, "/preconditions/")
}

// pathLine matches the path of an operation in a JSON patch that cannot be parsed before its variables are substituted.
var pathLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(?:^|[\s{,-])["']?path["']?\s*:\s*(?:"[^"\n]*\{\{|'[^'\n]*\{\{|[^\s,"'}]*\{\{)`)
})

// variablePaths reports whether a JSON patch has variables in the paths of its operations.
func variablePaths(text string) bool {
	if !strings.Contains(text, "{{") {
		return false
	}
	ops, err := patch.ParseJSONPatch(text)
	if err != nil {
		return pathLine().MatchString(text)
	}
	return slices.ContainsFunc(ops, func(o patch.Operation) bool { return strings.Contains(o.Path, "{{") })
}

func ruleTree(r *kyvernov1.Rule) (map[string]any, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

// collect returns the variables in all keys and values below v, in document order with sorted keys.
func collect(v any, path string) []variable {
	var out []variable
	walk(v, path, func(text, path string) {
		if !strings.Contains(text, "{{") {
			return // avoids the regular expression for nearly every text
		}
		for _, m := range variableText().FindAllStringSubmatch(text, -1) {
			if m[1] == "" { // not escaped
				out = append(out, variable{m[2], path})
			}
		}
	})
	return out
}

// walk calls visit for every text, including keys.
func walk(v any, path string, visit func(text, path string)) {
	switch v := v.(type) {
	case string:
		visit(v, path)
	case []any:
		for i, e := range v {
			walk(e, path+"/"+strconv.Itoa(i), visit)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			visit(k, path+"/"+k)
			walk(v[k], path+"/"+k, visit)
		}
	}
}

// contextNames returns the names that context entries define anywhere in the rule.
func contextNames(v any) []string {
	var out []string
	m, _ := v.(map[string]any)
	entries, _ := m["context"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if name, _ := entry["name"].(string); name != "" {
			out = append(out, name)
		}
	}
	for _, e := range value.Children(v, "") {
		out = append(out, contextNames(e)...)
	}
	return out
}

// bareExpression is a JMESPath expression without braces.
type bareExpression struct {
	variable
	// named: the expression reads variables, as those with braces do. Others read the response of a call, or a value.
	named bool
}

// bareExpressions returns the JMESPath expressions without braces: foreach lists and jmesPath fields. In arbitrary objects, such as a policy
// that the rule makes, these are ordinary fields.
func bareExpressions(tree map[string]any) []bareExpression {
	var out []bareExpression
	walkFields(tree, "", func(in map[string]any, key, text, path string) {
		list := key == "list" && insideLoop().MatchString(path)
		if !list && key != "jmesPath" || strings.Contains(text, "{{") { // texts with braces are variables
			return
		}
		_, err := jmespath.Compile(text) // the rule's compiler reports the mistake
		named := err == nil && (list || strings.HasSuffix(path, "/variable/jmesPath") && in["value"] == nil)
		out = append(out, bareExpression{variable{strings.TrimSpace(text), path}, named})
	})
	return out
}

func walkFields(v any, path string, visit func(in map[string]any, key, text, path string)) {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			walkFields(e, path+"/"+strconv.Itoa(i), visit)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if text, ok := v[k].(string); ok {
				visit(v, k, text, path+"/"+k)
				continue
			}
			if HoldsObject(k) {
				continue
			}
			walkFields(v[k], path+"/"+k, visit)
		}
	}
}

var indexStep = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/(\d+)(/|$)`) })

// fieldPath converts /validate/foreach/0/list to .validate.foreach[0].list.
func fieldPath(slashed string) string {
	for indexStep().MatchString(slashed) {
		slashed = indexStep().ReplaceAllString(slashed, "[$1]$2")
	}
	return strings.ReplaceAll(slashed, "/", ".")
}
