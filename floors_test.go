// Package ephor_test tests the properties of the whole module that no single package can test: which package may import which,
// and which packages stay free of effects (docs/contributing/architecture.md, sections 2 and 6).
package ephor_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "ephor.invalid/ephor"

// floors is the table of docs/contributing/architecture.md, section 2. A package may import packages of lower floors, and on its
// own floor only those named before it. Planned packages are listed too. A name ending in /... stands for all packages below it,
// which may import each other in any order.
var floors = []struct {
	name     string
	packages []string
}{
	{"api: types and manifests", []string{
		"api/...", "config/crds", "config/formats", "charts", "charts/rights",
	}},
	{"0 leaves", []string{
		"internal/bounded", "internal/value", "internal/seal", "internal/names", "internal/mark", "internal/diag", "internal/strict", "internal/budget", "internal/kubeversion", "internal/compilecost", "internal/kinds", "internal/trace", "internal/apipath", "internal/jsonpointer", "internal/world", "internal/world/taped", "internal/wildcard",
		"internal/measure", "internal/settings", "internal/imageref", "internal/manifest", "internal/schedule", "internal/evalenv", "internal/textgen", "internal/certificate", "internal/jmespath",
		"internal/template", "internal/pattern", "internal/condition", "internal/patch", "internal/cel/jwt", "internal/cel/values", "internal/cel/price", "internal/cel/env", "internal/cel/typecheck", "internal/cel/reads", "internal/cel/run", "internal/cel/compiler",
	}},
	{"1 waist", []string{
		"internal/policy", "internal/family",
	}},
	{"2 language", []string{
		"internal/scope", "internal/index", "internal/match", "internal/constraint", "internal/loader", "internal/autogen", "internal/pss", "internal/workload", "internal/exempt", "internal/exception", "internal/globalentry", "internal/celrule", "internal/imageverify", "internal/rule",
		"internal/family/classic", "internal/family/cleanup", "internal/family/celpolicy", "internal/family/validating", "internal/family/mutating", "internal/family/generating", "internal/family/imagevalidating", "internal/family/deleting", "internal/family/native",
		"internal/convert",
	}},
	{"3 run", []string{
		"internal/compile", "internal/engine",
	}},
	{"4 effects", []string{
		"internal/lock", "internal/fetch", "internal/controller", "internal/discovery", "internal/coverage", "internal/registry", "internal/policyartifact", "internal/source", "internal/clivalues", "internal/apicall", "internal/sigverify/trust", "internal/sigverify", "internal/sigverify/keys", "internal/sigverify/notary", "internal/sigcache", "internal/globalctx",
		"internal/world/live", "internal/world/fixed", "internal/schema", "internal/lint", "internal/ring", "internal/keystore", "internal/secretpath", "internal/http1", "internal/lifecycle/firstgc", "internal/lifecycle", "internal/share",
	}},
	{"5 state", []string{
		"internal/catalog",
	}},
	{"6 outputs", []string{
		"internal/report", "internal/decision", "internal/decision/store", "internal/compliance", "internal/rollout", "internal/event", "internal/observe", "internal/ephemeral",
	}},
	{"7 servers", []string{
		"internal/intake", "internal/status", "internal/webhookconf", "internal/unlock", "internal/failopen", "internal/certs", "internal/vapgen", "internal/policyreview", "internal/admission",
		"internal/scan", "internal/reports", "internal/updaterequest", "internal/updaterequest/enqueue", "internal/updaterequest/origin", "internal/updaterequest/execute", "internal/updaterequest/follow", "internal/cleanup", "internal/ttl", "internal/preflight", "internal/leftover", "internal/impact", "internal/cluster",
	}},
	{"8 products", []string{
		"internal/dashboard", "internal/flagset", "internal/telemetry", "internal/control/globals", "internal/lookups", "internal/control/serving", "internal/control/webhooks", "internal/control/native", "internal/control/status", "internal/control/config", "internal/control/events",
		"internal/control/reports", "internal/control/scan", "internal/control/work", "internal/control/generated", "internal/control/cleanup", "internal/control/decisions", "internal/control/dashboard", "internal/app", "internal/cli/terminal", "internal/cli/sarif", "internal/cli/remote", "internal/cli/load", "internal/cli/offline",
		"internal/cli/apply", "internal/cli/testrun", "internal/cli/explain", "internal/cli/impact", "internal/cli/convert", "internal/cli/oci", "internal/cli/findings", "internal/cli/jp", "internal/cli/reports", "internal/cli/decisions", "internal/cli/operate", "internal/cli/manifests", "internal/cli/verify", "internal/cli",
	}},
	{"beside: the program, and what tests and measures it", []string{
		"cmd/ephor", "internal/devcluster", "internal/simulation/...", "internal/golden", "internal/discovery/discoverytest", "internal/webhookconf/webhooktest", "internal/family/familytest", "internal/sigverify/fixture", "bench/load", "hack/...", "bench/...", "conformance/...", "e2e/...", "examples/...", "robustness/...", "soak/...", "corpus/...",
	}},
}

// lastPureFloor is the last floor without effects: decisions of a policy depend only on its inputs.
const lastPureFloor = "3 run"

// effects are imports that a pure package must not have. A path stands for itself and everything below it.
var effects = []string{
	"net/http", "os", "log", "syscall",
	"k8s.io/client-go", "k8s.io/klog", "sigs.k8s.io/controller-runtime",
	"github.com/prometheus", "go.opentelemetry.io", "github.com/go-logr", "go.uber.org/zap",
}

// clock are the functions of package time that read the clock or wait.
var clock = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker",
}

// noJSON are packages that must not import encoding/json: objects are decoded once, before they get there.
var noJSON = []string{
	"internal/rule", "internal/match", "internal/engine", "internal/condition",
}

// classicLanguage are the packages of the language whose expressions are JMESPath, and otherLanguages those that must not use it:
// the waist, and the languages in CEL.
var (
	classicLanguage = []string{"internal/jmespath", "internal/template", "internal/pattern", "internal/condition", "internal/scope", "internal/loader", "internal/rule"}
	otherLanguages  = []string{
		"internal/policy", "internal/evalenv", "internal/cel/values", "internal/cel/price", "internal/cel/env", "internal/cel/typecheck", "internal/cel/reads", "internal/cel/run", "internal/cel/compiler", "internal/celrule", "internal/constraint", "internal/imageverify",
		"internal/family/celpolicy", "internal/family/validating", "internal/family/native",
	}
)

// unit is the subject of the rules: one package without its tests.
type unit struct {
	imports map[string]string // import path → the file that contains it
	clock   []string          // places that read the clock, as file:line: time.Now
}

func TestFloors(t *testing.T) {
	units := readModule(t, ".")
	if len(units) < 10 {
		t.Fatalf("only %d packages were found: is this the root of the module?", len(units))
	}
	for _, mistake := range evaluate(units) {
		t.Error(mistake)
	}
}

// evaluate checks units against all rules in this file and returns the violations as sentences.
func evaluate(units map[string]*unit) []string {
	var mistakes []string
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(units)) {
		u := units[name]
		at, known := find(name)
		if !known {
			wrong("package %s is on no floor: put it into the table of floors_test.go, where what it may import is "+
				"above or before it, and into docs/contributing/architecture.md, section 2", name)
			continue
		}
		for _, imported := range slices.Sorted(maps.Keys(u.imports)) {
			file := u.imports[imported]
			if isBelow(imported, "github.com/kyverno/kyverno") {
				wrong("%s imports %s: Ephor is written from the documented behaviour alone", file, imported)
			}
			if imported == "encoding/json" && slices.Contains(noJSON, name) {
				wrong("%s imports encoding/json: %s works on decoded values; decode in internal/value, at compile "+
					"time or when the request comes in", file, name)
			}
			own, ok := strings.CutPrefix(imported, module+"/")
			if !ok {
				continue
			}
			if slices.Contains(classicLanguage, own) && slices.Contains(otherLanguages, name) {
				wrong("%s imports %s: %s knows no expression of the classic language; take a policy.Call", file, own, name)
			}
			to, known := find(own)
			if !known {
				continue // reported for the package itself
			}
			if to.floor > at.floor || to.floor == at.floor && to.index >= at.index && !at.sameWildcard(to) {
				wrong("%s: %s (floor %s) imports %s (floor %s): only lower floors may be imported, and on the own "+
					"floor the packages named before; move the code to the package that owns it, or take what you "+
					"need as an interface", file, name, floors[at.floor].name, own, floors[to.floor].name)
			}
		}
		if at.floor <= pureFloor() {
			for _, mistake := range impurities(units, name) {
				wrong("%s", mistake)
			}
		}
	}
	return mistakes
}

// impurities names each effect in a package and in those of our packages that it reaches.
func impurities(units map[string]*unit, start string) []string {
	var mistakes []string
	via := map[string]string{start: start}
	queue := []string{start}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		u := units[name]
		for _, imported := range slices.Sorted(maps.Keys(u.imports)) {
			for _, effect := range effects {
				if isBelow(imported, effect) {
					mistakes = append(mistakes, fmt.Sprintf("%s imports %s (%s): floors 0 to 3 have no effects; take the "+
						"effect as an interface of internal/world, or move it to floor 4", via[name], imported, u.imports[imported]))
				}
			}
			own, ok := strings.CutPrefix(imported, module+"/")
			if !ok || units[own] == nil || via[own] != "" {
				continue
			}
			via[own] = via[name] + " → " + own
			queue = append(queue, own)
		}
		for _, position := range u.clock {
			mistakes = append(mistakes, fmt.Sprintf("%s reads the clock (%s): floors 0 to 3 take it from world.Clock", via[name], position))
		}
	}
	return mistakes
}

// position is the position of a package in the table.
type position struct {
	floor, index int
	wildcard     bool
}

// sameWildcard reports whether both packages belong to one entry with /..., whose packages may import each other.
func (p position) sameWildcard(q position) bool { return p.wildcard && p == q }

func find(name string) (position, bool) {
	for f, floor := range floors {
		for i, entry := range floor.packages {
			tree, isTree := strings.CutSuffix(entry, "/...")
			if entry == name || isTree && isBelow(name, tree) {
				return position{floor: f, index: i, wildcard: isTree}, true
			}
		}
	}
	return position{}, false
}

func pureFloor() int {
	for f, floor := range floors {
		if floor.name == lastPureFloor {
			return f
		}
	}
	panic("floors_test.go: there is no floor " + lastPureFloor)
}

func isBelow(name, tree string) bool { return name == tree || strings.HasPrefix(name, tree+"/") }

// readModule reads the packages of the module at root. It only parses, so that it also covers code that does not compile yet, or
// only on other systems. It omits tests, nested modules and testdata.
func readModule(t *testing.T, root string) map[string]*unit {
	t.Helper()
	units := map[string]*unit{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if file == root {
				return nil
			}
			if name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		dir := path.Dir(relative)
		if units[dir] == nil {
			units[dir] = &unit{imports: map[string]string{}}
		}
		return units[dir].add(relative, source)
	})
	if err != nil {
		t.Fatal(err)
	}
	return units
}

// add reads one file into the unit.
func (u *unit) add(name string, source []byte) error {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	timeName := ""
	for _, spec := range parsed.Imports {
		imported := strings.Trim(spec.Path.Value, "`\"")
		u.imports[imported] = name
		if imported == "time" {
			timeName = "time"
			if spec.Name != nil {
				timeName = spec.Name.Name
			}
		}
	}
	if timeName == "" {
		return nil
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && x.Name == timeName && slices.Contains(clock, selector.Sel.Name) {
			u.clock = append(u.clock, fmt.Sprintf("%s:%d: time.%s", name, files.Position(selector.Pos()).Line, selector.Sel.Name))
		}
		return true
	})
	return nil
}

// TestFloorsCanFail applies the rules to small modules: for each rule one that violates it, and one that violates none.
func TestFloorsCanFail(t *testing.T) {
	cases := []struct {
		name  string
		files map[string]string // path → source
		want  string            // part of the only mistake; empty for none
	}{
		{"a clean module", map[string]string{
			"internal/value/a.go":   `package value; import "time"; var d time.Duration`,
			"internal/policy/a.go":  `package policy; import _ "ephor.invalid/ephor/internal/value"`,
			"internal/source/a.go":  `package source; import (_ "os"; "time"); var n = time.Now()`,
			"api/kyverno/v2/a.go":   `package v2; import _ "ephor.invalid/ephor/api/kyverno/v1"`,
			"api/kyverno/v1/a.go":   `package v1`,
			"internal/cli/cmd_a.go": `package cli; import _ "ephor.invalid/ephor/internal/source"`,
		}, ""},
		{"a package on no floor", map[string]string{
			"internal/helpers/a.go": `package helpers`,
		}, "package internal/helpers is on no floor"},
		{"a higher floor", map[string]string{
			"internal/value/a.go":  `package value; import _ "ephor.invalid/ephor/internal/policy"`,
			"internal/policy/a.go": `package policy`,
		}, "internal/value/a.go: internal/value (floor 0 leaves) imports internal/policy"},
		{"the own floor, named later", map[string]string{
			"internal/jmespath/a.go":  `package jmespath; import _ "ephor.invalid/ephor/internal/condition"`,
			"internal/condition/a.go": `package condition`,
		}, "internal/jmespath (floor 0 leaves) imports internal/condition"},
		{"api imports ours", map[string]string{
			"api/kyverno/v1/a.go": `package v1; import _ "ephor.invalid/ephor/internal/value"`,
			"internal/value/a.go": `package value`,
		}, "api/kyverno/v1 (floor api"},
		{"an effect", map[string]string{
			"internal/engine/a.go": `package engine; import _ "k8s.io/client-go/kubernetes"`,
		}, "internal/engine imports k8s.io/client-go/kubernetes"},
		{"the clock, under another name", map[string]string{
			"internal/engine/a.go": "package engine\nimport clock \"time\"\nvar n = clock.Now()",
		}, "internal/engine reads the clock (internal/engine/a.go:3: time.Now)"},
		{"decoding in a rule", map[string]string{
			"internal/rule/a.go": `package rule; import _ "encoding/json"`,
		}, "internal/rule/a.go imports encoding/json"},
		{"the classic language in the waist", map[string]string{
			"internal/policy/a.go":   `package policy; import _ "` + module + `/internal/jmespath"`,
			"internal/jmespath/a.go": `package jmespath`,
		}, "internal/policy/a.go imports internal/jmespath: internal/policy knows no expression"},
		{"the engine of another project", map[string]string{
			"internal/cli/a.go": `package cli; import _ "github.com/kyverno/kyverno/api/kyverno/v1"`,
		}, "imports github.com/kyverno/kyverno"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			mistakes := evaluate(parse(t, c.files))
			switch {
			case c.want == "" && len(mistakes) > 0:
				t.Errorf("found %q, want nothing", mistakes)
			case c.want != "" && (len(mistakes) != 1 || !strings.Contains(mistakes[0], c.want)):
				t.Errorf("found %q, want one mistake with %q", mistakes, c.want)
			}
		})
	}
	t.Run("an effect through another of our packages", func(t *testing.T) {
		units := parse(t, map[string]string{
			"internal/engine/a.go": `package engine; import _ "ephor.invalid/ephor/internal/value"`,
			"internal/value/a.go":  `package value; import _ "os/exec"`,
		})
		mistakes := strings.Join(evaluate(units), "\n")
		if !strings.Contains(mistakes, "internal/engine → internal/value imports os/exec") {
			t.Errorf("found %s", mistakes)
		}
	})
}

func parse(t *testing.T, files map[string]string) map[string]*unit {
	t.Helper()
	units := map[string]*unit{}
	for name, source := range files {
		dir := path.Dir(name)
		if units[dir] == nil {
			units[dir] = &unit{imports: map[string]string{}}
		}
		if err := units[dir].add(name, []byte(source)); err != nil {
			t.Fatal(err)
		}
	}
	return units
}
