package ephor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ephor-dev/ephor/internal/compile"
)

// Packages may name the kinds of policies where that is their business: the families themselves, the language of one family, the
// types of the API, and what tests and measures the program.
var namesKinds = []string{
	"api/...", "internal/family/...", "internal/compile", // the list of families
	"internal/match", "internal/loader", "internal/autogen", "internal/exception", "internal/rule", // the classic language
	"internal/lint",   // its likely mistakes, each with an example
	"internal/vapgen", // translates policies of one family into those of another
	"bench/...", "conformance/...", "e2e/...", "examples/...", "robustness/...", "soak/...", "corpus/...", "hack/...", "internal/devcluster",
}

// stillNamesKinds are the files that name a kind of a family all the same, each with its reason. What begins with "open" is left to
// do: a new family may need a change there. Take a file out when it names no kind any more.
var stillNamesKinds = map[string]string{
	"internal/app/admissionpolicies.go":    "open: what is generated for classic policies is not asked of the descriptor",
	"internal/app/flags.go":                "a flag of the command line, with Kyverno's name",
	"internal/app/flags_known.go":          "a flag of the command line, with Kyverno's name",
	"internal/app/native.go":               "open: which kinds of the API server's policies are watched is a flag of their own",
	"internal/app/scan_rights.go":          "open: which rights scans need is not asked of the descriptor",
	"internal/app/variables.go":            "a variable of the environment, with Kyverno's name",
	"internal/cli/apply_delete.go":         "open: cleanup policies have results of their own",
	"internal/cli/apply_evaluate.go":       "open: the rule kinds of the API server's policies",
	"internal/cli/apply_policy.go":         "open: the rule kinds of the API server's policies",
	"internal/cli/cmd_cleanup.go":          "a command for one family, and its help",
	"internal/cli/manifests/fix_policy.go": "a command for one family",
	"internal/cli/cmd_rollout.go":          "a command for one family, and its help",
	"internal/cli/rollout_cluster.go":      "a command for one family",
	"internal/cli/test_run.go":             "open: the flags of results in test files that name a kind (isValidatingAdmissionPolicy)",
	"internal/kinds/scope.go":              "the kinds of Kubernetes that live outside of namespaces",
	"internal/observe/declared.go":         "the help of Kyverno's metrics, verbatim",
	"internal/observe/results.go":          "open: metrics by kind of policy belong to the descriptor",
	"internal/policyreview/kinds.go":       "a hint for authors",
	"internal/policyreview/permissions.go": "hints for authors",
	"internal/report/evaluated.go":         "open: the sources of results belong to the descriptor",
	"internal/webhookconf/fixed.go":        "open: the fixed webhooks of --autoUpdateWebhooks=false are those of classic policies",
}

// kindMentions finds the places of a file that name a kind of a family, or import a family.
func kindMentions(set *token.FileSet, file *ast.File, kinds []string) (out []string) {
	// Policy is a word, too: it counts where it stands alone.
	var words []string
	for _, k := range kinds {
		if k != "Policy" {
			words = append(words, k)
		}
	}
	word := regexp.MustCompile(`(?:\b|[a-z0-9_])(?:` + strings.Join(words, "|") + `)(?:\b|s\b|List\b|Spec\b)`)
	at := func(n ast.Node, text string) {
		p := set.Position(n.Pos())
		text, _, _ = strings.Cut(strings.ReplaceAll(text, "\n", " "), "metadata:") // examples are long
		out = append(out, filepath.ToSlash(p.Filename)+":"+strconv.Itoa(p.Line)+": "+text)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			if p, _ := strconv.Unquote(n.Path.Value); isBelow(p, module+"/internal/family") && p != module+"/internal/family" {
				at(n, "imports "+p)
			}
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && (slices.Contains(kinds, text) || word.MatchString(text)) {
				at(n, n.Value)
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && n.Sel.Name == "Policy" && strings.HasPrefix(x.Name, "kyverno") {
				at(n, x.Name+".Policy")
			}
		case *ast.Ident:
			if word.MatchString(n.Name) {
				at(n, n.Name)
			}
		}
		return true
	})
	return out
}

// familyKinds are the kinds of all families and of what belongs to their policies.
func familyKinds() (out []string) {
	for _, f := range compile.Families {
		for _, k := range f.Kinds {
			out = append(out, k.Kind)
		}
		for _, c := range f.Companions {
			out = append(out, c.Kind)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) }) // the longest first
	return out
}

// Outside of the families no package names a kind of policy: a new family is a folder and a row.
func TestKindsOfFamilies(t *testing.T) {
	kinds := familyKinds()
	if len(kinds) < 8 {
		t.Fatalf("the families have only the kinds %v", kinds)
	}
	found := map[string][]string{}
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"), mayNameKinds(path.Dir(name)):
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err == nil {
			if mentions := kindMentions(set, file, kinds); len(mentions) > 0 {
				found[name] = mentions
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sortedKeys(found) {
		if stillNamesKinds[name] == "" {
			t.Errorf("these name a kind of policy; ask compile.Kinds, or the descriptor of the family:\n%s", strings.Join(found[name], "\n"))
		}
	}
	for _, name := range sortedKeys(stillNamesKinds) {
		if len(found[name]) == 0 {
			t.Errorf("%s names no kind of policy any more: take it out of stillNamesKinds", name)
		}
	}
	t.Logf("%d files name kinds of families", len(found))
}

func mayNameKinds(dir string) bool {
	return slices.ContainsFunc(namesKinds, func(p string) bool {
		base, below := strings.CutSuffix(p, "/...")
		return dir == base || below && isBelow(dir, base)
	})
}

// What the test above looks for is found.
func TestKindMentions(t *testing.T) {
	const source = `package p

import (
	"fmt"
	. "github.com/ephor-dev/ephor/internal/family/classic"
	_ "github.com/ephor-dev/ephor/internal/family"
)

var a = "ClusterPolicy"
var b = "the CleanupPolicy x"
var c = kyvernov1.ClusterPolicyList{}
var d kyvernov1.Policy
var e = "Policy"
var f = newCleanupPolicy()
var Policy, text = fmt.Sprint(event.PolicyError), "a Policy is a word, PolicyReports are no policies"
type ClusterPolicySpecial int
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range kindMentions(set, file, []string{"ClusterPolicy", "CleanupPolicy", "Policy"}) {
		lines = append(lines, strings.Split(m, ":")[1])
	}
	if got, want := strings.Join(lines, " "), "5 9 10 11 12 13 14"; got != want {
		t.Errorf("found in lines %s, want %s", got, want)
	}
}
