package ephor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// skipped are folders without text of ours.
var skipped = []string{".git", "bin", "build", "testdata"}

// filesOf passes every file of the module with the extension to read.
func filesOf(t *testing.T, ending string, read func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ending):
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			read(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	fences = regexp.MustCompile("(?s)```.*?```")
	links  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	titles = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkTo = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchor returns the name of a heading in links.
func anchor(title string) string {
	title = linkTo.ReplaceAllString(title, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(title))
}

// Every link between documents leads to an existing file, and to an existing section.
func TestLinks(t *testing.T) {
	pages, anchors := map[string]string{}, map[string][]string{}
	filesOf(t, ".md", func(path, text string) {
		text = fences.ReplaceAllString(text, "")
		pages[path] = text
		for _, m := range titles.FindAllStringSubmatch(text, -1) {
			anchors[path] = append(anchors[path], anchor(m[1]))
		}
	})
	found := 0
	for path, text := range pages {
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			to := m[1]
			if strings.Contains(to, "://") {
				continue
			}
			found++
			file, section, _ := strings.Cut(to, "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", path, to, err)
			} else if section != "" && !slices.Contains(anchors[target], section) {
				t.Errorf("%s: the link %s leads to no section; %s has %s", path, to, target, strings.Join(anchors[target], " "))
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d links were found", found)
	}
}

// docs/README.md defines the order of the guide: it names every page but itself, and those of the reference that have their own index.
func TestIndex(t *testing.T) {
	index, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	filesOf(t, ".md", func(path, _ string) {
		name, ok := strings.CutPrefix(filepath.ToSlash(path), "docs/")
		own := strings.HasPrefix(name, "reference/commands/") || strings.HasPrefix(name, "reference/definitions/")
		if ok && name != "README.md" && !own && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/README.md does not name %s", name)
		}
	})
}

var (
	tableRow  = regexp.MustCompile(`(?m)^\| .*$`)
	namedTest = regexp.MustCompile("`([^`:]+_test\\.go):((?:Test|Fuzz)\\w+)`")
)

// Each row of docs/security/threat-model.md names tests that exist, or says that there is none; each lesson and finding has a row.
func TestThreatModel(t *testing.T) {
	page, err := os.ReadFile("docs/security/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, places, _ := strings.Cut(string(page), "\n## What decides")
	rows, untested := map[string]bool{}, 0
	for _, row := range tableRow.FindAllString(places, -1) {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		first, last := cells[0], cells[len(cells)-1]
		if last == "Test" { // the header of a table
			continue
		}
		if len(cells) != 3 {
			t.Errorf("%d cells instead of 3: %s", len(cells), row)
		}
		if rows[first] {
			t.Errorf("two rows for %s", first)
		}
		rows[first] = true
		named := namedTest.FindAllStringSubmatch(last, -1)
		switch {
		case last == "**no test yet**":
			untested++
		case len(named) == 0:
			t.Errorf("the row names no test `file:function`, and does not say **no test yet**: %s", row)
		}
		for _, m := range named {
			text, err := os.ReadFile(m[1])
			if err != nil || !strings.Contains(string(text), "\nfunc "+m[2]+"(") {
				t.Errorf("%s: there is no %s in %s (%v)", first, m[2], m[1], err)
			}
		}
	}
	for letter, most := range map[string]int{"S": 26, "T": 14} {
		for n := 1; n <= most; n++ {
			if !rows[letter+strconv.Itoa(n)] {
				t.Errorf("no row for %s%d", letter, n)
			}
		}
	}
	t.Logf("%d rows, %d without a test", len(rows), untested)
}

var (
	promised  = regexp.MustCompile(`<!-- promise ([\w.]+) -->`)
	namedData = regexp.MustCompile("`([^`:]+/testdata/[^`:]+\\.txtar)`")
)

// Each promise of the documents is a row of docs/contributing/promises.md, which names tests that exist; each bullet of what README lets readers
// expect, and each section and row of differences.md, is a promise. A row of differences.md without a test says why; their number may not grow.
func TestPromises(t *testing.T) {
	const page = "docs/contributing/promises.md"
	places := map[string]string{}
	filesOf(t, ".md", func(path, text string) {
		if path = filepath.ToSlash(path); path == page {
			return
		}
		for _, m := range promised.FindAllStringSubmatch(text, -1) {
			if places[m[1]] != "" {
				t.Errorf("%s: the promise %s is also in %s", path, m[1], places[m[1]])
			}
			places[m[1]] = path
		}
		_, expected, _ := strings.Cut(text, "\n## What to expect\n")
		expected, _, _ = strings.Cut(expected, "\n## ")
		for _, bullet := range strings.Split(expected, "\n- ")[1:] {
			if path == "README.md" && !promised.MatchString(bullet) {
				t.Errorf("%s: this is no promise of promises.md: %.60s", path, bullet)
			}
		}
		if path != "docs/migrating/differences.md" {
			return
		}
		if strings.Count(text, "\n## ") != strings.Count(text, "\n<!-- promise ") {
			t.Errorf("%s: a section is no promise", path)
		}
		for _, row := range tableRow.FindAllString(text, -1) {
			if !promised.MatchString(row) && !strings.HasPrefix(row, "| What |") {
				t.Errorf("%s: a row without an id (<!-- promise D1.200 --> with the next free number of its section, and a row of %s): %.80s", path, page, row)
			}
		}
	})
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	untested := 0
	for _, row := range tableRow.FindAllString(string(text), -1) {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if cells[0] == "Id" {
			continue
		}
		if places[cells[0]] == "" {
			t.Errorf("%s: no document has the promise %s", page, cells[0])
		}
		delete(places, cells[0])
		last := cells[len(cells)-1]
		named, data := namedTest.FindAllStringSubmatch(last, -1), namedData.FindAllStringSubmatch(last, -1)
		switch {
		case strings.HasPrefix(last, "**no test yet**: "):
			untested++
		case len(named)+len(data) == 0:
			t.Errorf("%s: %s names no test, and does not say why", page, cells[0])
		}
		for _, m := range data {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s: %s: %v", page, cells[0], err)
			}
		}
		for _, m := range named {
			code, err := os.ReadFile(m[1])
			if err != nil || !strings.Contains(string(code), "\nfunc "+m[2]+"(") {
				t.Errorf("%s: %s: there is no %s in %s; it is in %v", page, cells[0], m[2], m[1], testFiles(t, m[2]))
			}
		}
	}
	for id, path := range places {
		t.Errorf("%s: the promise %s has no row in %s", path, id, page)
	}
	if untested > 11 {
		t.Errorf("%d promises have no test", untested)
	}
}

// testFiles returns the files that have a test of the name.
func testFiles(t *testing.T, name string) (out []string) {
	filesOf(t, "_test.go", func(path, text string) {
		if strings.Contains(text, "\nfunc "+name+"(") {
			out = append(out, path)
		}
	})
	return out
}

// The description of each field in the reference ends with a sentence.
func TestDescriptionsEnd(t *testing.T) {
	found := 0
	filesOf(t, ".md", func(path, text string) {
		if !strings.HasPrefix(filepath.ToSlash(path), "docs/reference/definitions/") || strings.HasSuffix(path, "README.md") {
			return
		}
		_, fields, _ := strings.Cut(text, "| Field | Type | |\n|---|---|---|\n")
		for line := range strings.Lines(fields) {
			found++
			if line = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), " |")); !strings.HasSuffix(line, ".") && !strings.HasSuffix(line, "|") {
				t.Errorf("%s: the description has no end: %s", path, line)
			}
		}
	})
	if found < 3000 {
		t.Errorf("only %d fields were found", found)
	}
}

var (
	namedFile  = regexp.MustCompile("`([\\w/]+\\.go)`")
	namedCode  = regexp.MustCompile("`[\\w.]*\\.([A-Z]\\w*)`")
	namedStep  = regexp.MustCompile("`([a-z]+)\\.([A-Za-z]\\w*)`")
	namedTests = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
)

// The names in the page about partial decoding and in the table of outputs exist: files, tests, and exported functions and fields. The
// steps in the walks through the code are functions in the packages that they name.
func TestNamedCode(t *testing.T) {
	declared, inPackage := map[string]bool{}, map[string]bool{}
	var files []string
	filesOf(t, ".go", func(path, text string) {
		files = append(files, path)
		f, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				declared[n.Name.Name], inPackage[f.Name.Name+"."+n.Name.Name] = true, true
			case *ast.TypeSpec:
				declared[n.Name.Name], inPackage[f.Name.Name+"."+n.Name.Name] = true, true
			case *ast.Field:
				for _, name := range n.Names {
					declared[name.Name] = true
				}
			}
			return true
		})
	})
	found := 0
	for page, from := range map[string]string{"docs/contributing/partial-decoding.md": "# ", "docs/contributing/architecture.md": "## 9. "} {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(b), from)
		for _, m := range namedFile.FindAllStringSubmatch(text, -1) {
			found++
			if !slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix("/"+filepath.ToSlash(f), "/"+m[1]) }) {
				t.Errorf("%s: there is no file %s", page, m[1])
			}
		}
		for _, m := range append(namedCode.FindAllStringSubmatch(text, -1), namedTests.FindAllStringSubmatch(text, -1)...) {
			found++
			if !declared[m[1]] {
				t.Errorf("%s: nothing is called %s", page, m[1])
			}
		}
	}
	walks, err := os.ReadFile("docs/contributing/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(walks), "## 4. ")
	text, _, _ = strings.Cut(text, "## 5. ")
	for _, m := range namedStep.FindAllStringSubmatch(text, -1) {
		found++
		if !inPackage[m[1]+"."+m[2]] {
			t.Errorf("docs/contributing/architecture.md, section 4: package %s declares no %s", m[1], m[2])
		}
	}
	if found < 60 {
		t.Errorf("only %d names were found", found)
	}
}
