package manifests

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/source"
)

// The name of this file ends in _file.go because Go would treat cmd_fix_test.go as a test.

func newFixTest() *cobra.Command {
	var (
		name                  string
		save, force, compress bool
	)
	cmd := &cobra.Command{
		Use:   "test DIRECTORY...",
		Short: "Update old test files, and their values and user info files",
		Long: "Test adds apiVersion and kind to test files, and to the values and user info files that they name. It moves the name to\n" +
			"metadata and old fields of results to their current place, sorts the results, and removes duplicates.",
		Example: "  ephor fix test tests/\n  ephor fix test tests/ --save --compress",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := yamlFiles(args, func(n string) bool { return strings.EqualFold(n, name) })
			if err != nil {
				return err
			}
			found := 0
			for _, path := range files {
				f, err := readDocuments(path)
				if err != nil {
					return err
				}
				tests := slices.DeleteFunc(f.roots(), func(doc *yaml.Node) bool {
					kind := valueOf(getNode(doc, "kind"))
					return kind != "" && kind != "Test"
				})
				if len(tests) == 0 {
					continue
				}
				found += len(tests)
				fmt.Fprintf(cmd.OutOrStdout(), "Processing test file (%s)...\n", path)
				for _, doc := range tests {
					if err := fixNamed(cmd, f, doc, save, force); err != nil {
						return err
					}
					f.header(doc, "Test", filepath.Base(filepath.Dir(path)))
					f.results(doc, compress)
				}
				if err := f.check(func() any { return &v1alpha1.Test{} }); err != nil {
					return err
				}
				if err := f.finish(cmd, save, force); err != nil {
					return err
				}
			}
			done(cmd, found, "tests")
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&name, "file-name", "f", "kyverno-test.yaml", "name of the test files")
	f.BoolVar(&save, "save", false, "write the files instead of printing them")
	f.BoolVar(&force, "force", false, "also write files that need no change")
	f.BoolVar(&compress, "compress", false, "merge results that differ only in their resources")
	return cmd
}

// fixNamed fixes the values and user info files that a test names.
func fixNamed(cmd *cobra.Command, f *fixedFile, test *yaml.Node, save, force bool) error {
	for _, ref := range []struct {
		field, kind, title string
		form               func() any
	}{
		{"variables", "Values", "values", func() any { return &v1alpha1.Values{} }},
		{"userinfo", "UserInfo", "user info", func() any { return &v1alpha1.UserInfo{} }},
	} {
		named := valueOf(getNode(test, ref.field))
		if named == "" {
			continue
		}
		path := filepath.Join(filepath.Dir(f.path), named)
		other, err := readDocuments(path)
		if os.IsNotExist(err) {
			f.warnings = append(f.warnings, fmt.Sprintf("the %s file %s does not exist", ref.title, named))
			continue
		}
		if err != nil {
			return err
		}
		for _, doc := range other.roots() {
			other.header(doc, ref.kind, ref.title)
		}
		if err := other.check(ref.form); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "Processing %s file (%s)...\n", ref.title, path)
		if err := other.finish(cmd, save, force); err != nil {
			return err
		}
	}
	return nil
}

// header moves apiVersion, kind and metadata to their places.
func (f *fixedFile) header(doc *yaml.Node, kind, name string) {
	if n := getNode(doc, "name"); valueOf(n) != "" || getNode(doc, "metadata") == nil {
		if pair := takeNode(doc, "name"); pair != nil && valueOf(pair[1]) != "" {
			name = pair[1].Value
			f.warn("name is moved into metadata")
		} else {
			f.warn("metadata.name is set")
		}
		metadata := getNode(doc, "metadata")
		if metadata == nil || metadata.Kind != yaml.MappingNode {
			metadata = mapNode()
			setNode(doc, "metadata", metadata, true)
		}
		setNode(metadata, "name", textNode(name), true)
	}
	if valueOf(getNode(doc, "kind")) == "" {
		setNode(doc, "kind", textNode(kind), true)
		f.warn("kind is not set, setting `%s`", kind)
	}
	if valueOf(getNode(doc, "apiVersion")) == "" {
		setNode(doc, "apiVersion", textNode("cli.kyverno.io/v1alpha1"), true)
		f.warn("apiVersion is not set, setting `cli.kyverno.io/v1alpha1`")
	}
}

// results converts the results of a test to the current form.
func (f *fixedFile) results(doc *yaml.Node, compress bool) {
	results := getNode(doc, "results")
	if results == nil || results.Kind != yaml.SequenceNode {
		return
	}
	for _, r := range results.Content {
		if f.rename(r, "status", "result") {
			f.warn("test result status is renamed to result")
		}
		if f.rename(r, "patchedResource", "patchedResources") {
			f.warn("test result patchedResource is renamed to patchedResources")
		}
		namespace := takeNode(r, "namespace")
		if one := getNode(r, "resource"); one != nil {
			if many := getNode(r, "resources"); many != nil {
				many.Content = append(many.Content, one)
				takeNode(r, "resource")
			} else {
				setNode(r, "resource", listNode(one), false)
				f.rename(r, "resource", "resources")
			}
			f.warn("test result resource is moved into resources")
		}
		if namespace == nil {
			continue
		}
		resources := getNode(r, "resources")
		switch {
		case valueOf(namespace[1]) == "":
			f.warn("test result namespace is dropped, because it is empty")
		case resources == nil:
			f.warn("test result namespace is dropped, because there are no resources in the result")
		default:
			for _, n := range resources.Content {
				if !strings.Contains(n.Value, "/") { // with a namespace of its own otherwise
					n.Value = valueOf(namespace[1]) + "/" + n.Value
				}
			}
			f.warn("test result namespace is moved into resources")
		}
	}
	before := texts(results.Content)
	slices.SortStableFunc(results.Content, func(a, b *yaml.Node) int {
		for _, key := range []string{"policy", "rule", "result", "kind"} {
			if c := cmp.Compare(valueOf(getNode(a, key)), valueOf(getNode(b, key))); c != 0 {
				return c
			}
		}
		return 0
	})
	if !slices.Equal(before, texts(results.Content)) {
		f.warn("test results are sorted")
	}
	f.unique(results)
	if compress {
		f.compress(results)
	}
}

// check names what remains to be corrected by hand. form returns what each document is decoded into.
func (f *fixedFile) check(form func() any) error {
	text, err := f.text()
	if err != nil {
		return err
	}
	for _, doc := range source.Split(f.path, string(text)) {
		diags, _ := clivalues.DecodeDocument(doc, form()) // the kind is set
		for _, d := range diags.Errors() {
			d.Pos = diag.Position{}
			f.warnings = append(f.warnings, "correct by hand: "+d.String())
		}
	}
	return nil
}

// rename renames a key in place. If the new key already exists, it removes the old key.
func (f *fixedFile) rename(m *yaml.Node, old, now string) bool {
	i := indexNode(m, old)
	switch {
	case i < 0:
		return false
	case getNode(m, now) != nil:
		takeNode(m, old)
	default:
		m.Content[i].Value = now
	}
	return true
}

// texts returns the nodes as YAML texts, which can be compared.
func texts(nodes []*yaml.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		b, err := yaml.Marshal(n)
		if err != nil {
			b = fmt.Appendf(nil, "%p", n)
		}
		out[i] = string(b)
	}
	return out
}

func (f *fixedFile) unique(results *yaml.Node) {
	all := texts(results.Content)
	var kept []*yaml.Node
	for i, n := range results.Content {
		if slices.Index(all, all[i]) == i {
			kept = append(kept, n)
		}
	}
	if len(kept) < len(results.Content) {
		f.warn("%d test results occur twice and are dropped", len(results.Content)-len(kept))
		results.Content = kept
	}
}

// compress joins results that differ only in their resources.
func (f *fixedFile) compress(results *yaml.Node) {
	var kept []*yaml.Node
	var keys []string
	for _, r := range results.Content {
		rest := *r
		rest.Content = slices.Clone(r.Content)
		resources := takeNode(&rest, "resources")
		key := texts([]*yaml.Node{&rest})[0]
		i := slices.Index(keys, key)
		if resources == nil || i < 0 {
			if resources == nil {
				key = ""
			}
			kept, keys = append(kept, r), append(keys, key)
			continue
		}
		into := getNode(kept[i], "resources")
		into.Content = append(into.Content, resources[1].Content...)
		f.warn("test results for policy %s are joined", valueOf(getNode(r, "policy")))
	}
	results.Content = kept
}
