package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world/fixed"
)

// libraryTarget is the target for the cost of one rule on one Pod, everything included: a tenth of the peer's
// (docs/migrating/comparison.md).
const libraryTarget = 38 * time.Microsecond

// shownSlow is how many of the slowest policies are listed.
const shownSlow = 10

// library evaluates the classic policies of a public library on the Pods, each policy separately, and applies those that only validate as
// a user would, including reading and printing. (A mutation prints every object, hundreds of megabytes here, and a lookup of Pods reads
// all 1,000 for each of them.) Both costs are divided by the number of results: neither a rule without a result for Pods nor a result of
// status error improves the figure.
func (b *bench) library() error {
	folder, err := b.conformanceFolder()
	if err != nil || folder == "" {
		return err
	}
	lib, err := loadLibrary(filepath.Join(folder, "policies"))
	if err != nil {
		return err
	}
	yamlFile, jsonFile, err := b.writeManifests()
	if err != nil {
		return err
	}
	pods, diags := source.Load([]string{jsonFile}, source.Options{Numbers: source.Floats})
	if diags.HasErrors() {
		return errors.New(diags[0].String())
	}
	costs, total := lib.evaluate(pods)
	if total.results == 0 {
		return fmt.Errorf("no rule of %s gives a result for Pods", folder)
	}
	fmt.Printf("library: %d classic policies, %d compile (%d rules); %d results on %d Pods, and %d errors\n",
		lib.found, len(lib.programs), lib.rules(), total.results, len(pods), total.errors)
	printSlowest(costs)
	apply, err := repeat(b.ephor, append([]string{"apply", "--resource", yamlFile}, lib.files...)...)
	if err != nil {
		return err
	}
	evaluated := total.cpu / time.Duration(total.results)
	applied := apply.wall / time.Duration(max(total.validated, 1))
	fmt.Printf("apply, the %d files that only validate: %.2f s wall, %.2f s CPU, %.0f MB for %d results\n",
		len(lib.files), apply.wall.Seconds(), apply.cpu.Seconds(), apply.peakMB, total.validated)
	b.row("library evaluation", "µs", micros(evaluated), micros(libraryTarget))
	b.row("library apply", "µs", micros(applied), micros(libraryTarget))
	fmt.Printf("library: per rule and Pod %.2f µs of CPU to evaluate, %.2f µs (%.2f µs of CPU) to apply; target %.2f µs\n",
		micros(evaluated), micros(applied), micros(apply.cpu)/float64(max(total.validated, 1)), micros(libraryTarget))
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// conformanceFolder returns the folder of the public policies; empty to skip them.
func (b *bench) conformanceFolder() (string, error) {
	const variable, none = "EPHOR_CONFORMANCE", "none"
	dir := os.Getenv(variable)
	switch dir {
	case none:
		fmt.Printf("library: NOT RUN (%s=%s)\n", variable, none)
		return "", nil
	case "":
		dir = filepath.Join(b.root, "..", "shared", "conformance")
	}
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("there are no public policies in %s: set %s to their folder, or to %q to go without", dir, variable, none)
	}
	return dir, nil
}

// policyLibrary is the content of a folder of policies.
type policyLibrary struct {
	found    int // number of classic policies
	programs []*policy.Program
	files    []string // files whose policies only validate
}

func loadLibrary(dir string) (*policyLibrary, error) {
	objects, diags := source.Load([]string{dir}, source.Options{Recursive: true, Numbers: source.Exact})
	lib := &policyLibrary{}
	more := map[string]bool{} // files with a policy that does more
	for _, o := range objects {
		apiVersion, _ := o.Value["apiVersion"].(string)
		if !classic.Owns(apiVersion, o.Kind()) {
			continue
		}
		lib.found++
		program, mistakes := compile.One(compile.Object{Value: o.Value, Pos: o.Pos})
		if mistakes.HasErrors() {
			continue
		}
		lib.programs = append(lib.programs, program)
		file := o.Pos("").File
		more[file] = more[file] || !validates(program)
		if !slices.Contains(lib.files, file) {
			lib.files = append(lib.files, file)
		}
	}
	lib.files = slices.DeleteFunc(lib.files, func(file string) bool { return more[file] })
	if len(lib.programs) == 0 {
		return nil, fmt.Errorf("no classic policy in %s compiles; %d mistakes in its files", dir, len(diags))
	}
	return lib, nil
}

// validates reports whether a policy creates no objects and has no lookups.
func validates(p *policy.Program) bool {
	return !slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return r.Stage != policy.StageValidate || r.Needs.Lookups })
}

func (l *policyLibrary) rules() int {
	n := 0
	for _, p := range l.programs {
		n += len(p.Rules)
	}
	return n
}

// cost is the cost of a policy on all Pods.
type cost struct {
	name            string
	cpu             time.Duration
	results, errors int
	validated       int // results of policies that only validate
}

// evaluate evaluates each policy separately on every Pod. Garbage collection is part of the cost.
func (l *policyLibrary) evaluate(pods []source.Object) (costs []cost, total cost) {
	const stages = policy.StageMutate | policy.StageVerifyImages | policy.StageValidate | policy.StageGenerate
	root := fixed.New(fixed.Values{})
	for _, p := range l.programs {
		snapshot := catalog.NewStatic([]*policy.Program{p})
		c := cost{name: p.Key()}
		start := ownCPU()
		for i := range pods {
			request := podRequest(pods[i])
			out := engine.Eval(context.Background(), engine.Input{
				Selections: snapshot.For(request, catalog.Route{Stages: stages}), Request: request, Stages: stages, Root: root,
			})
			for _, r := range out.Results {
				if r.Status == policy.StatusError {
					c.errors++
				} else {
					c.results++
				}
			}
		}
		c.cpu = ownCPU() - start
		if validates(p) {
			total.validated += c.results
		}
		costs = append(costs, c)
		total.cpu, total.results, total.errors = total.cpu+c.cpu, total.results+c.results, total.errors+c.errors
	}
	return costs, total
}

func podRequest(o source.Object) *policy.Request {
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	return &policy.Request{Review: policy.Review{
		Origin: policy.FromCLI, Operation: policy.Create, Namespace: "default", Name: o.Name(), GVK: pod, RequestGVK: pod,
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: value.Of(o.Value), User: &policy.User{},
	}}
}

func printSlowest(costs []cost) {
	each := func(c cost) time.Duration { return c.cpu / time.Duration(max(c.results, 1)) }
	costs = slices.DeleteFunc(slices.Clone(costs), func(c cost) bool { return c.results == 0 })
	slices.SortFunc(costs, func(a, b cost) int { return cmp.Compare(each(b), each(a)) })
	var lines []string
	for _, c := range costs[:min(shownSlow, len(costs))] {
		lines = append(lines, fmt.Sprintf("%s %.1f", c.name, micros(each(c))))
	}
	fmt.Printf("slowest, in µs of CPU per rule and Pod: %s\n", strings.Join(lines, ", "))
}
