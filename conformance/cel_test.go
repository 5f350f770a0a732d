package conformance

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/cli/offline"
)

// knownDeviation is a deliberate difference from the recordings.
type knownDeviation struct {
	folder string // a pattern of path.Match
	aspect aspect // empty for every aspect
	about  string // a part of the key of the result or object; empty for all
	has    string // a part of the recorded or actual answer; empty for all
	varies bool   // the deviation does not occur in every run
	reason string
}

// controllerNames is the reason of rows about policies for Pods that read other metadata than labels.
const controllerNames = "for controllers of Pods, object.metadata.name stays the name of the controller; Kyverno reads it in the Pod template, which has none"

// knownDeviations are the deliberate differences, each with its reason.
var knownDeviations = []knownDeviation{
	{folder: "refused-*", aspect: aspectEnd, about: "exit code", has: "want 0 \n",
		reason: "a policy with an unknown field, or with a value that a field may not have, is an error; Kyverno's command line drops it without a word"},
	{folder: "cleanup-dpol/*/*", aspect: aspectStatus, has: "want no result",
		reason: "an object that lacks a field which a DeletingPolicy reads has the result error, and the others are evaluated; Kyverno's command line ends without results"},
	{folder: "cel-rules-02", aspect: aspectStatus, about: "p8 |", has: "want no result",
		reason: "the labels of Namespaces among the resources count for namespaceSelector, as in a cluster; Kyverno's command line ignores them"},
	{folder: "cel-delete-12", aspect: aspectStatus, has: "got  no result",
		reason: "a policy whose schedule cannot be read is refused by apply and test, as by admission; Kyverno's command line does not read the schedule"},
	{folder: "cel-*", aspect: aspectStatus, has: "type conversion error from 'null_type' to 'string'",
		reason: "an audit annotation that is null is left out, as the field's description says; in Kyverno it is an error"},
	{folder: "best-practices-vpol/require-labels/require-labels", aspect: aspectMessage, has: "no such key: name", reason: controllerNames},
	{folder: "cel-rules-02", about: "p20 |", reason: controllerNames},
	{folder: "cel-rules-02", about: "p22 |", reason: controllerNames},
	{folder: "cel-rules-11", about: "p10 |", reason: controllerNames},
	{folder: "cel-update-09", about: "p9 |", reason: controllerNames},
	{folder: "cel-update-19", about: "p7 |", reason: controllerNames},
	{folder: "cel-update-19", about: "p19 |", aspect: aspectMessage, reason: controllerNames},
	{folder: "cel-context-22", aspect: aspectMessage, about: "k26 |",
		reason: "resource.get and resource.list also find the given resources, as lookups of classic policies do; Kyverno's command line has only the context file"},
	{folder: "cel-expr-*", has: "interface conversion: *types.Err is not traits.Lister",
		reason: "Kyverno's answer is a panic of its CEL library that was caught"},
	{
		folder: "*-mpol/*/*", aspect: aspectMessage, has: "to typed object: errors:", varies: true,
		reason: "several mistakes against the schema of a kind: the library's list of them is not always the same",
	},
	{
		folder: "cel-except-18", aspect: aspectStatus, about: "p3 | ",
		reason: "an exception whose condition has an error (1 / 0) exempts nothing, and others apply; in Kyverno its error is the result of the policy for all objects",
	},
	{
		folder: "cel-except-18", aspect: aspectStatus, about: "p7 | ",
		reason: "the same, for a missing field",
	},
	{
		folder: "cel-mexpr-*", aspect: aspectObject, has: `"1e+`,
		reason: "a large number is written without a point (1e+10), which is a number in YAML 1.2 and for Kubernetes, and text for the reader of the recordings",
	},
}

func (k knownDeviation) covers(folder string, d deviation) bool {
	ok, _ := path.Match(k.folder, folder)
	return ok && (k.aspect == "" || k.aspect == d.aspect) && strings.Contains(d.about, k.about) && strings.Contains(d.text, k.has)
}

// celParts are the recordings of policies in CEL. unexplained bounds the deviations that no row of knownDeviations explains;
// it may only decrease.
var celParts = []struct {
	name        string
	unexplained int
}{
	{"cel-differential", 0},
	{"cel-semantics", 0},
}

// TestCEL compares with recorded results of Kyverno's command line for the policies of policies.kyverno.io. To run one part,
// name its folder:
//
//	go test -v ./conformance/ -run 'TestCEL/cel-semantics/case/cel-expr'
func TestCEL(t *testing.T) {
	offline.Now = func() time.Time { return recordedAt }
	defer func() { offline.Now = time.Now }()
	dir, ok, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		fmt.Println("conformance of the CEL kinds: NOT RUN")
		return
	}
	used, whole := make([]bool, len(knownDeviations)), 0
	for _, part := range celParts {
		t.Run(part.name, func(t *testing.T) {
			root := filepath.Join(dir, part.name)
			cases, err := find(root, "expected.json")
			if err != nil || len(cases) == 0 {
				t.Fatalf("no expected.json below %s: %v", root, err)
			}
			verdicts := make([]celVerdict, len(cases))
			t.Run("case", func(t *testing.T) {
				for i, c := range cases {
					name, _ := filepath.Rel(root, c)
					name = filepath.ToSlash(name)
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						v, err := runCEL(c)
						if err != nil {
							t.Fatal(err)
						}
						v.name = name
						verdicts[i] = v
					})
				}
			})
			total := newCELTotal(verdicts, used)
			fmt.Print(total.summary(part.name))
			for _, line := range total.lines {
				t.Log(line)
			}
			if total.unexplained > part.unexplained {
				t.Errorf("%d unexplained deviations, at most %d are accepted: correct the behaviour, or explain it in knownDeviations", total.unexplained, part.unexplained)
			}
			if total.folders == len(cases) {
				whole++
			}
		})
	}
	for i, k := range knownDeviations {
		if whole == len(celParts) && !used[i] && !k.varies {
			t.Errorf("no deviation needs this row of knownDeviations any more: folder %q, aspect %q, about %q, has %q: remove it", k.folder, k.aspect, k.about, k.has)
		}
	}
}

// celTotal is the result for all folders of one part.
type celTotal struct {
	folders, run, waiting      int
	results, messages, objects int
	by                         map[aspect]int
	unexplained                int
	lines                      []string
	incomplete                 map[string]int // missing features, with the number of folders that need each
}

func newCELTotal(verdicts []celVerdict, used []bool) celTotal {
	out := celTotal{by: map[aspect]int{}, incomplete: map[string]int{}}
	for _, v := range verdicts {
		if v.name == "" { // not selected
			continue
		}
		out.folders++
		for _, m := range unique(v.missing) {
			out.incomplete[m]++
		}
		if !v.run {
			out.waiting++
			continue
		}
		out.run++
		out.results, out.messages, out.objects = out.results+v.results, out.messages+v.messages, out.objects+v.objects
		shown := 0
		for _, d := range v.deviations {
			out.by[d.aspect]++
			if explained(v.name, d, used) {
				continue
			}
			out.unexplained++
			if shown++; shown <= maxShown {
				out.lines = append(out.lines, v.name+": "+d.String())
			}
		}
		if shown > 0 && v.stderr != "" {
			out.lines = append(out.lines, v.name+": stderr: "+v.stderr[:min(len(v.stderr), 500)])
		}
	}
	return out
}

func explained(folder string, d deviation, used []bool) bool {
	for i, k := range knownDeviations {
		if k.covers(folder, d) {
			used[i] = true
			return true
		}
	}
	return false
}

func (t celTotal) summary(name string) string {
	share := func(wrong, of int) string {
		if of == 0 {
			return "none"
		}
		return fmt.Sprintf("%d of %d differ (%.2f %% agree)", wrong, of, 100*float64(of-wrong)/float64(of))
	}
	s := fmt.Sprintf("%s: %d of %d folders run; statuses: %s; messages: %s; properties: %d differ; objects: %s; ends: %d differ; unexplained: %d\n",
		name, t.run, t.folders, share(t.by[aspectStatus], t.results), share(t.by[aspectMessage], t.messages),
		t.by[aspectProperties], share(t.by[aspectObject], t.objects), t.by[aspectEnd], t.unexplained)
	for m, n := range t.incomplete {
		s += fmt.Sprintf("  %3d folders have results that wait for %s\n", n, m)
	}
	return s
}
