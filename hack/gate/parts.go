package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/devcluster"
)

// part is a row of the gate.
type part struct {
	name string
	run  func(*gate) error
}

// The programs that tests run are built before the lanes begin.
var programs = []part{
	{"the programs that tests run", func(g *gate) error {
		if err := sh("make build", "hack/helm.sh")(g); err != nil {
			return err
		}
		_, err := devcluster.Build(context.Background(), &lines{g: g})
		return err
	}},
}

// The busy lane uses the processors. It runs beside the waiting lane, whose tests mostly wait for a control plane, and yields to it.
var busy = []part{
	{"lint", sh("hack/lint.sh")},
	{"generated files are up to date", sh("hack/verify-generated.sh")},
	{"floors: imports against the architecture", test(suite{})},
	{"unit tests with goroutines, with -race where there is a C compiler", test(suite{
		packages: unitsWith(true), race: true, flags: []string{"-timeout=15m", "-skip=" + anyOf(long)},
	})},
}

// The parts after those: the lane that has ended takes the next one.
var rest = []part{
	{"unit tests without goroutines", test(suite{packages: unitsWith(false), flags: []string{"-timeout=15m", "-skip=" + anyOf(long)}})},
	{"apply and test, which evaluate side by side, with -race where there is a C compiler", test(suite{
		packages: fixed("./internal/cli/"), race: true, flags: []string{"-run=TestScripts/cmd_(apply|test)"},
	})},
	// These evaluate one case after the other, with code whose concurrency the unit tests race.
	{"tests of data and of tools", test(suite{packages: func(*gate) ([]string, error) { return list(dataAndTools...) }, flags: []string{"-timeout=15m"}})},
	{"the chart: lint, schema, what each switch changes", test(suite{packages: fixed("./charts/"), flags: []string{"-count=1", "-timeout=20m"}})},
	{"the files of a release", test(suite{module: "hack/tools/release", flags: []string{"-count=1"}})},
	{"the site of the guide", test(suite{module: "hack/tools/site", flags: []string{"-count=1"}})},
	// These measure time and memory, which the race detector multiplies.
	{"the controllers under seeded actions and faults", test(suite{packages: fixed("./internal/simulation/..."), flags: []string{"-count=1", "-timeout=15m"}})},
	{"limits on any input", test(suite{packages: fixed("./robustness/"), flags: []string{"-count=1", "-timeout=15m"}})},
	{"long tests of one goroutine", test(suite{packages: fixed(packagesOf(long)...), flags: []string{"-count=1", "-timeout=15m", "-run=" + anyOf(long)}})},
	{"allocations", test(suite{packages: fixed("./internal/seal/", "./internal/secretpath/"), flags: []string{"-count=1", "-run=TestAllocations"}})},
	{"conformance data", func(g *gate) error {
		if os.Getenv("EPHOR_CONFORMANCE") == "none" {
			return nil
		}
		return test(suite{packages: fixed("./conformance/"), flags: []string{"-count=1", "-run=TestConformance|TestCEL$"}, print: true})(g)
	}},
}

// long are tests that evaluate one case after the other, some with limits on time and memory, or fill a store. The race detector makes minutes
// of them and finds nothing that the shorter tests of their packages do not show, so they run without it.
var long = []testName{
	{"./internal/cel/compiler", "TestBombs"},
	{"./internal/cel/compiler", "TestRecordedValues"},
	{"./internal/certs", "TestRotationNeverBreaksAConnection"},
	{"./internal/cli/convert", "TestCompareEffects"},
	{"./internal/compile", "TestRecordedResults"},
	{"./internal/compile", "TestT15BombsAreRecognized"},
	{"./internal/compile", "TestT15HonestPolicies"},
	{"./internal/compilecost", "TestEstimates"},
	{"./internal/compilecost", "TestT16FindAll"},
	{"./internal/decision/store", "TestBoundsOfFiles"},
	{"./internal/decision/store", "TestKilledWriter"},
	{"./internal/decision/store", "TestLongRecords"},
	{"./internal/decision/store", "TestRequestBounds"},
	{"./internal/decision/store", "TestRoomOfRequests"},
	{"./internal/decision/store", "TestSearchesWithoutTime"},
	{"./internal/decision/store", "TestStores"},
	{"./internal/family/native", "TestBombs"},
	{"./internal/impact", "TestAnswersAreThoseOfAReplica"},
	{"./internal/impact", "TestTapedAnswersAreThoseOfAReplica"},
	{"./internal/pattern", "TestRecordedResults"},
	{"./internal/preflight", "TestExecutedPolicies"},
	{"./internal/preflight", "TestUnreadableKinds"},
	{"./internal/pss", "TestBombs"},
	{"./internal/pss", "TestS20"},
	{"./internal/webhookconf", "TestDerivedConditionsAreSound"},
	{"./internal/webhookconf", "TestT4NamespacesDoNotMeet"},
	{"./internal/webhookconf", "TestT4VersionsDoNotMeet"},
}

// anyOf returns the pattern of the tests for -run and -skip; packagesOf returns their packages.
func anyOf(tests []testName) string {
	var names []string
	for _, t := range tests {
		names = append(names, t.test)
	}
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$"
}

func packagesOf(tests []testName) (out []string) {
	for _, t := range tests {
		out = append(out, t.pkg)
	}
	return slices.Compact(out)
}

// The waiting lane runs packages side by side, the longest first. They share control planes, one for each of them at a time.
var waiting = []part{
	{"end-to-end tests on real API servers, and in Chromium", func(g *gate) error {
		stop, err := devcluster.Share(context.Background(), sideBySide, func(dir string) ([]string, error) {
			_, flags, err := load.NewAudit(dir, "kyverno")
			return flags, err
		})
		if err != nil {
			return err
		}
		defer stop()
		return test(suite{packages: clusters, flags: []string{"-count=1", "-timeout=45m", fmt.Sprintf("-p=%d", sideBySide)}})(g)
	}},
}

// sideBySide is the number of packages with control planes that run at the same time.
const sideBySide = 5

// quick are the parts of `make check`.
var quick = []part{
	{"lint of what changed", func(g *gate) error {
		packages, err := changed(g)
		if err != nil || len(packages) == 0 {
			return err
		}
		return g.command(nil, append([]string{"hack/lint.sh"}, packages...)...).Run()
	}},
	{"floors: imports against the architecture", test(suite{})},
	{"unit tests of what changed", func(g *gate) error {
		packages, err := changed(g)
		packages = slices.DeleteFunc(packages, func(p string) bool { return !isUnit(p) })
		if err != nil || len(packages) == 0 {
			return err
		}
		known, err := readTimes()
		if err != nil {
			return err
		}
		var quick []string
		for _, p := range packages {
			slow := slowIn(known, p)
			if len(slow) == 0 {
				quick = append(quick, p)
				continue
			}
			for _, name := range slow {
				g.notRun = append(g.notRun, p+" "+name+fmt.Sprintf(": NOT RUN (make check leaves out tests of more than %d s)", patience))
			}
			err = errors.Join(err, test(suite{packages: fixed(p), flags: []string{"-skip=^(" + strings.Join(slow, "|") + ")$"}})(g))
		}
		if len(quick) > 0 {
			err = errors.Join(err, test(suite{packages: fixed(quick...)})(g))
		}
		return err
	}},
}

// patience is the number of seconds above which make check leaves out a test.
const patience = 10

// slowIn returns the tests of a package that take longer than patience.
func slowIn(known map[string]float64, pkg string) (out []string) {
	for name, took := range known {
		if of, test, ok := strings.Cut(name, " "); ok && of == pkg && took > patience {
			out = append(out, test)
		}
	}
	slices.Sort(out)
	return out
}

// notUnits are the folders whose tests are parts of their own, or run by hand.
var notUnits = []string{"e2e", "soak", "conformance", "robustness", "internal/devcluster", "internal/simulation", "charts"}

func isUnit(pkg string) bool {
	return !slices.ContainsFunc(notUnits, func(dir string) bool {
		return pkg == "./"+dir || strings.HasPrefix(pkg, "./"+dir+"/")
	})
}

// dataAndTools are the packages of the part of that name.
var dataAndTools = []string{"./bench/...", "./corpus/...", "./examples/...", "./hack/...", "./internal/cli"}

// units returns the packages with unit tests.
func units(*gate) ([]string, error) {
	all, err := list("./...")
	if err != nil {
		return nil, err
	}
	data, err := list(dataAndTools...)
	// The floors of the root are a part of their own.
	return slices.DeleteFunc(all, func(p string) bool { return p == "." || !isUnit(p) || slices.Contains(data, p) }), err
}

// unitsWith returns those of them whose tests start goroutines, or those whose tests start none.
func unitsWith(goroutines bool) func(*gate) ([]string, error) {
	return func(g *gate) ([]string, error) {
		all, err := units(g)
		if err != nil {
			return nil, err
		}
		with, err := racing(all)
		return slices.DeleteFunc(all, func(p string) bool { return slices.Contains(with, p) != goroutines }), err
	}
}

// clusters returns the packages that start a control plane.
func clusters(*gate) ([]string, error) {
	var patterns []string
	for _, folder := range strings.Fields(os.Getenv("EPHOR_E2E")) {
		patterns = append(patterns, "./e2e/"+folder+"/...")
	}
	if patterns == nil {
		patterns = []string{"./e2e/...", "./internal/devcluster"}
	}
	all, err := list(patterns...)
	if err != nil {
		return nil, err
	}
	known, err := readTimes()
	slices.SortStableFunc(all, func(a, b string) int { return int(known[b] - known[a]) })
	return all, err
}

func fixed(packages ...string) func(*gate) ([]string, error) {
	return func(*gate) ([]string, error) { return packages, nil }
}

// list returns packages of the main module, as "./folder".
func list(patterns ...string) ([]string, error) {
	out, err := exec.Command("go", append([]string{"list", "-f", "{{.Dir}}"}, patterns...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var packages []string
	for dir := range strings.Lines(string(out)) {
		rel, err := filepath.Rel(root, strings.TrimSpace(dir))
		if err != nil {
			return nil, err
		}
		if rel != "." {
			rel = "./" + filepath.ToSlash(rel)
		}
		packages = append(packages, rel)
	}
	return packages, nil
}

// changed returns the packages that have a file which differs from the branch main, or from its last commit when main is checked out.
func changed(*gate) ([]string, error) {
	base, err := exec.Command("git", "merge-base", "HEAD", "main").Output()
	if err != nil {
		return nil, errors.New("git knows no branch main to compare with")
	}
	diff, err := exec.Command("git", "diff", "--name-only", "--relative", strings.TrimSpace(string(base))).Output()
	if err != nil {
		return nil, err
	}
	untracked, err := exec.Command("git", "ls-files", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, err
	}
	all, err := list("./...")
	if err != nil {
		return nil, err
	}
	var packages []string
	for name := range strings.Lines(string(diff) + string(untracked)) {
		// A file below testdata belongs to the package above.
		dir, _, _ := strings.Cut(filepath.ToSlash(filepath.Dir(strings.TrimSpace(name))), "/testdata")
		if pkg := "./" + dir; dir != "." && slices.Contains(all, pkg) && !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	return packages, nil
}

// look finds the data and tools, and fails for one that is required.
func (g *gate) look() error {
	ci := os.Getenv("CI") == "true"
	// missing leaves something out; with CI=true it is an error.
	missing := func(what, why, help string) error {
		if ci {
			return fmt.Errorf("%s: %s", why, help)
		}
		fmt.Printf("make test: %s: %s\n", why, help)
		g.notRun = append(g.notRun, what+": NOT RUN ("+why+")")
		return nil
	}
	for _, d := range []struct{ env, folder string }{{"EPHOR_CONFORMANCE", "conformance"}, {"EPHOR_REFERENCE", "reference"}} {
		if os.Getenv("EPHOR_CONFORMANCE") == "none" {
			continue
		}
		dir, named := os.LookupEnv(d.env)
		if !named {
			dir = filepath.Join("..", "shared", d.folder)
		}
		info, err := os.Stat(dir)
		switch {
		case err == nil && info.IsDir():
			if dir, err = filepath.Abs(dir); err != nil {
				return err
			}
			os.Setenv(d.env, dir)
		case named: // with and without CI
			return fmt.Errorf("there is no folder %s: set %s to the folder of the data, or EPHOR_CONFORMANCE=none to run without", dir, d.env)
		default:
			if err := missing("conformance", "there is no folder "+dir, "set EPHOR_CONFORMANCE and EPHOR_REFERENCE to the folders of the data, or EPHOR_CONFORMANCE=none to run without"); err != nil {
				return err
			}
			os.Setenv("EPHOR_CONFORMANCE", "none")
		}
	}
	if os.Getenv("EPHOR_CONFORMANCE") == "none" {
		g.notRun = append(g.notRun, "conformance data, and the switch from Kyverno with its recorded objects: NOT RUN (EPHOR_CONFORMANCE=none)")
	}
	if os.Getenv("EPHOR_UI") == "none" {
		g.notRun = append(g.notRun, "the dashboard and the guide in a browser: NOT RUN (EPHOR_UI=none)")
		os.Unsetenv("EPHOR_UI")
	} else {
		os.Setenv("EPHOR_UI", "chromium")
		for _, tool := range []string{"chromium", "chromedriver"} {
			if !has(tool) {
				if err := missing("the dashboard and the guide in a browser", "there is no "+tool, "install Debian's packages chromium and chromium-driver, or set EPHOR_UI=none to run without a browser"); err != nil {
					return err
				}
				os.Unsetenv("EPHOR_UI")
			}
		}
	}
	// The tests that call jq skip themselves without it.
	if !has("jq") {
		if err := missing("the commands of the guides that use jq", "there is no jq", "install Debian's package jq"); err != nil {
			return err
		}
	}
	// Without these a test skips itself, in CI too.
	compiler := "cc"
	if cc := os.Getenv("CC"); cc != "" {
		compiler = cc
	}
	g.race = has(compiler)
	postgres, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return err
	}
	for _, t := range []struct {
		here      bool
		what, why string
	}{
		{g.race, "the race detector", "there is no C compiler"},
		{len(postgres) > 0, "the store of decisions in PostgreSQL", "there is no Debian package postgresql"},
		{has("ruby"), "the Homebrew formula", "there is no ruby"},
		{has("curl") || has("wget"), "install.sh and the action", "there is no curl and no wget"},
		{has("dpkg"), "the Debian package in a bare root", "there is no dpkg"},
		{os.Getuid() == 0 || exec.Command("unshare", "--user", "--map-root-user", "true").Run() == nil, "the Debian package in a bare root", "user namespaces are not permitted"},
	} {
		if !t.here {
			g.notRun = append(g.notRun, t.what+": NOT RUN ("+t.why+")")
		}
	}
	if folders := os.Getenv("EPHOR_E2E"); folders != "" {
		g.notRun = append(g.notRun, "end-to-end tests outside of "+folders+": NOT RUN (EPHOR_E2E)")
	}
	return nil
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
