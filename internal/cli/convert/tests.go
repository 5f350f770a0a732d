package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/cli/testrun"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
)

// testFile is the name of test files.
const testFile = "kyverno-test.yaml"

// conversion is what became of a classic policy: for each of its rules, the policies to which it was converted.
type conversion struct {
	rules []string
	made  map[string][]map[string]any
}

// conversions are the conversions of classic policies by their name, or namespace/name.
type conversions map[string]*conversion

// add records what became of a rule. A policy whose name another one has gets a number; the notes say so.
func (all conversions) add(object source.Object, rule string, made []map[string]any) (notes []convert.Remark) {
	for _, one := range made {
		if name, given := all.freeName(one), nameOf(one); name != given {
			metadata, _ := one["metadata"].(map[string]any)
			metadata["name"] = name
			notes = append(notes, convert.Remark{Path: "metadata.name", Text: fmt.Sprintf("the policy is named %s, because another one is converted to %s", name, given)})
		}
	}
	metadata, _ := object.Value["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if namespace, _ := metadata["namespace"].(string); namespace != "" && object.Kind() == "Policy" {
		name = namespace + "/" + name
	}
	if all[name] == nil {
		all[name] = &conversion{made: map[string][]map[string]any{}}
	}
	c := all[name]
	c.rules = append(c.rules, rule)
	c.made[rule] = made
	return notes
}

// freeName returns the name of a policy, with a number if another policy of its kind and namespace has it.
func (all conversions) freeName(one map[string]any) string {
	given := nameOf(one)
	name := given
	for n := 2; all.has(one, name); n++ {
		name = fmt.Sprintf("%s-%d", given, n)
	}
	return name
}

// has reports whether a policy of the kind and namespace of one has the name.
func (all conversions) has(one map[string]any, name string) bool {
	metadata, _ := one["metadata"].(map[string]any)
	for _, c := range all {
		for _, made := range c.made {
			for _, other := range made {
				if of, _ := other["metadata"].(map[string]any); other["kind"] == one["kind"] && of["name"] == name && of["namespace"] == metadata["namespace"] {
					return true
				}
			}
		}
	}
	return false
}

func nameOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// named returns the conversion of the policy that a test names. As in the comparison of results, another namespace or none is the same.
func (all conversions) named(policy string) *conversion {
	if c := all[policy]; c != nil {
		return c
	}
	_, plain, _ := cutLast(policy)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if _, name, _ := cutLast(key); name == plain {
			return all[key]
		}
	}
	return nil
}

// refer returns the policies to which a rule was converted.
func (all conversions) refer(policy, rule string) (out []convert.Reference) {
	if c := all[policy]; c != nil {
		for _, one := range c.made[rule] {
			kind, _ := one["kind"].(string)
			out = append(out, convert.Reference{Kind: kind, Name: nameOf(one)})
		}
	}
	return out
}

func (all conversions) rulesOf(policy string) []string {
	if c := all[policy]; c != nil {
		return c.rules
	}
	return nil
}

// tests converts the test files below some paths with the policies and exceptions that they name, and runs the converted ones.
type tests struct {
	options *options
	schemas convert.Schemas
	report  io.Writer
	diags   diag.List
	// mocked are the converted policies for whose context the tests give values.
	mocked map[string]bool
}

// all converts the tests of the paths into folders below the output, and reports whether all of them pass.
func (t *tests) all(ctx context.Context) (passed bool, err error) {
	converted := 0
	written := map[string]string{} // the test files by the folders of their converted ones
	for _, root := range t.options.tests {
		err := source.Walk(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return fmt.Errorf("%s: %w", path, terminal.Unreadable(err))
			}
			if d.IsDir() || path != root && !strings.EqualFold(d.Name(), testFile) {
				return nil
			}
			below := "."
			if path != root {
				if below, err = filepath.Rel(root, filepath.Dir(path)); err != nil {
					return err
				}
			}
			to := filepath.Join(t.options.dir, below)
			if other := written[to]; other != "" {
				t.diags.Add(diag.Diagnostic{
					Pos: diag.Position{File: path}, Summary: "it is not converted: " + to + " holds the test that was converted from " + other, Hint: "give a folder above both with --tests, or convert them one after the other",
				})
				return nil
			}
			made, err := t.one(ctx, path, to)
			if made {
				written[to] = path
				converted++
			}
			return err
		})
		if err != nil {
			return false, err
		}
	}
	if converted == 0 {
		t.diags.Add(terminal.NothingChecked("there are no tests", "name files or folders with "+testFile))
		return false, nil
	}
	rows, mistakes, failed := run(ctx, t.options.dir)
	wrong := 0
	for i := range rows {
		if rows[i].fails() {
			wrong++
		}
	}
	fmt.Fprintf(t.report, "tests: %s converted to %s, %d of %d results are as expected\n", terminal.Counted(converted, "test", "tests"), t.options.dir, len(rows)-wrong, len(rows))
	if failed != nil {
		fmt.Fprintf(t.report, "tests: `ephor test %s` shows those that differ\n", t.options.dir)
		if len(rows) == 0 {
			fmt.Fprint(t.report, mistakes)
		}
	}
	return failed == nil, nil
}

// row is one line in the output of `ephor test`.
type row struct{ Policy, Resource, Result, Reason string }

func (r *row) fails() bool { return r.Result == "Fail" }

// run runs the tests of a folder. The error means that some of them fail; without rows, mistakes says why.
func run(ctx context.Context, dir string) (rows []row, mistakes string, failed error) {
	var out, problems bytes.Buffer
	cmd := testrun.New(nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{dir, "-o", "json"})
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	failed = cmd.ExecuteContext(ctx)
	_ = json.Unmarshal(out.Bytes(), &rows) // the keys are in capital letters
	return rows, problems.String(), failed
}

// one converts a test file into a folder. made is false if nothing in it was converted.
func (t *tests) one(ctx context.Context, path, to string) (made bool, err error) {
	objects, diags := source.Load([]string{path}, source.Options{Numbers: source.Exact})
	t.diags.Add(diags...)
	var documents []map[string]any
	var policies, exceptions []map[string]any
	for _, o := range objects {
		if o.Kind() != "Test" {
			continue
		}
		document, all, excepted, err := t.document(o.Value, path, to)
		if err != nil {
			return false, err
		}
		if document != nil {
			documents, policies, exceptions = append(documents, document), appendNew(policies, all), appendNew(exceptions, excepted)
		}
	}
	if len(documents) == 0 {
		return false, nil
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return false, err
	}
	for name, list := range map[string][]map[string]any{testFile: documents, "policies.yaml": policies, "exceptions.yaml": exceptions} {
		if err := write(filepath.Join(to, name), list); err != nil {
			return false, err
		}
	}
	rows, _, failed := run(ctx, to)
	if failed == nil {
		return true, nil
	}
	for i := range rows {
		if rows[i].fails() {
			for _, d := range documents {
				t.adjust(d, &rows[i], path)
			}
		}
	}
	return true, write(filepath.Join(to, testFile), documents)
}

// appendNew appends the objects that a list does not have: several Tests of a file may name the same policies.
func appendNew(list, more []map[string]any) []map[string]any {
	for _, one := range more {
		text := value.JSON(one)
		if !slices.ContainsFunc(list, func(o map[string]any) bool { return value.JSON(o) == text }) {
			list = append(list, one)
		}
	}
	return list
}

// write writes objects to a file; none if there are none.
func write(path string, list []map[string]any) error {
	if len(list) == 0 {
		return nil
	}
	var text bytes.Buffer
	for i, one := range list {
		raw, err := yaml.Marshal(one)
		if err != nil {
			return err
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(raw)
	}
	return os.WriteFile(path, text.Bytes(), 0o644) //nolint:gosec // policies are no secrets
}

// adjust changes the expectation that a row does not fulfil: a rule whose preconditions do not hold passes if they are part of a validation, and for a
// rule whose context the test gives as values nothing can be expected, since a policy in CEL reads the cluster.
func (t *tests) adjust(document map[string]any, r *row, path string) {
	passes := r.Reason == "Want skip, got pass"
	if !passes && !(strings.HasSuffix(r.Reason, "got error") && t.mocked[r.Policy]) {
		return
	}
	_, name, _ := cutLast(r.Resource)
	rows, _ := document["results"].([]any)
	out := make([]any, 0, len(rows))
	for _, e := range rows {
		entry, _ := e.(map[string]any)
		resources := texts(entry["resources"])
		i := slices.IndexFunc(resources, func(s string) bool { _, last, _ := cutLast(s); return last == name })
		if entry["policy"] != r.Policy || i < 0 {
			out = append(out, e)
			continue
		}
		if rest := slices.Delete(slices.Clone(resources), i, i+1); len(rest) > 0 {
			others := maps.Clone(entry)
			others["resources"] = rest
			out = append(out, others)
		}
		if passes && entry["result"] == "skip" {
			one := maps.Clone(entry)
			one["resources"], one["result"] = []string{resources[i]}, "pass"
			out = append(out, one)
			continue
		}
		fmt.Fprintf(t.report, "%s: the result of policy %s for %s is left out: the test gives the context of the rule as values, and the new policy reads the cluster\n", path, r.Policy, name)
	}
	document["results"] = out
}

// cutLast splits a path at its last slash.
func cutLast(s string) (before, last string, found bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

// document converts one Test with its policies and exceptions; nil if it has no classic policy that was converted.
func (t *tests) document(test map[string]any, path, to string) (document map[string]any, policies, exceptions []map[string]any, err error) {
	from := filepath.Dir(path)
	all := conversions{}
	kept := []any{}
	var others []map[string]any // policies in the files of classic ones
	for _, p := range texts(test["policies"]) {
		found, diags := source.Load([]string{filepath.Join(from, p)}, source.Options{Recursive: true, Numbers: source.Exact})
		t.diags.Add(diags...)
		classic := false
		var beside []map[string]any // policies in CEL and of the API server
		for _, o := range found {
			apiVersion, _ := o.Value["apiVersion"].(string)
			if !convert.Owns(apiVersion, o.Kind()) {
				if compile.Owns(apiVersion, o.Kind()) || compile.CompanionOf(apiVersion, o.Kind()) != nil {
					beside = append(beside, o.Value)
				}
				continue
			}
			classic = true
			rules, _ := convert.Policy(o.Value, t.schemas)
			for _, r := range rules {
				var made []map[string]any
				if r.Policy != nil {
					if made = append([]map[string]any{r.Policy}, r.More...); mistakesOf(made).HasErrors() {
						made = nil
					}
				}
				remarks(t.report, o.Pos, o.Kind()+" "+o.Name()+", rule "+r.Name, all.add(o, r.Name, made))
				policies = append(policies, made...)
			}
		}
		if !classic {
			kept = append(kept, t.moved(p, from, to))
			continue
		}
		others = append(others, beside...)
	}
	if len(policies) == 0 {
		return nil, nil, nil, nil
	}
	policies = append(policies, others...)
	document = t.relocated(test, from, to)
	document["policies"] = append([]any{"policies.yaml"}, kept...)
	for _, p := range texts(test["exceptions"]) {
		found, diags := source.Load([]string{filepath.Join(from, p)}, source.Options{Numbers: source.Exact})
		t.diags.Add(diags...)
		for _, o := range found {
			apiVersion, _ := o.Value["apiVersion"].(string)
			if !convert.IsException(apiVersion, o.Kind()) {
				exceptions = append(exceptions, o.Value)
				continue
			}
			made, said, diags := convert.Exception(o.Value, t.schemas, all.refer, all.rulesOf)
			t.diags.Add(diags...)
			remarks(t.report, o.Pos, labelOf(o, made), said)
			if made != nil {
				exceptions = append(exceptions, made)
			}
		}
	}
	delete(document, "exceptions")
	if len(exceptions) > 0 {
		document["exceptions"] = []any{"exceptions.yaml"}
	}
	if err := t.values(document, test, from, all); err != nil {
		return nil, nil, nil, err
	}
	document["results"] = t.results(test, path, all)
	return document, policies, exceptions, nil
}

// authoredOf returns the one of the rules that a result is about, by its own name or by that of a rule that autogen derives from it.
func authoredOf(rules []string, name string) string {
	if !slices.Contains(rules, name) {
		for _, r := range rules {
			if controllers, cronJobs := autogen.Derived(r); name == controllers || name == cronJobs {
				return r
			}
		}
	}
	return name
}

// results returns the expected results, with the names of the converted policies.
func (t *tests) results(test map[string]any, path string, all conversions) []any {
	out := []any{}
	rows, _ := test["results"].([]any)
	for _, row := range rows {
		r, _ := row.(map[string]any)
		policy, _ := r["policy"].(string)
		c := all.named(policy)
		if c == nil {
			out = append(out, row)
			continue
		}
		rule, _ := r["rule"].(string)
		rules := c.rules
		if rule != "" {
			rules = []string{authoredOf(c.rules, rule)}
		}
		for _, name := range rules {
			if len(c.made[name]) == 0 {
				fmt.Fprintf(t.report, "%s: the results of policy %s, rule %s are left out: the rule is not converted\n", path, policy, name)
				continue
			}
			made := c.made[name][0]
			one := map[string]any{}
			for k, v := range r {
				if k != "rule" && k != "policy" && !strings.HasPrefix(k, "is") {
					one[k] = v
				}
			}
			metadata, _ := made["metadata"].(map[string]any)
			one["policy"] = metadata["name"]
			if namespace, _ := metadata["namespace"].(string); namespace != "" {
				one["policy"] = namespace + "/" + fmt.Sprint(metadata["name"])
			}
			kind, _ := made["kind"].(string)
			one["is"+strings.TrimPrefix(kind, "Namespaced")] = true
			if !slices.ContainsFunc(out, func(o any) bool { return value.JSON(o) == value.JSON(one) }) {
				out = append(out, one)
			}
		}
	}
	return out
}

// values gives the values for a classic policy to the policies to which it was converted.
func (t *tests) values(document, test map[string]any, from string, all conversions) error {
	given, _ := test["values"].(map[string]any)
	if file, _ := test["variables"].(string); given == nil && file != "" {
		spec, diags := clivalues.ReadValues(filepath.Join(from, file))
		if diags.HasErrors() {
			t.diags.Add(diags...)
			return nil
		}
		raw, err := json.Marshal(spec)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &given); err != nil {
			return err
		}
	}
	if given == nil {
		return nil
	}
	list, _ := given["policies"].([]any)
	renamed := []any{}
	for _, p := range list {
		one, _ := p.(map[string]any)
		name, _ := one["name"].(string)
		c := all.named(name)
		if c == nil {
			renamed = append(renamed, p)
			continue
		}
		for _, rule := range c.rules {
			for _, made := range c.made[rule] {
				entry := map[string]any{"name": nameOf(made)}
				if resources, ok := one["resources"]; ok {
					entry["resources"] = resources
				}
				t.mocked[nameOf(made)] = true
				renamed = append(renamed, entry)
			}
		}
	}
	if len(list) > 0 {
		given["policies"] = renamed
	}
	delete(document, "variables")
	document["values"] = given
	return nil
}

// pathFields are the fields of a Test, and of its results, that hold paths.
var pathFields = []string{"resources", "targetResources", "paramResources", "jsonPayloads", "httpPayloads", "envoyPayloads", "requests", "clusterResources", "variables", "userinfo", "context", "jsonPayload"}

var resultPaths = []string{"patchedResources", "generatedResource", "generatedResources", "cloneSourceResource"}

// relocated returns a Test with its paths relative to another folder.
func (t *tests) relocated(test map[string]any, from, to string) map[string]any {
	out := map[string]any{}
	for k, v := range test {
		if slices.Contains(pathFields, k) {
			v = t.paths(v, from, to)
		}
		out[k] = v
	}
	rows, _ := test["results"].([]any)
	for _, row := range rows {
		if r, ok := row.(map[string]any); ok {
			for _, k := range resultPaths {
				if v, ok := r[k]; ok {
					r[k] = t.paths(v, from, to)
				}
			}
		}
	}
	return out
}

func (t *tests) paths(v any, from, to string) any {
	switch v := v.(type) {
	case string:
		return t.moved(v, from, to)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = t.paths(e, from, to)
		}
		return out
	}
	return v
}

// moved returns a path relative to the folder from as one relative to the folder to.
func (t *tests) moved(path, from, to string) string {
	if filepath.IsAbs(path) || strings.Contains(path, "://") {
		return path
	}
	origin, err := filepath.Abs(filepath.Join(from, path))
	if err != nil {
		return path
	}
	base, err := filepath.Abs(to)
	if err != nil {
		return path
	}
	out, err := filepath.Rel(base, origin)
	if err != nil {
		return path
	}
	return out
}

func texts(v any) (out []string) {
	if list, ok := v.([]string); ok {
		return list
	}
	all, _ := v.([]any)
	for _, e := range all {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
