package dashboard

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

// forbidden matches code that would turn text into markup or code, or send a request to another host. The Content-Security-Policy also
// prevents all of it.
var forbidden = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|document\.write|createContextualFragment|setHTML|parseFromString|DOMParser|` +
	`\beval\b|new Function|setTimeout\(["'` + "`" + `]|javascript:|srcdoc|localStorage|sessionStorage|document\.cookie|\bon[a-z]+=|style=|` +
	`//[a-z0-9.-]+\.[a-z]{2,}`)

func TestAssets(t *testing.T) {
	n := 0
	err := fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		text, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		if types[path.Ext(name)] == "" {
			t.Errorf("%s: no content type is known for it", name)
		}
		for i, line := range strings.Split(string(text), "\n") {
			line = strings.ReplaceAll(line, `xmlns="http://www.w3.org/2000/svg"`, "")
			line = strings.ReplaceAll(line, `"http://www.w3.org/2000/svg"`, "") // names, not addresses
			if comment := strings.HasPrefix(strings.TrimSpace(line), "//"); comment {
				continue
			}
			if found := forbidden.FindString(line); found != "" {
				t.Errorf("%s:%d: %s", name, i+1, found)
			}
		}
		return nil
	})
	if err != nil || n < 8 {
		t.Errorf("%d assets, %v", n, err)
	}
}
