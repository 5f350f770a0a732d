package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/vapgen"
)

const staticHelp = "With --static, convert writes the files from which an API server of Kubernetes 1.37 loads policies when it starts, and the configuration\n" +
	"that names them (--admission-control-config-file). Such policies hold before Ephor runs, and no client of the API can change them. The input may\n" +
	"also contain policies of the API server with their bindings, and webhook configurations."

// staticWriter writes the files from which an API server loads policies.
type staticWriter struct {
	dir    string
	prover prover
	report io.Writer
	files  map[string][]map[string]any // by path below dir
	made   conversions
	// complete: every policy was written, and decides the same.
	complete bool
	written  int
}

// writeStatic writes the files for the policies that fit, and says why the others do not.
func (o *options) writeStatic(cmd *cobra.Command) error {
	if entries, err := os.ReadDir(o.static); err == nil && len(entries) > 0 {
		return fmt.Errorf("--static: %s is not empty; an API server loads every file in it", o.static)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--static: %w", err)
	}
	dir, err := filepath.Abs(o.static)
	if err != nil {
		return fmt.Errorf("--static: %w", err)
	}
	stdin := terminal.Stdin(cmd.InOrStdin())
	objects, diags := source.Load(o.policies, source.Options{Stdin: stdin, Recursive: true, Numbers: source.Exact})
	p, more := o.prover(stdin)
	diags.Add(more...)
	w := &staticWriter{dir: dir, prover: p, report: terminal.LegibleWriter(cmd.ErrOrStderr()), files: map[string][]map[string]any{}, made: conversions{}, complete: true}
	var bindings []map[string]any
	for _, object := range objects {
		if vapgen.IsStaticBinding(object.Value) {
			bindings = append(bindings, object.Value)
		}
	}
	var passed load.PassedBy
	diags = passed.Files(diags)
	for _, object := range objects {
		apiVersion, _ := object.Value["apiVersion"].(string)
		switch {
		case vapgen.IsStaticBinding(object.Value):
		case compile.Owns(apiVersion, object.Kind()):
			found, err := w.policy(cmd.Context(), object, bindings)
			if diags.Add(found...); err != nil {
				return err
			}
		case vapgen.StaticFolder(object.Kind()) != "":
			w.add(object, vapgen.StaticOf(object.Value, nil))
		default:
			diags.Add(passed.Other(nil, object)...)
		}
	}
	if err := w.write(); err != nil {
		return err
	}
	terminal.PrintNote(cmd.ErrOrStderr(), passed)
	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
	if w.written > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%s in %s; the flag of the API server is --admission-control-config-file=%s\n",
			terminal.Counted(w.written, "file is", "files are"), dir, filepath.Join(dir, "admission.yaml"))
	}
	if diags.HasErrors() || o.prove && !w.complete {
		return terminal.End(cmd, 1)
	}
	return nil
}

// policy adds the files for a policy, a classic one rule by rule.
func (w *staticWriter) policy(ctx context.Context, object source.Object, bindings []map[string]any) (diag.List, error) {
	original, found := compile.One(compile.Object{Value: object.Value, Pos: object.Pos})
	if found.HasErrors() {
		w.complete = false
		return found, nil
	}
	apiVersion, _ := object.Value["apiVersion"].(string)
	if !convert.Owns(apiVersion, object.Kind()) {
		static := vapgen.StaticOf(object.Value, bindings)
		if !w.add(object, static) {
			return nil, nil
		}
		if whole, err := staticPrograms(append([]map[string]any{object.Value}, bindings...)); err != nil {
			return nil, err
		} else if len(bindings) > 0 {
			original = whole[0]
		}
		return nil, w.compare(ctx, label(object), object.Value, original, convert.Rule{}, static.Objects)
	}
	rules, diags := convert.Policy(object.Value, schemas(w.prover.known))
	for i, rule := range rules {
		where := label(object)
		if convert.HasRules(apiVersion, object.Kind()) {
			where += ", rule " + rule.Name
		}
		remarks(w.report, object.Pos, where+" cannot be loaded from a file", rule.Reasons)
		remarks(w.report, object.Pos, where, rule.Notes)
		if rule.Policy == nil {
			w.complete = false
			continue
		}
		made := append([]map[string]any{rule.Policy}, rule.More...)
		remarks(w.report, object.Pos, where, w.made.add(object, rule.Name, made))
		var static vapgen.Static
		for _, m := range made {
			one := vapgen.StaticOf(m, nil)
			if static.Objects, static.Notes = append(static.Objects, one.Objects...), append(static.Notes, one.Notes...); one.Reason != "" {
				static.Reason = one.Reason
			}
		}
		if !w.addAs(where, object.Pos(rulePath(apiVersion, object.Kind(), i)), object, static) {
			continue
		}
		whole := oneRule(object.Value, i, rule.Controllers)
		program, mistakes := compiled(whole)
		if mistakes.HasErrors() {
			return mistakes, nil
		}
		if err := w.compare(ctx, where, whole, program, rule, static.Objects); err != nil {
			return nil, err
		}
	}
	return diags, nil
}

func rulePath(apiVersion, kind string, i int) string {
	if convert.HasRules(apiVersion, kind) {
		return fmt.Sprintf("spec.rules[%d]", i)
	}
	return "spec"
}

func label(object source.Object) string { return object.Kind() + " " + object.Name() }

func (w *staticWriter) add(object source.Object, static vapgen.Static) bool {
	return w.addAs(label(object), object.Pos("spec"), object, static)
}

// addAs adds the objects of a policy to its file, or reports why there are none.
func (w *staticWriter) addAs(where string, at diag.Position, object source.Object, static vapgen.Static) bool {
	if static.Reason != "" {
		w.complete = false
		fmt.Fprintf(w.report, "%s: %s cannot be loaded from a file: %s\n", at, where, static.Reason)
		return false
	}
	for _, note := range slices.Compact(slices.Clone(static.Notes)) {
		fmt.Fprintf(w.report, "%s: %s: %s\n", at, where, note)
	}
	for _, o := range static.Objects {
		kind, _ := o["kind"].(string)
		file := filepath.Join(vapgen.StaticFolder(kind), strings.ToLower(object.Kind())+"-"+object.Name()+".yaml")
		w.files[file] = append(w.files[file], o)
	}
	return true
}

// write writes the files, all four folders, and the configuration.
func (w *staticWriter) write() error {
	if len(w.files) == 0 {
		return nil
	}
	for _, kind := range vapgen.StaticKinds {
		if err := os.MkdirAll(filepath.Join(w.dir, vapgen.StaticFolder(kind)), 0o755); err != nil {
			return err
		}
	}
	for _, file := range slices.Sorted(maps.Keys(w.files)) {
		var text []byte
		for i, object := range w.files[file] {
			one, err := yaml.Marshal(object)
			if err != nil {
				return err
			}
			if i > 0 {
				text = append(text, "---\n"...)
			}
			text = append(text, one...)
		}
		if err := os.WriteFile(filepath.Join(w.dir, file), text, 0o600); err != nil {
			return err
		}
		w.written++
	}
	w.written++
	return os.WriteFile(filepath.Join(w.dir, "admission.yaml"), []byte(vapgen.StaticConfiguration(w.dir)), 0o600)
}

// compare evaluates a policy, and the policies of the API server in its place, on sample requests, and reports the differences. rule is the conversion
// of a classic rule.
func (w *staticWriter) compare(ctx context.Context, where string, original map[string]any, program *policy.Program, rule convert.Rule, objects []map[string]any) error {
	static, err := staticPrograms(objects)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	p, stage := w.prover, stageOf(program)
	reading := static
	if rule.Policy != nil { // the fields of Pod Security are in the converted policy only
		if one, mistakes := compiled(rule.Policy); !mistakes.HasErrors() {
			reading = append(slices.Clip(static), one)
		}
	}
	sampler := newSampler(p, original, rule, program, reading)
	if len(sampler.kinds) == 0 {
		sampler.kinds = kindsOf(p.known, program)
	}
	made := sampler.objects(p.samples)
	given := append(made, p.given...)
	p.namespaces, p.existing, p.now, p.registry = namespaces(original, given), p.given, offline.Now(), newRegistry(sampler, original)
	t := p.attempts(stage, sampler, []string{"pods/" + debug, "pods/" + resize})
	t.updates = onlyUpdates(program)
	t.subresource = func(i int) *subresource {
		if i >= len(made) {
			return nil
		}
		return sampler.subresourceAt(i)
	}
	if slices.ContainsFunc(program.Rules, func(r *policy.Rule) bool { return r.Needs.User }) {
		t.users = requesters(original)
	}
	admit := func(o map[string]any) (map[string]any, error) { return o, nil }
	existing := allowsExisting(program)
	if existing {
		fmt.Fprintf(w.report, "%s: the API server also refuses updates of objects that violated it before; Ephor admits them\n", where)
	}
	matched, different := 0, 0
	for i, o := range given {
		all, err := t.of(i, o, admit)
		if err != nil {
			return err
		}
		for j := range all {
			a := &all[j]
			if existing && a.old != nil {
				old, err := p.verdict(ctx, []*policy.Program{program}, &attempt{operation: policy.Create, subresource: a.subresource, parent: a.parent, object: a.old}, stage)
				if err != nil {
					return err
				}
				if old.violated {
					continue
				}
			}
			t.tried[a.what]++
			before, err := p.verdict(ctx, []*policy.Program{program}, a, stage)
			if err != nil {
				return err
			}
			after, err := p.verdict(ctx, static, a, stage)
			if err != nil {
				return err
			}
			if j == 0 && !before.violated {
				t.older[fmt.Sprint(o["kind"])] = o
			}
			if before.applied {
				matched++
			}
			if before.same(after) {
				continue
			}
			if different++; different <= maxShown {
				fmt.Fprintf(w.report, "%s: the results for %sa resource differ: the policy gives %s, the API server gives %s\n  %s\n", where, a, before, after, value.JSON(o))
			}
		}
	}
	fmt.Fprintf(w.report, "%s: tried %s, %d matched, %d different\n", where, t.report(), matched, different)
	w.complete = w.complete && different == 0 && matched > 0
	return nil
}

// kindsOf returns the kinds of the resources that a policy names by their resources, in their newest version.
func kindsOf(known *schema.Kinds, program *policy.Program) []schema.Found {
	s := &sampler{}
	for _, r := range program.Rules {
		for _, t := range r.Targets {
			for _, f := range known.Find(anyOf(t.Group), anyOf(t.Version), "*", "") {
				if t.Subresource == "" && (t.Resource == kinds.Plural(f.Kind) || t.Resource == "*" && f.Kind == "ConfigMap") {
					s.addKinds(known, policy.Target{Group: f.Group, Version: f.Version, Kind: f.Kind})
				}
			}
		}
	}
	return s.kinds
}

// staticPrograms compiles policies of the API server, each with the bindings that follow it.
func staticPrograms(objects []map[string]any) (out []*policy.Program, err error) {
	for i, o := range objects {
		if vapgen.IsStaticBinding(o) {
			continue
		}
		one := compile.Object{Value: o}
		companions := &compile.Companions{}
		for _, b := range objects[i+1:] {
			if !vapgen.IsStaticBinding(b) {
				break
			}
			if found := companions.Add(compile.Object{Value: b}); found.HasErrors() {
				return nil, found.Err()
			}
		}
		program, found := compile.With(one, companions.Of(compile.IDOf(one)), family.Options{})
		if found.HasErrors() {
			return nil, found.Err()
		}
		out = append(out, program)
	}
	return out, nil
}
