package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// guide writes the pages of a small guide and returns its site, not written yet.
func guide(t *testing.T, pages map[string]string) *site {
	t.Helper()
	dir := t.TempDir()
	for name, text := range pages {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &site{source: dir, repository: "https://forge.example/e", output: filepath.Join(t.TempDir(), "site")}
}

const index = "# The guide\n\n## Start\n\n- [First](a/first.md)\n- [Second](second.md)\n"

func TestPages(t *testing.T) {
	s := guide(t, map[string]string{
		"docs/README.md": index,
		"docs/a/first.md": "# First page\n\n[There](../second.md#what-it-is), [code](../../x/y.go), [home](../README.md), ![picture](../images/p.png)\n\n## `Code` and: more\n\n" +
			"```yaml file=policy.yaml\nkind: Pod # <script>\n```\n\n<script>alert(1)</script>\n\n## Twice\n\n## Twice\n\n| a | b |\n|---|---|\n| `x` | y |\n",
		"docs/second.md":     "# Second\n\n## What it is\n\nText about anchors.\n",
		"docs/images/p.png":  "png",
		"x/y.go":             "package x",
		"docs/images/no.txt": "",
	})
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	page := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(s.output, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := page("a/first.html")
	for _, want := range []string{
		`href="../second.html#what-it-is"`, `href="https://forge.example/e/blob/main/x/y.go"`, `href="../index.html"`, `src="../images/p.png"`,
		`id="code-and-more"`, `id="twice"`, `id="twice-1"`, `<p class="file">policy.yaml</p>`, `&lt;script&gt;`, `<div class="table" tabindex="0"><table>`,
		`<a rel="prev" href="../index.html">`, `<a rel="next" href="../second.html">`, `<title>First page · Ephor</title>`, `aria-current="page"`,
	} {
		if !strings.Contains(first, want) {
			t.Errorf("a/first.html lacks %s", want)
		}
	}
	if strings.Contains(first, "alert(1)") {
		t.Error("HTML of a page is in the site")
	}
	search := page("search-index.js")
	for _, want := range []string{`window.guide = [`, `"t":"What it is","u":"second.html#what-it-is","x":"Text about anchors."`, `\u003cscript\u003e`} {
		if !strings.Contains(search, want) {
			t.Errorf("the search lacks %s: %s", want, search)
		}
	}
	for _, name := range []string{"index.html", "site.css", "site.js", "images/p.png"} {
		page(name)
	}
}

func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"a page that does not exist":    {"[x](none.md)", "docs/second.md: none.md leads nowhere"},
		"a section that does not exist": {"[x](a/first.md#none)", "docs/second.md: a/first.md#none leads to no section of docs/a/first.md"},
		"a section of its own":          {"[x](#none)", "docs/second.md: #none leads to no section of docs/second.md"},
		"a picture that does not exist": {"![x](images/none.png)", "docs/second.md: images/none.png leads nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			s := guide(t, map[string]string{"docs/README.md": index, "docs/a/first.md": "# First", "docs/second.md": "# Second\n\n" + c.page})
			if err := s.write(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	s := guide(t, map[string]string{"docs/README.md": "# The guide\n\n## Start\n\n- [First](gone.md)\n"})
	if err := s.write(); err == nil {
		t.Error("an index with a page that does not exist is accepted")
	}
}
