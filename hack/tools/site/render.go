package main

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// names gives headings the same names as the forge does.
type names struct{ used map[string]int }

func (n *names) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(linked.ReplaceAllString(string(value), "$1")))
	count := n.used[name]
	n.used[name]++
	if count > 0 {
		name += "-" + strconv.Itoa(count)
	}
	return []byte(name)
}

func (n *names) Put([]byte) {}

var linked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// markdown returns the dialect of the pages. HTML in pages is omitted.
func markdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(&blocks{}, 100))),
	)
}

// parse parses a page.
func parse(m goldmark.Markdown, source []byte) ast.Node {
	return m.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&names{used: map[string]int{}}))))
}

// headings parses the title and the sections of a page.
func (p *page) headings(source []byte) {
	_ = ast.Walk(parse(markdown(), source), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		h, ok := n.(*ast.Heading)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		if p.Title == "" {
			p.Title = plain(h, source)
		}
		p.anchors = append(p.anchors, anchor(h))
		return ast.WalkSkipChildren, nil
	})
}

func anchor(h *ast.Heading) string {
	if id, ok := h.AttributeString("id"); ok {
		if b, ok := id.([]byte); ok {
			return string(b)
		}
	}
	return ""
}

// render writes the body of a page and its entries for the search.
func (s *site) render(p *page) error {
	source, err := os.ReadFile(filepath.Join(s.source, "docs", filepath.FromSlash(p.path)))
	if err != nil {
		return err
	}
	m := markdown()
	document := parse(m, source)
	if err := ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			switch n := n.(type) {
			case *ast.Link:
				n.Destination = []byte(s.link(p, string(n.Destination)))
			case *ast.Image:
				n.Destination = []byte(s.link(p, string(n.Destination)))
			}
		}
		return ast.WalkContinue, nil
	}); err != nil {
		return err
	}
	p.index = entries(p, document, source)
	var b bytes.Buffer
	if err := m.Renderer().Render(&b, source, document); err != nil {
		return err
	}
	p.body = template.HTML(b.String()) //nolint:gosec // goldmark escapes the text of pages and leaves out their HTML
	return nil
}

// entries splits a page into its sections.
func entries(p *page, document ast.Node, source []byte) []passage {
	out := []passage{{Page: p.Title, Title: p.Title, URL: p.URL()}}
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			if h.Level > 1 && anchor(h) != "" {
				out = append(out, passage{Page: p.Title, Title: plain(h, source), URL: p.URL() + "#" + anchor(h)})
			}
			continue
		}
		if _, ok := n.(*ast.HTMLBlock); ok {
			continue
		}
		last := &out[len(out)-1]
		last.Text = strings.TrimSpace(last.Text + " " + plain(n, source))
	}
	return out
}

var spaces = regexp.MustCompile(`\s+`)

// plain returns the text of a node without markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			switch n.Kind() {
			case ast.KindParagraph, ast.KindTextBlock, tables.KindTableCell:
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(source))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			b.Write(n.Lines().Value(source))
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(spaces.ReplaceAllString(b.String(), " "))
}

// blocks writes code with colours, and tables that scroll separately on small screens.
type blocks struct{}

func (r *blocks) RegisterFuncs(register renderer.NodeRendererFuncRegisterer) {
	register.Register(ast.KindFencedCodeBlock, r.code)
	register.Register(tables.KindTable, r.table)
	register.Register(ast.KindHTMLBlock, nothing)
	register.Register(ast.KindRawHTML, nothing)
}

func nothing(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
	return ast.WalkSkipChildren, nil
}

func (r *blocks) table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<div class=\"table\" tabindex=\"0\"><table>\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

var fileName = regexp.MustCompile(`\bfile=(\S+)`)

func (r *blocks) code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n, ok := node.(*ast.FencedCodeBlock)
	if !ok {
		return ast.WalkStop, fmt.Errorf("a fence of type %T", node)
	}
	if n.Info != nil {
		if m := fileName.FindSubmatch(n.Info.Segment.Value(source)); m != nil {
			fmt.Fprintf(w, "<p class=\"file\">%s</p>\n", template.HTMLEscapeString(string(m[1])))
		}
	}
	lexer := lexers.Get(string(n.Language(source)))
	if lexer == nil {
		lexer = lexers.Fallback
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, string(n.Lines().Value(source)))
	if err != nil {
		return ast.WalkStop, err
	}
	return ast.WalkSkipChildren, html.New(html.WithClasses(true), html.TabWidth(4)).Format(w, styles.Get("github"), tokens)
}
