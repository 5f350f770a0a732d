package charges_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/bench/charges"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/jmespath"
)

var update = flag.Bool("update", false, "write testdata/charges.tsv")

// aliases are further names of functions that have a row.
var aliases = map[string]string{
	"sha1": "hash.sha1", "md5": "hash.md5", "sha256": "hash.sha256", "random": "random.random", "image": "parseImageReference", "listObjToMap": "transform.listObjToMap",
	"parseServiceAccount": "user.parseServiceAccount", "resource.Get": "resource.get", "resource.List": "resource.list", "resource.Post": "resource.post", "resource.ToGVR": "resource.toGVR",
	"http.Get": "http.get", "http.Post": "http.post", "http.Client": "http.client", "Get": "get", "Post": "post", "globalContext.Get": "globalContext.get", "image.GetMetadata": "image.getMetadata",
	"generator.Apply": "generator.apply",
}

// unreachable are the functions that no expression can call: parts of macros, spellings that the parser does not produce, and extensions of protocol buffers, of which there are none.
var unreachable = []string{"@not_strictly_false", "__not_strictly_false__", "_in_", "in", "cel.@mapInsert", "cel.@block", "getExt", "hasExt"}

// TestT16EveryFunctionHasARow: a function, operator or macro without a row is not charged by anyone's decision.
func TestT16EveryFunctionHasARow(t *testing.T) {
	have := map[charges.Language]map[string]bool{charges.CEL: {}, charges.JMESPath: {}}
	for _, r := range charges.Rows {
		name, _, _ := strings.Cut(r.Name, ",")
		have[r.Language][name] = true
	}
	for kind := env.Native; kind <= env.EnvoyChecks; kind++ {
		for _, name := range (env.Declarations{Kind: kind}).Functions() {
			if other, known := aliases[name]; known {
				name = other
			}
			if !have[charges.CEL][name] && !slices.Contains(unreachable, name) {
				have[charges.CEL][name] = true
				t.Errorf("CEL: %s has no row", name)
			}
		}
	}
	for _, f := range jmespath.Functions() {
		if !have[charges.JMESPath][f.Name] {
			t.Errorf("JMESPath: %s has no row", f.Name)
		}
	}
	for _, o := range condition.Operators() {
		if !have[charges.JMESPath]["condition "+o.Name] {
			t.Errorf("the operator %s of conditions has no row", o.Name)
		}
	}
}

// TestT16Charges compares the charges of all rows with testdata/charges.tsv. A change there needs a new run of `go run ./bench charges`.
func TestT16Charges(t *testing.T) {
	const path = "testdata/charges.tsv"
	var out strings.Builder
	out.WriteString("# What each row is charged in steps, in its three sizes (`go test ./bench/charges -update`). ! means that the call is refused.\n")
	for i := range charges.Rows {
		r := &charges.Rows[i]
		fmt.Fprintf(&out, "%s\t%s", r.Language, r.Name)
		for _, n := range r.Sizes {
			steps, refused, err := r.Charged(n)
			if err != nil {
				t.Errorf("%s %s: %v", r.Language, r.Name, err)
			}
			fmt.Fprintf(&out, "\t%d: %s%s", n, rounded(steps), map[bool]string{true: "!"}[refused])
		}
		out.WriteString("\n")
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, b := strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Fatalf("line %d differs: run `go run ./bench charges`, and then this test with -update if no ratio is above 4\nhave: %s\nwant: %s", i+1, at(b, i), at(a, i))
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// rounded returns two digits of a number, since some inputs are random.
func rounded(n int64) string {
	if n < 100 {
		return fmt.Sprint(n)
	}
	scale := math.Pow(10, math.Floor(math.Log10(float64(n)))-1)
	return fmt.Sprintf("%.0f", math.Round(float64(n)/scale)*scale)
}
