package compile_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/value"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata")

// TestWritten runs testdata/written/*.txtar: each policy.yaml is a policy that is written, and the want after it has its diagnostics. A file
// named permitted before a policy permits what operators can permit.
func TestWritten(t *testing.T) {
	files, err := filepath.Glob("testdata/written/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(string(archive.Comment)) == "" {
				t.Error("the file does not say which behaviour it shows")
			}
			var permitted family.Permissions
			var got string
			for i := range archive.Files {
				switch f := &archive.Files[i]; f.Name {
				case "permitted":
					permitted = family.Permissions{ServicesInNamespaces: true}
				case "policy.yaml":
					got = written(t, f.Data, permitted)
					permitted = family.Permissions{}
				case "want":
					if *update {
						f.Data = []byte(got)
					} else if got != string(f.Data) {
						t.Errorf("got:\n%swant:\n%s", got, f.Data)
					}
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func written(t *testing.T, text []byte, permitted family.Permissions) string {
	t.Helper()
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	_, diags := compile.Written(compile.Object{Value: v.(map[string]any)}, permitted)
	var out strings.Builder
	for _, d := range diags {
		fmt.Fprintf(&out, "%s: %s: %s\n", d.Severity, d.Path, d.Summary)
	}
	return out.String()
}
