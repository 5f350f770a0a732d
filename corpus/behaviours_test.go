package corpus

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"ephor.invalid/ephor/internal/wildcard"
)

// classicCases are the folders whose cases are behaviours of the classic kinds.
var classicCases = []string{"corpus/testdata", "internal/rule/testdata", "internal/match/testdata", "internal/autogen/testdata", "internal/family/classic/testdata"}

const behavioursFile = "corpus/behaviours.tsv"

// behaviour is a row of behaviours.tsv: a case of ours, the tests of Kyverno's public suite that it replaces, and what it shows.
type behaviour struct {
	test     string // a file, or FILE:TestName
	replaces []string
	shows    string
}

// notClassic matches the tests of Kyverno's suite about other kinds of policies.
var notClassic = regexp.MustCompile(`^(cel/|generate-(mutating|validating)-|(deleting|generating|mutating|validating|image-validating|namespaced-\w+(-\w+)?)-(polic|adm)|namespaced-|policy-exceptions-disabled/validating-)|^cli/.*-(gpols|ivps|vps|map)-|/(mutating|validating)-(policy|admission)`)

// The list of behaviours of the classic kinds: each row is one case of ours, with one sentence, which is the comment of the case. Every case of
// the folders has a row. -update writes the sentences, and rows for new cases.
func TestBehaviours(t *testing.T) {
	t.Chdir("..")
	rows := readBehaviours(t)
	for _, file := range classicFiles(t) {
		if _, ok := rows[file]; !ok {
			if !*update {
				t.Errorf("%s lacks %s (go test ./corpus -update adds it)", behavioursFile, file)
			}
			rows[file] = &behaviour{test: file}
		}
	}
	for _, row := range rows {
		shows := sentence(t, row.test)
		if *update {
			row.shows = shows
		}
		if row.shows != shows || shows == "" {
			t.Errorf("%s: the list says %q, and the comment of the case %q (go test ./corpus -update rewrites the list)", row.test, row.shows, shows)
		}
	}
	if *update {
		writeBehaviours(t, rows)
	}
	if len(rows) < 200 {
		t.Errorf("only %d behaviours", len(rows))
	}
	t.Logf("%d behaviours", len(rows))
}

// Each test of Kyverno's public suite about classic kinds is replaced by a case of ours, since the suite goes with the kinds. Without the data
// nothing is compared.
func TestNothingLeans(t *testing.T) {
	t.Chdir("..")
	data := os.Getenv("EPHOR_CONFORMANCE")
	if data == "" {
		data = "../shared/conformance"
	}
	text, err := os.ReadFile(filepath.Join(data, "chainsaw-baseline.tsv"))
	if err != nil {
		t.Skip("the public suite is not here")
	}
	var patterns []string
	for _, row := range readBehaviours(t) {
		patterns = append(patterns, row.replaces...)
	}
	used := map[string]bool{}
	all := 0
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, "\t")
		if strings.HasPrefix(line, "#") || notClassic.MatchString(name) {
			continue
		}
		all++
		replaced := false
		for _, p := range patterns {
			if wildcard.Match(p, name) {
				replaced, used[p] = true, true
			}
		}
		if !replaced {
			t.Errorf("%s has no case of ours; add one, and its name to the row of the case in %s", name, behavioursFile)
		}
	}
	for _, p := range patterns {
		if !used[p] {
			t.Errorf("%s: %s is no test of the public suite", behavioursFile, p)
		}
	}
	t.Logf("%d tests of the public suite", all)
}

func classicFiles(t *testing.T) (out []string) {
	t.Helper()
	for _, dir := range classicCases {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".txtar" {
				out = append(out, filepath.ToSlash(path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func readBehaviours(t *testing.T) map[string]*behaviour {
	t.Helper()
	text, err := os.ReadFile(behavioursFile)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]*behaviour{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 3 || rows[fields[0]] != nil {
			t.Fatalf("%s: %q is no row of three fields, or the second one of its case", behavioursFile, line)
		}
		rows[fields[0]] = &behaviour{test: fields[0], replaces: strings.Fields(strings.TrimPrefix(fields[1], "-")), shows: fields[2]}
	}
	return rows
}

func writeBehaviours(t *testing.T, rows map[string]*behaviour) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# The behaviours of the classic kinds: a case of ours, the tests of Kyverno's public suite that it replaces (wildcards), and what it shows.\n# The sentences are the comments of the cases: go test ./corpus -update writes them.\n")
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		row := rows[key]
		replaces := strings.Join(row.replaces, " ")
		if replaces == "" {
			replaces = "-"
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\n", row.test, replaces, row.shows)
	}
	if err := os.WriteFile(behavioursFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sentence returns the first sentence of the comment of a case: that of the archive, or that of the test function.
func sentence(t *testing.T, test string) string {
	t.Helper()
	file, function, isGo := strings.Cut(test, ":")
	comment := ""
	if isGo {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == function {
				comment, found = f.Doc.Text(), true
			}
		}
		if !found {
			t.Errorf("%s has no test %s", file, function)
		}
	} else {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Error(err)
			return ""
		}
		comment = strings.ReplaceAll(string(archive.Comment), "# ", "")
	}
	comment = strings.Join(strings.Fields(comment), " ")
	if end := strings.Index(comment, ". "); end >= 0 {
		comment = comment[:end+1]
	}
	return comment
}
