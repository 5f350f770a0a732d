package testrun

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/source"
)

// testCase is one Test: one document of a test file.
type testCase struct {
	v1alpha1.Test
	path string // the path of the file, as it was found
	dir  string // the directory to which paths in the Test are relative
	pos  func(path string) diag.Position
	// deprecated: the document has the schema before cli.kyverno.io/v1alpha1. The run rejects it when it reaches the document.
	deprecated bool
	warnings   diag.List
}

// testMistake is a test file that cannot be read.
type testMistake struct {
	path  string
	diags diag.List
}

// loadTests reads all test files below the paths. A path may also be a test file of any name. Files that the tests in a
// clone name must be in the same clone.
func loadTests(paths []string, fileName string, clones []source.Clone) ([]testCase, []testMistake, error) {
	files, err := findTests(paths, fileName)
	if err != nil {
		return nil, nil, err
	}
	var cases []testCase
	var mistakes []testMistake
	for _, f := range files {
		found, diags := readTests(f)
		diags.Add(outside(found, f, clones)...)
		if diags.HasErrors() {
			mistakes = append(mistakes, testMistake{f, diags.Errors()})
			continue
		}
		cases = append(cases, found...)
	}
	return cases, mistakes, nil
}

// outside reports the paths in tests that lead out of the clone with the test file. Other users wrote these tests, and
// the output may show the content of the files that they name.
func outside(cases []testCase, file string, clones []source.Clone) (diags diag.List) {
	for i := range clones {
		if clones[i].CheckInside(file) != nil {
			continue
		}
		for _, c := range cases {
			for _, path := range c.files() {
				if err := clones[i].CheckInside(path); err != nil {
					diags.Add(diag.Diagnostic{Pos: diag.Position{File: file}, Summary: fmt.Sprintf("%s: %v", path, err)})
				}
			}
		}
	}
	return diags
}

// findTests lists the test files, including those in hidden folders, sorted within each path.
func findTests(paths []string, fileName string) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	add := func(list ...string) {
		for _, f := range list {
			if !seen[f] {
				seen[f] = true
				out = append(out, f)
			}
		}
	}
	for _, p := range paths {
		p = filepath.Clean(p)
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("cannot read the tests: %s: %w", p, terminal.Unreadable(err))
		}
		if !info.IsDir() {
			add(p)
			continue
		}
		var below []string
		err = source.Walk(p, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.EqualFold(d.Name(), fileName) {
				below = append(below, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("cannot read the tests: %w", err)
		}
		sort.Strings(below)
		add(below...)
	}
	return out, nil
}

func readTests(path string) ([]testCase, diag.List) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, diag.List{{Pos: diag.Position{File: path}, Summary: err.Error()}}
	}
	var out []testCase
	var all diag.List
	for _, doc := range source.Split(path, string(b)) {
		c := testCase{path: path, dir: filepath.Dir(path), pos: doc.Positions()}
		diags, err := clivalues.DecodeDocument(doc, &c.Test)
		c.deprecated = errors.Is(err, clivalues.ErrDeprecated) || c.Name != ""
		if !c.deprecated {
			if c.Kind != "Test" {
				diags.Add(diag.Diagnostic{
					Severity: diag.Warning, Code: diag.Unchecked, Pos: c.pos("kind"), Path: "kind", Summary: "a test file has the kind Test, and not " + c.Kind, Hint: "it is read as a Test",
				})
			}
			hintAtFix(diags, path)
			all.Add(diags...)
			c.warnings = diags.Warnings()
		}
		out = append(out, c)
	}
	return out, all
}

// oldFields are fields that results had in earlier versions of Kyverno.
var oldFields = []string{"resource", "namespace", "status", "patchedResource"}

// hintAtFix names the command that corrects old fields of results.
func hintAtFix(diags diag.List, path string) {
	for i := range diags {
		if d := &diags[i]; d.Code == diag.UnknownField && strings.HasPrefix(d.Path, "results[") && slices.Contains(oldFields, d.Name) {
			d.Hint = "`ephor fix test " + path + " --save` corrects it"
		}
	}
}

// within resolves paths in the Test against its folder, and removes duplicates. References to artifacts in registries are not paths and
// stay unchanged.
func (c *testCase) within(paths ...string) []string {
	var out []string
	seen := map[string]bool{}
	for _, p := range paths {
		if p == "" || seen[p] {
			continue
		}
		seen[p] = true
		if !filepath.IsAbs(p) && !source.IsArtifact(p) {
			p = filepath.Join(c.dir, p)
		}
		out = append(out, p)
	}
	return out
}

// files lists all files on which the Test depends.
func (c *testCase) files() []string {
	lists := [][]string{
		{c.path}, c.within(c.Policies...), c.within(c.Resources...), c.within(c.Requests...), c.within(c.TargetResources...), c.within(c.PolicyExceptions...),
		c.within(c.ParamResources...), c.within(c.ClusterResources...), c.within(c.Variables, c.UserInfo, c.Context),
		c.within(c.JSONPayload), c.within(c.JSONPayloads...), c.within(c.HTTPPayloads...), c.within(c.EnvoyPayloads...),
	}
	for _, path := range c.within(c.ClusterResources...) {
		if cluster, diags := clivalues.ReadClusterResource(path); !diags.HasErrors() {
			lists = append(lists, definitions(path, cluster.Spec.CRDs))
		}
	}
	for _, g := range c.GlobalContextEntries {
		lists = append(lists, c.within(g.ResourceFiles...))
	}
	for _, r := range c.Results {
		lists = append(lists, c.within(r.PatchedResources, r.GeneratedResource, r.CloneSourceResource), c.within(r.GeneratedResources...))
	}
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// printTestMistakes lists the files that cannot be read.
func printTestMistakes(w io.Writer, mistakes []testMistake) {
	if len(mistakes) == 0 {
		return
	}
	fmt.Fprintln(w, "\nTest errors:")
	for _, m := range mistakes {
		fmt.Fprintf(w, "  Path: %s\n", m.path)
		for _, d := range m.diags {
			fmt.Fprintf(w, "    Error: %s\n", d)
		}
	}
}
