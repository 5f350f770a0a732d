package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/styles"
)

//go:embed static page.html
var files embed.FS

// site is the guide, from its pages to its files.
type site struct {
	source     string // the repository
	repository string
	output     string

	pages    map[string]*page // by path below docs/, as start/quick-start.md
	order    []*page          // in the order of the index
	sections []section
	mistakes []error
}

// section is a heading of the index with its pages.
type section struct {
	Title string
	Pages []*page
}

// page is a page of the guide.
type page struct {
	path    string // below docs/
	Title   string
	anchors []string
	body    template.HTML
	index   []passage
}

// passage is a section of a page, for the search.
type passage struct {
	Page  string `json:"p"`
	Title string `json:"t"`
	URL   string `json:"u"`
	Text  string `json:"x"`
}

// URL returns the location of the page, relative to the root of the site.
func (p *page) URL() string {
	dir, name := path.Split(p.path)
	if name == "README.md" {
		return dir + "index.html"
	}
	return dir + strings.TrimSuffix(name, ".md") + ".html"
}

// write reads all pages, checks their links, and writes the site.
func (s *site) write() error {
	if err := s.read(); err != nil {
		return err
	}
	if err := s.navigation(); err != nil {
		return err
	}
	for _, p := range s.pages {
		if err := s.render(p); err != nil {
			return fmt.Errorf("docs/%s: %w", p.path, err)
		}
	}
	if err := errors.Join(s.mistakes...); err != nil {
		return err
	}
	if err := os.RemoveAll(s.output); err != nil {
		return err
	}
	if err := s.writePages(); err != nil {
		return err
	}
	if err := s.writeSearch(); err != nil {
		return err
	}
	return s.writeStatic()
}

// read finds the pages.
func (s *site) read() error {
	s.pages = map[string]*page{}
	docs := os.DirFS(filepath.Join(s.source, "docs"))
	return fs.WalkDir(docs, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		p := &page{path: name}
		s.pages[name] = p
		text, err := fs.ReadFile(docs, name)
		if err == nil {
			p.headings(text)
		}
		return err
	})
}

// navigation reads the order of the pages from the index.
func (s *site) navigation() error {
	text, err := os.ReadFile(filepath.Join(s.source, "docs", "README.md"))
	if err != nil {
		return err
	}
	index := s.pages["README.md"]
	s.order = []*page{index}
	for _, line := range strings.Split(string(text), "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			s.sections = append(s.sections, section{Title: title})
			continue
		}
		rest, ok := strings.CutPrefix(line, "- [")
		if !ok {
			continue
		}
		title, rest, _ := strings.Cut(rest, "](")
		target, _, _ := strings.Cut(rest, ")")
		p := s.pages[target]
		if p == nil || len(s.sections) == 0 {
			return fmt.Errorf("docs/README.md: there is no page %s, or no section before it", target)
		}
		_ = title
		last := &s.sections[len(s.sections)-1]
		last.Pages = append(last.Pages, p)
		s.order = append(s.order, p)
	}
	if len(s.order) < 2 {
		return errors.New("docs/README.md names no pages")
	}
	return nil
}

// link returns the target of a page's link on the site. Files that are not pages are linked to the repository.
func (s *site) link(from *page, to string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return to
	}
	file, anchor, _ := strings.Cut(to, "#")
	target := from
	if file != "" {
		full := path.Join("docs", path.Dir(from.path), file)
		name, inside := strings.CutPrefix(full, "docs/")
		if target = s.pages[name]; !inside || target == nil {
			return s.other(from, to, full, anchor)
		}
	}
	if anchor != "" && !slices.Contains(target.anchors, anchor) {
		s.mistakes = append(s.mistakes, fmt.Errorf("docs/%s: %s leads to no section of docs/%s", from.path, to, target.path))
	}
	if file == "" {
		return "#" + anchor
	}
	relative := relativeTo(from, target.URL())
	if anchor != "" {
		relative += "#" + anchor
	}
	return relative
}

// other returns the target of a link to a file that is not a page: pictures are part of the site, all other files are in the
// repository.
func (s *site) other(from *page, to, full, anchor string) string {
	info, err := os.Stat(filepath.Join(s.source, filepath.FromSlash(full)))
	switch {
	case err != nil:
		s.mistakes = append(s.mistakes, fmt.Errorf("docs/%s: %s leads nowhere", from.path, to))
		return to
	case strings.HasPrefix(full, "docs/images/"):
		return relativeTo(from, strings.TrimPrefix(full, "docs/"))
	case info.IsDir():
		return s.repository + "/tree/main/" + full
	}
	url := s.repository + "/blob/main/" + full
	if anchor != "" {
		url += "#" + anchor
	}
	return url
}

// relativeTo returns the path from a page to a file of the site.
func relativeTo(from *page, to string) string {
	return strings.Repeat("../", strings.Count(from.path, "/")) + to
}

// view is the input of a page's template.
type view struct {
	*page
	Root           string
	Body           template.HTML
	Sections       []section
	Previous, Next *page
	Here           *page
	Home           bool
}

func (s *site) writePages() error {
	t, err := template.New("page.html").ParseFS(files, "page.html")
	if err != nil {
		return err
	}
	for _, p := range s.pages {
		v := view{page: p, Root: strings.Repeat("../", strings.Count(p.path, "/")), Body: p.body, Sections: s.sections, Here: p, Home: p.path == "README.md"}
		if i := slices.Index(s.order, p); i >= 0 {
			if i > 0 {
				v.Previous = s.order[i-1]
			}
			if i+1 < len(s.order) {
				v.Next = s.order[i+1]
			}
		}
		var b bytes.Buffer
		if err := t.Execute(&b, v); err != nil {
			return err
		}
		if err := s.put(p.URL(), b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// writeSearch writes the data for the search. It is a script, since pages that were opened from files may not read files.
func (s *site) writeSearch() error {
	var all []passage
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range s.pages {
			if !yield(name) {
				return
			}
		}
	}) {
		all = append(all, s.pages[name].index...)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return s.put("search-index.js", append([]byte("window.guide = "), append(text, ";\n"...)...))
}

// writeStatic writes the styles, the script and the pictures.
func (s *site) writeStatic() error {
	var css bytes.Buffer
	style, err := files.ReadFile("static/site.css")
	if err != nil {
		return err
	}
	css.Write(style)
	formatter := html.New(html.WithClasses(true))
	if err := formatter.WriteCSS(&css, styles.Get("github")); err != nil {
		return err
	}
	css.WriteString("@media (prefers-color-scheme: dark) {\n")
	if err := formatter.WriteCSS(&css, styles.Get("github-dark")); err != nil {
		return err
	}
	css.WriteString("}\n")
	if err := s.put("site.css", css.Bytes()); err != nil {
		return err
	}
	script, err := files.ReadFile("static/site.js")
	if err != nil {
		return err
	}
	if err := s.put("site.js", script); err != nil {
		return err
	}
	images, err := filepath.Glob(filepath.Join(s.source, "docs", "images", "*.png"))
	if err != nil {
		return err
	}
	for _, image := range images {
		content, err := os.ReadFile(image)
		if err != nil {
			return err
		}
		if err := s.put("images/"+filepath.Base(image), content); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) put(name string, content []byte) error {
	file := filepath.Join(s.output, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
