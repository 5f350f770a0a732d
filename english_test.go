package ephor_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// avoided are words that comments and documentation must not contain, with what to write instead (see "English" in CONTRIBUTING.md).
var avoided = []struct{ words, instead string }{
	{"nobody|somebody|whoever", "name the actor: no client, a user with the right, the replica that holds the Lease"},
	{"judges?|judged", "evaluate, decide, or handle (an error by failurePolicy)"},
	{"is told|are told", "gets, receives, or is notified"},
	{"mends?|mended", "correct, fix, or restore"},
	{"reference §|lesson S[0-9]", "cite only what readers of this repository can open"},
}

// TestPlainEnglish rejects words in comments and documentation that are not the field's.
func TestPlainEnglish(t *testing.T) {
	var words []string
	for _, a := range avoided {
		words = append(words, "("+a.words+")")
	}
	match := regexp.MustCompile(`(?i)\b(?:` + strings.Join(words, "|") + `)(?:\b|$)`)
	report := func(path string, line int, text string) {
		for _, at := range match.FindAllStringSubmatchIndex(text, -1) {
			which := slices.IndexFunc(avoided, func(a struct{ words, instead string }) bool {
				return regexp.MustCompile(`(?i)^(?:` + a.words + `)$`).MatchString(text[at[0]:at[1]])
			})
			t.Errorf("%s:%d: %q: write %s", path, line+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], avoided[which].instead)
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"testdata", "build", "bin", ".git"}, d.Name()):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go"):
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, group := range f.Comments {
				for _, c := range group.List {
					report(filepath.ToSlash(path), files.Position(c.Pos()).Line, c.Text)
				}
			}
		case strings.HasSuffix(path, ".md") && path != "CHANGELOG.md":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			report(filepath.ToSlash(path), 1, withoutFences(string(text)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// withoutFences replaces the content of code blocks and code spans by blanks, since it is data.
func withoutFences(text string) string {
	return regexp.MustCompile("(?s)```.*?```|`[^`\n]*`").ReplaceAllStringFunc(text, func(code string) string {
		return regexp.MustCompile(`[^\n]`).ReplaceAllString(code, " ")
	})
}
