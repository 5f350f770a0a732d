package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/source"
)

// namedDifferences are the rules whose conversion gives other results for some requests, with the note that says so.
var namedDifferences = map[string]string{
	// The classic patch writes a number as a text where there is a text.
	"ClusterPolicy advertise-node-extended-resources, rule advertise-dongle": "",
	"ClusterPolicy add-capabilities, rule add-setfcap-setuid":                "elementIndex counts the elements of several lists",
}

// unproved are the rules about which the proof says that it proved nothing: it makes no objects of these kinds.
var unproved = []string{}

// minConverted is the share of the rules that are converted, in percent. It may only grow.
const minConverted = 94

// TestConformancePolicies runs lint, apply and convert --prove over every policy of the data and of the examples: none of them may crash, print
// something invalid, or give a difference that no note names. It logs the share of the rules that are converted.
func TestConformancePolicies(t *testing.T) {
	data, ok, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Skip("the conformance data are switched off")
	}
	var files []string
	for _, root := range []string{filepath.Join(data, "policies"), "../examples"} {
		found, err := policyFiles(root)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 500 {
		t.Fatalf("only %d files with policies", len(files))
	}
	resources := filepath.Join(t.TempDir(), "resources.yaml")
	if err := os.WriteFile(resources, []byte(commonResources), 0o600); err != nil {
		t.Fatal(err)
	}
	var sum share
	var running sync.WaitGroup
	queue := make(chan string)
	for range 2 {
		running.Add(1)
		go func() {
			defer running.Done()
			for file := range queue {
				name := strings.TrimPrefix(file, data+"/")
				for _, args := range [][]string{{"lint", file}, {"apply", file, "--resource", resources}} {
					if _, stderr, code := command(args...); code > 1 || crashed(stderr) {
						t.Errorf("%s %s ends with %d:\n%s", args[0], name, code, stderr)
					}
				}
				if isClassic(file) {
					converted(t, name, file, &sum)
				}
			}
		}()
	}
	for _, file := range files {
		queue <- file
	}
	close(queue)
	running.Wait()
	percent := 100 * sum.converted / max(1, sum.rules)
	t.Logf("%d files with policies; %d of %d rules converted (%d %%), %d of them proved", len(files), sum.converted, sum.rules, percent, sum.proved)
	if percent < minConverted {
		t.Errorf("%d %% of the rules are converted, %d %% were", percent, minConverted)
	}
}

// share counts rules.
type share struct {
	sync.Mutex
	rules, converted, proved int
}

var (
	compared  = regexp.MustCompile(`(?m)^(.*): \d+ resources compared, \d+ of them matched, .*, (\d+) different$`)
	noWay     = regexp.MustCompile(`(?m)^\S+ (.*) cannot be converted: `)
	panicking = regexp.MustCompile(`(?m)^(panic: |fatal error: |goroutine \d+ \[)|internal error: |runtime error: `)
)

func crashed(stderr string) bool { return panicking.MatchString(stderr) }

// converted converts the policies of a file, and looks at what the proof and lint say of the result.
func converted(t *testing.T, name, file string, sum *share) {
	stdout, stderr, code := command("convert", file, "--prove", "--samples", "60")
	if strings.Contains(stderr, ": nothing was proved") { // a rule that few resources match needs as many as users try
		stdout, stderr, code = command("convert", file, "--prove")
	}
	if code > 1 || crashed(stderr) {
		t.Errorf("convert %s ends with %d:\n%s", name, code, stderr)
		return
	}
	refused := map[string]bool{}
	for _, m := range noWay.FindAllStringSubmatch(stderr, -1) {
		refused[m[1]] = true
	}
	results := compared.FindAllStringSubmatch(stderr, -1)
	proved := 0
	for _, m := range results {
		note, known := namedDifferences[m[1]]
		switch {
		case m[2] != "0" && (!known || !strings.Contains(stderr, note)):
			t.Errorf("%s: a difference that no note names:\n%s", name, stderr)
		case m[2] == "0" && !strings.Contains(stderr, m[1]+": nothing was proved"):
			proved++
		case m[2] == "0" && !slices.ContainsFunc(unproved, func(kind string) bool { return strings.Contains(stderr, "not tried: "+kind) }):
			t.Errorf("%s: nothing was proved:\n%s", name, stderr)
		}
	}
	sum.Lock()
	sum.rules, sum.converted, sum.proved = sum.rules+len(results)+len(refused), sum.converted+len(results), sum.proved+proved
	sum.Unlock()
	if stdout == "" {
		return
	}
	made := filepath.Join(t.TempDir(), "converted.yaml")
	if err := os.WriteFile(made, []byte(stdout), 0o600); err != nil {
		t.Error(err)
		return
	}
	if out, found, code := command("lint", made); code != 0 {
		t.Errorf("%s: lint refuses the converted policy:\n%s%s\n%s", name, out, found, stdout)
	}
}

// command runs the command line in this process.
func command(args ...string) (stdout, stderr string, code int) {
	var out, report bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&out)
	root.SetErr(&report)
	root.SetIn(strings.NewReader(""))
	code = cli.Main(append([]string{"ephor"}, args...), root)
	return out.String(), report.String(), code
}

// policyFiles returns the files below root that hold policies, except those of tests.
func policyFiles(root string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !d.IsDir() && filepath.Ext(path) == ".yaml" && holdsPolicy(path):
			out = append(out, path)
		}
		return nil
	})
	return out, err
}

var policyKind = regexp.MustCompile(`(?m)^kind: (Cluster|Namespaced)?(Cleanup|Validating|Mutating|Generating|Deleting|ImageValidating)?Policy$`)

func holdsPolicy(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && policyKind.Match(text)
}

// isClassic reports whether a file holds a policy that convert converts.
func isClassic(path string) bool {
	objects, _ := source.Load([]string{path}, source.Options{})
	return slices.ContainsFunc(objects, func(o source.Object) bool {
		apiVersion, _ := o.Value["apiVersion"].(string)
		return convert.Owns(apiVersion, o.Kind())
	})
}

// commonResources are resources that most policies are about.
const commonResources = `apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop, labels: {app: a}}
spec: {containers: [{name: c, image: "ghcr.io/team/app:1"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: shop}
spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: nginx}]}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Service
metadata: {name: a, namespace: shop}
spec: {type: NodePort, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a, namespace: shop}
spec: {rules: [{host: "*.example.com"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop}
data: {k: v}
`
