package golden

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/value"
)

var update = flag.Bool("update", false, "write the actual output into testdata")

// Run runs a subtest for each txtar file that matches the pattern (see path.Match). The comment of a file says which behaviour it
// shows. Its sections are inputs, followed by one that is named want: the text that run must return for the inputs before it. A file
// may have several such groups.
func Run(t *testing.T, pattern string, run func(t *testing.T, in Inputs) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s finds no test data: %v", pattern, err)
	}
	root, _, _ := strings.Cut(pattern, "*")
	for _, file := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, root), ".txtar"), func(t *testing.T) { runFile(t, file, run) })
	}
}

func runFile(t *testing.T, file string, run func(*testing.T, Inputs) string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(archive.Comment)) == "" {
		t.Error("the file does not say which behaviour it shows")
	}
	var in Inputs
	wanted := false
	for i := range archive.Files {
		f := &archive.Files[i]
		if f.Name != "want" {
			in = append(in, *f)
			continue
		}
		wanted = true
		if got := run(t, in); *update {
			f.Data = []byte(got)
		} else if got != string(f.Data) {
			t.Errorf("got:\n%swant:\n%sIf the change is intended, run the test with -update and read the diff.", got, f.Data)
		}
		in = nil
	}
	if !wanted {
		t.Error("the file has no section named want")
	} else if len(in) > 0 {
		t.Errorf("the sections from %s on have no section named want behind them", in[0].Name)
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Inputs are the sections that precede a section named want.
type Inputs []txtar.File

// Has reports whether there is a section with the name.
func (in Inputs) Has(name string) bool {
	return slices.ContainsFunc(in, func(f txtar.File) bool { return f.Name == name })
}

// Text returns the text of the section with the name; nil for none.
func (in Inputs) Text(name string) []byte {
	for _, f := range in {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// Decode decodes YAML as the engine decodes objects. It fails the test when the text is not YAML, or not a T.
func Decode[T any](t testing.TB, text []byte) (out T) {
	t.Helper()
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	out, ok := v.(T)
	if !ok {
		t.Fatalf("the text holds a %T, not a %T", v, out)
	}
	return out
}

// Objects decodes a YAML list of objects. An empty text is an empty list.
func Objects(t testing.TB, text []byte) (out []map[string]any) {
	t.Helper()
	if len(text) == 0 {
		return nil
	}
	for i, e := range Decode[[]any](t, text) {
		o, ok := e.(map[string]any)
		if !ok {
			t.Fatalf("item %d holds a %T, not an object", i, e)
		}
		out = append(out, o)
	}
	return out
}
