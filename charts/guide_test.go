package charts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The values in the guides about images are accepted, and have the described effect.
func TestImageGuides(t *testing.T) {
	const objects = "apiVersion:"
	wants := map[string]string{ // by a line of the values: expected text of the render
		"  offlineTrust:":   "--offlineTrust=/",
		"    mirror: https": "--tufMirror=https://tuf.example.com",
		"  registryClient:": "--registryProxy=environment",
		"  imageSecrets:":   ":image-secrets",
	}
	found := map[string]bool{}
	for _, page := range []string{"images.md", "keys.md"} {
		text, err := os.ReadFile(filepath.Join("..", "docs", "policies", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(block[1], objects) {
				continue // package explain evaluates policies
			}
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for _, d := range template(t, "-f", file) {
				all.WriteString(d.Text)
			}
			known := false
			for line, want := range wants {
				if strings.Contains(block[1], line) {
					known, found[line] = true, true
					if !strings.Contains(all.String(), want) {
						t.Errorf("%s: the render has no %s with\n%s", page, want, block[1])
					}
				}
			}
			if !known {
				t.Errorf("%s: nothing is expected of the values\n%s", page, block[1])
			}
		}
	}
	if len(found) != len(wants) {
		t.Errorf("only values of the sorts %v were found", found)
	}
}
