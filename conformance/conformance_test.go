package conformance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/cli/offline"
)

// maxShown bounds the number of printed differences of one case.
const maxShown = 10

// recordedAt is about the time when the data were recorded; some policies depend on the hour.
var recordedAt = time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC)

func TestConformance(t *testing.T) {
	offline.Now = func() time.Time { return recordedAt }
	defer func() { offline.Now = time.Now }()
	dir, ok, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		fmt.Println("conformance: NOT RUN")
		return
	}
	stop, err := serveImages(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, set := range []struct {
		name, folder, file string
		run                func(dir string) verdict
	}{
		{"cli", "cli", suiteFile, runSuite},
		{"policies", "policies", suiteFile, runSuite},
		{"differential", "differential", "expected.json", differential},
		{"conditions", "conditions", "expected.json", differential},
	} {
		t.Run(set.name, func(t *testing.T) {
			root := filepath.Join(dir, set.folder)
			if set.name == "cli" {
				copied := filepath.Join(t.TempDir(), set.folder)
				if err := substituted(root, copied); err != nil {
					t.Fatal(err)
				}
				root = copied
			}
			cases, err := find(root, set.file)
			if err != nil {
				t.Fatal(err)
			}
			if len(cases) == 0 {
				t.Fatalf("no %s below %s: is %s the folder of the data?", set.file, root, envData)
			}
			verdicts := make([]verdict, len(cases))
			t.Run("case", func(t *testing.T) {
				for i, c := range cases {
					name, _ := filepath.Rel(root, c)
					name = strings.TrimSuffix(filepath.ToSlash(name), "/.kyverno-test")
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						v := set.run(c)
						v.name = name
						verdicts[i] = v
						for k, f := range v.failures {
							if k == maxShown {
								t.Errorf("and %d more", len(v.failures)-k)
								break
							}
							t.Error(f)
						}
					})
				}
			})
			fmt.Print(summary(set.name, verdicts))
		})
	}
}
