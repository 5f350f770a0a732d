package compile_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// numbersAsText is the number of recorded results that depend on how a number is written as text. The command line,
// which made the recordings, has 5 as the float 5E+00, which the pattern `?` does not match; a cluster has the integer
// 5.
const numbersAsText = 17

// TestRecordedResults compiles the recorded policies that consist of patterns and conditions, runs them on their
// resources and compares status and message with Kyverno's results. It does so twice: with the numbers of the command
// line, where everything must agree, and with those of a cluster, where results that read numbers as text may differ,
// and are counted. (conformance/ compares all kinds of rules, as the command line runs them.)
func TestRecordedResults(t *testing.T) {
	data := os.Getenv("EPHOR_CONFORMANCE")
	if data == "" || data == "none" {
		t.Skip("EPHOR_CONFORMANCE names no data folder: the recorded results are not compared")
	}
	var files []string
	err := filepath.WalkDir(filepath.Join(data, "differential"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "expected.json" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded results below %s: %v", data, err)
	}
	c := &comparison{numbers: source.Floats}
	exact := &comparison{numbers: source.Exact, quiet: true}
	for _, f := range files {
		dir := filepath.Dir(f)
		name, _ := filepath.Rel(filepath.Join(data, "differential"), dir)
		t.Run(name, func(t *testing.T) {
			c.folder(t, dir)
			exact.folder(t, dir)
		})
	}
	t.Logf("%d of %d recorded results agree; %d of %d with integers", c.agreed, c.total, exact.agreed, exact.total)
	t.Logf("%d policies hold rules of other kinds", c.other)
	if exact.total-exact.agreed != numbersAsText {
		t.Errorf("%d results change with integers, %d were known to", exact.total-exact.agreed, numbersAsText)
	}
	if c.total < 10000 {
		t.Errorf("only %d results were compared", c.total)
	}
}

type recorded struct {
	Policy, Rule, Kind, Namespace, Name, Result string
	Message                                     *string
}

func (r recorded) key() string {
	return strings.Join([]string{r.Policy, r.Rule, r.Kind, r.Namespace, r.Name}, " ")
}

// comparison counts the compared results.
type comparison struct {
	numbers       source.Numbers
	quiet         bool // disagreements are counted, not reported
	other         int  // number of policies with rules of other kinds
	total, agreed int
}

// folder runs one recorded folder.
func (c *comparison) folder(t *testing.T, dir string) {
	var expected struct{ Results []recorded }
	read(t, filepath.Join(dir, "expected.json"), func(b []byte) error { return json.Unmarshal(b, &expected) })
	want := map[string][]recorded{}
	withResults := map[string]bool{}
	for _, r := range expected.Results {
		want[r.key()] = append(want[r.key()], r)
		withResults[r.Policy] = true
	}
	var resources []map[string]any
	for _, o := range objects(t, filepath.Join(dir, "resources.yaml"), c.numbers) {
		source.Normalise(o.Value)
		resources = append(resources, o.Value)
	}
	mismatches := 0
	report := func(format string, args ...any) {
		if mismatches++; mismatches <= 8 && !c.quiet {
			t.Errorf(format, args...)
		}
	}
	for _, o := range objects(t, filepath.Join(dir, "policy.yaml"), source.Exact) {
		program, diags := compile.One(compile.Object{Value: o.Value, Pos: o.Pos})
		if program == nil {
			continue
		}
		if slices.ContainsFunc(program.Rules, func(r *policy.Rule) bool { return !slices.Contains(language, r.Kind) }) {
			c.other++
			continue
		}
		if diags.HasErrors() {
			if withResults[program.Name] {
				report("policy %s is refused: %v", program.Name, diags.Errors())
			}
			continue
		}
		if !withResults[program.Name] && strings.HasPrefix(filepath.Base(dir), "semantics") {
			got := 0
			for _, r := range resources {
				got += len(run(t, program, r))
			}
			if got > 0 {
				report("policy %s has no results in the reference, here %d", program.Name, got)
			}
			continue
		}
		for _, r := range resources {
			for _, got := range run(t, program, r) {
				c.total++
				exp := want[got.key()]
				if len(exp) == 0 {
					report("unexpected: %s: %s %q", got.key(), got.Result, *got.Message)
					continue
				}
				i := slices.IndexFunc(exp, func(e recorded) bool {
					return e.Result == got.Result && (e.Message == nil || *e.Message == *got.Message)
				})
				if i < 0 {
					report("%s:\ngot  %s %q\nwant %s %q", got.key(), got.Result, *got.Message, exp[0].Result, text(exp[0].Message))
					i = 0
				} else {
					c.agreed++
				}
				want[got.key()] = slices.Delete(slices.Clone(exp), i, i+1)
			}
		}
		for key, rest := range want {
			if len(rest) > 0 && rest[0].Policy == program.Name {
				c.total += len(rest)
				report("missing: %s: %s %q", key, rest[0].Result, text(rest[0].Message))
			}
		}
	}
	if mismatches > 0 && !c.quiet {
		t.Logf("%d mismatches", mismatches)
	}
}

func text(s *string) string {
	if s == nil {
		return "(any)"
	}
	return *s
}

// language are the kinds of rules whose results depend only on the object.
var language = []policy.RuleKind{"", "validate.pattern", "validate.anyPattern", "validate.deny", "validate.foreach"}

// run evaluates the rules of a program on a created resource, as the command line does.
func run(t *testing.T, p *policy.Program, object map[string]any) []recorded {
	t.Helper()
	req := created(object)
	var out []recorded
	for _, r := range p.Rules {
		ok, err := r.Match(context.Background(), req)
		if err != nil {
			t.Errorf("policy %s rule %s: %v", p.Name, r.Name, err)
		}
		if !ok || err != nil {
			continue
		}
		env := &evalenv.Env{
			Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes),
			World: world.World{Clock: noon{}},
		}
		y := r.Eval(&policy.Call{Env: env, Request: req, Program: p, Rule: r})
		if y.Status == policy.StatusNone {
			continue
		}
		status := y.Status
		if status == policy.StatusFail && !p.Settings.Scored {
			status = policy.StatusWarn
		}
		message := y.Message
		out = append(out, recorded{p.Name, r.Name, req.GVK.Kind, req.Namespace, req.Name, status.String(), &message})
		if p.Settings.ApplyOne && (y.Status == policy.StatusPass || y.Status == policy.StatusFail) {
			break
		}
	}
	return out
}

// noon is a time within working hours, for the recorded policies that check that.
type noon struct{}

func (noon) Now() time.Time { return time.Date(2026, 8, 12, 12, 0, 0, 0, time.UTC) }

func created(object map[string]any) *policy.Request {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	return &policy.Request{Review: policy.Review{
		Origin: policy.FromCLI, Operation: policy.Create, GVK: gvk, RequestGVK: gvk,
		Namespace: namespace, Name: name, Object: value.Of(object),
	}}
}

// objects reads a file.
func objects(t *testing.T, path string, numbers source.Numbers) []source.Object {
	t.Helper()
	out, diags := source.Load([]string{path}, source.Options{Numbers: numbers})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return out
}

func read(t *testing.T, path string, parse func([]byte) error) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = parse(b)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
