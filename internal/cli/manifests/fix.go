package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/source"
)

// NewFix returns the command fix.
func NewFix() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fix",
		Short: "Update old policies and tests to the current syntax",
		Long: "Fix replaces deprecated and unsupported syntax with the equivalent current syntax. It keeps comments and the order of keys.\n" +
			"Without --save it prints the result instead of writing it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFixPolicy(), newFixTest())
	return cmd
}

// fixedFile is one file and its documents.
type fixedFile struct {
	path     string
	docs     []*yaml.Node
	warnings []string
	changed  bool
}

// warn records a change, which finish reports.
func (f *fixedFile) warn(format string, args ...any) {
	f.changed = true
	f.warnings = append(f.warnings, fmt.Sprintf(format, args...))
}

// readDocuments parses a file, including its comments.
func readDocuments(path string) (*fixedFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseDocuments(path, text)
}

func parseDocuments(path string, text []byte) (*fixedFile, error) {
	f := &fixedFile{path: path}
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err != nil {
			return nil, mistakeIn(path, text, err)
		}
		if err := keysOnce(&doc); err != nil {
			return nil, fmt.Errorf("%s:%w", path, err)
		}
		f.docs = append(f.docs, &doc)
	}
}

// mistakeIn returns the mistake in a text that cannot be parsed, as the commands that read manifests say it.
func mistakeIn(path string, text []byte, err error) error {
	for _, doc := range source.Split(path, string(text)) {
		if _, diags := doc.Value(source.Exact); diags.HasErrors() {
			return diags.Errors()[:1]
		}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// keysOnce rejects a mapping with a duplicate key, since it is unknown which value the author intended.
func keysOnce(n *yaml.Node) error {
	seen := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode {
			if seen[child.Value] {
				return fmt.Errorf("%d: the key %q is duplicated (remove one of them)", child.Line, child.Value)
			}
			seen[child.Value] = true
		}
		if err := keysOnce(child); err != nil {
			return err
		}
	}
	return nil
}

// roots returns the top-level mappings of the documents.
func (f *fixedFile) roots() []*yaml.Node {
	var out []*yaml.Node
	for _, d := range f.docs {
		if len(d.Content) == 1 && d.Content[0].Kind == yaml.MappingNode {
			out = append(out, d.Content[0])
		}
	}
	return out
}

// finish reports the changes, and writes the file or prints it.
func (f *fixedFile) finish(cmd *cobra.Command, save, force bool) error {
	out := cmd.OutOrStdout()
	for _, w := range f.warnings {
		fmt.Fprintf(out, "  WARNING: %s\n", w)
	}
	if !f.changed && !force {
		return nil
	}
	text, err := f.text()
	if err != nil {
		return err
	}
	if !save {
		_, err := out.Write(text)
		return err
	}
	return os.WriteFile(f.path, text, 0o644)
}

// text returns the new content of the file.
func (f *fixedFile) text() ([]byte, error) {
	if len(f.docs) == 0 { // the encoder refuses to end a text without documents
		return nil, nil
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	for _, d := range f.docs {
		if err := e.Encode(d); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return b.Bytes(), nil
}

// done ends a run that found n documents of the given kind.
func done(cmd *cobra.Command, n int, what string) {
	terminal.PrintMistakes(cmd.ErrOrStderr(), terminal.Absent(n, what, nil))
	fmt.Fprintln(cmd.OutOrStdout(), "Done.")
}

// yamlFiles lists the YAML files in paths, which may be files or directories. It searches directories recursively.
func yamlFiles(paths []string, wanted func(name string) bool) ([]string, error) {
	var out []string
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			return nil, fmt.Errorf("%s: %w", p, terminal.Unreadable(err))
		}
		err := source.Walk(p, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (path == p || wanted(d.Name())) && !slices.Contains(out, path) {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func isYAML(name string) bool {
	return source.IsYAML(name) && !strings.HasPrefix(name, ".")
}

// getNode returns the value of a key of a mapping, or nil if there is none.
func getNode(m *yaml.Node, key string) *yaml.Node {
	if i := indexNode(m, key); i >= 0 {
		return m.Content[i+1]
	}
	return nil
}

// indexNode returns the index of a key in the content of a mapping, or -1.
func indexNode(m *yaml.Node, key string) int {
	if m == nil || m.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// takeNode removes a key and returns its nodes, or nil if there is none.
func takeNode(m *yaml.Node, key string) []*yaml.Node {
	i := indexNode(m, key)
	if i < 0 {
		return nil
	}
	pair := slices.Clone(m.Content[i : i+2])
	m.Content = slices.Delete(m.Content, i, i+2)
	return pair
}

// setNode sets a key. A new key is added at the end, or at the front if front is set.
func setNode(m *yaml.Node, key string, v *yaml.Node, front bool) {
	if i := indexNode(m, key); i >= 0 {
		m.Content[i+1] = v
		return
	}
	pair := []*yaml.Node{textNode(key), v}
	if front {
		m.Content = append(pair, m.Content...)
	} else {
		m.Content = append(m.Content, pair...)
	}
}

func textNode(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

func mapNode(pairs ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: pairs}
}

func listNode(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// valueOf returns the text of a scalar. It is empty for other nodes.
func valueOf(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}
