// Command matrix runs tests on control planes of several versions of Kubernetes, and writes the table of docs/operating/versions.md.
//
//	make matrix VERSIONS="1.36 1.37"              # all rows for these versions
//	make matrix VERSIONS=1.35 ROWS="cel webhooks" # some rows
//	go run ./hack/matrix -table                   # only write the table again
//
// results.tsv beside it keeps the last result of each row and version. The control planes are built once, into bin/kubernetes-⟨version⟩, each
// from its file in devcluster/versions.
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/devcluster"
)

// row is a row of the table: a test command for each version.
type row struct {
	name, text string
	command    func(version string) command
	gates      string // feature gates of the control plane
}

// command runs tests for a version. part says which part of the tests exists there, if not all of them do.
type command struct {
	args []string
	part string
}

var rows = []row{
	{name: "quickstart", text: "quick start, as the guide has it", command: goTest("quickstart", "TestQuickStart")},
	{name: "chart", text: "chart: install and upgrade with Helm", command: goTest("chart", "TestRelease")},
	{name: "classic", text: "classic policies: 36 tests of the public suite", command: sampled("Classic")},
	{name: "policies-cel", text: "policies in CEL: 24 tests of the public suite", command: sampled("CEL")},
	{name: "podsecurity", text: "Pod Security against the API server's own", command: goTest("versions", "TestPodSecurity")},
	{name: "cel", text: "CEL expressions against the API server's own", command: goTest("versions", "TestCEL")},
	{name: "static", text: "policies in files of the API server", command: goTest("versions", "TestStaticFiles")},
	{name: "webhooks", text: "webhook configurations of random policies are accepted", command: goTest("webhooks", "TestT17RandomPolicies|TestT17StoredPolicy")},
	{name: "webhooks-alpha", text: "the same with all alpha and beta features", command: goTest("webhooks", "TestT17RandomPolicies|TestT17StoredPolicy"), gates: "AllAlpha=true,AllBeta=true"},
	{name: "webhooks-stable", text: "the same without beta features", command: goTest("webhooks", "TestT17RandomPolicies|TestT17StoredPolicy"), gates: "AllBeta=false"},
	{name: "switch", text: "switch from Kyverno, without a gap", command: goTest("comingover", "TestRolling|TestStopped")},
}

// The upgrade has versions of its own: it runs once.
var upgrade = row{name: "upgrade", text: "an upgrade from 1.36, with API servers of both versions", command: goTest("versions", "TestUpgrade")}

//go:embed sample.txt
var sample string

func goTest(folder, run string) func(string) command {
	args := []string{"go", "test", "-vet=off", "-ldflags=-s -w", "-count=1", "-v", "-timeout=40m", "-run=^(" + run + ")$", "./e2e/" + folder + "/"}
	return func(string) command { return command{args: args} }
}

// sampled returns the command for the tests of a part of the sample.
func sampled(part string) func(string) command {
	return func(version string) command {
		dirs, all := tests(part, version)
		c := command{args: []string{"go", "run", "./hack/conformance", "-out=build/matrix", "-chainsaw=--exec-timeout=60s", "-dirs=" + strings.Join(dirs, " ")}}
		if len(dirs) < all {
			c.part = fmt.Sprintf(", %d of %d", len(dirs), all)
		}
		return c
	}
}

// tests returns the tests of a part of the sample that the version can run, and the number of all tests of the part. All versions have two digits.
func tests(part, version string) (dirs []string, all int) {
	of := ""
	for line := range strings.Lines(sample) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "# "); ok {
			of = title
			continue
		}
		test, since, _ := strings.Cut(line, " since ")
		if test == "" || of != part {
			continue
		}
		if all++; version >= since {
			dirs = append(dirs, test)
		}
	}
	return dirs, all
}

func main() {
	versions := flag.String("versions", "", "minor versions of Kubernetes, separated by blanks")
	only := flag.String("rows", "", "names of rows, separated by blanks; all if empty")
	table := flag.Bool("table", false, "write the table again, without running anything")
	flag.Parse()
	if err := run(strings.Fields(*versions), strings.Fields(*only), *table); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(versions, only []string, table bool) error {
	root, err := devcluster.Root()
	if err != nil {
		return err
	}
	known := devcluster.Versions(root)
	all := append(slices.Clone(rows), upgrade)
	for _, name := range only {
		if !slices.ContainsFunc(all, func(r row) bool { return r.name == name }) {
			return fmt.Errorf("there is no row %q", name)
		}
	}
	results, err := read(filepath.Join(root, resultsFile))
	if err != nil {
		return err
	}
	failed := 0
	for _, v := range versions {
		if !slices.Contains(known, v) {
			return fmt.Errorf("there is no control plane of Kubernetes %s; there are %s", v, strings.Join(known, ", "))
		}
		for _, r := range all {
			if len(only) > 0 && !slices.Contains(only, r.name) || r.name == upgrade.name && v != newest(known) {
				continue
			}
			res := r.try(root, v)
			fmt.Printf("%s %s: %s (%s)\n", v, r.name, res.outcome, res.took)
			if res.outcome == failure {
				failed++
			}
			if results, err = read(filepath.Join(root, resultsFile)); err != nil { // another run may have written meanwhile
				return err
			}
			results.put(res)
			if err := results.write(filepath.Join(root, resultsFile)); err != nil { // an interrupted run keeps what it found
				return err
			}
		}
	}
	if len(versions) == 0 && !table {
		return fmt.Errorf("name versions: VERSIONS=%q", strings.Join(known, " "))
	}
	if err := writeTable(filepath.Join(root, page), results); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d rows failed; their output is in build/matrix", failed)
	}
	return nil
}

func newest(versions []string) string { return versions[len(versions)-1] }

// try runs a row for a version. Its output goes to build/matrix.
func (r row) try(root, version string) result {
	res := result{version: version, row: r.name, day: time.Now().UTC().Format(time.DateOnly), outcome: failure}
	dir := filepath.Join(root, "build", "matrix")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		return res
	}
	log, err := os.Create(filepath.Join(dir, version+"-"+r.name+".log"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		return res
	}
	defer log.Close()
	var out bytes.Buffer
	c := r.command(version)
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), devcluster.VersionEnv+"="+version, devcluster.GatesEnv+"="+r.gates, "EPHOR_MATRIX=1")
	cmd.Stdout = io.MultiWriter(log, &out)
	cmd.Stderr = cmd.Stdout
	began := time.Now()
	err = cmd.Run()
	res.took = time.Since(began).Round(time.Second)
	switch {
	case err != nil:
	case strings.Contains(out.String(), "--- SKIP: ") && !strings.Contains(out.String(), "--- PASS: "):
		res.outcome = absent
	default:
		res.outcome = success + c.part
	}
	return res
}
