package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strings"

	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/source"
)

// result is one result of a report.
type result struct {
	Policy    string  `json:"policy"`
	Rule      string  `json:"rule"`
	Kind      string  `json:"kind"`
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Result    string  `json:"result"`
	Message   *string `json:"message"`

	Properties map[string]string `json:"properties"` // compared for CEL policies only
}

// key identifies the subject of the result.
func (r result) key() string {
	return r.Policy + " | " + r.Rule + " | " + r.Namespace + "/" + r.Kind + "/" + r.Name
}

// applied is the result of `ephor apply`.
type applied struct {
	exitCode int
	results  []result
	stderr   string
}

// apply runs the command line in this process.
func apply(args ...string) (applied, error) {
	var stdout, stderr bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetIn(strings.NewReader(""))
	code := cli.Main(append([]string{"ephor", "apply", "--policy-report", "--output-format", "json", "--remove-color"}, args...), root)
	a := applied{exitCode: code, stderr: stderr.String()}
	dec := json.NewDecoder(bytes.NewReader(bytes.ReplaceAll(stdout.Bytes(), []byte("\n---\n"), []byte("\n"))))
	for dec.More() {
		var report struct {
			Results []struct {
				result
				Resources []struct{ Kind, Namespace, Name string }
			}
		}
		if err := dec.Decode(&report); err != nil {
			return a, fmt.Errorf("the report is not JSON: %w\n%s\n%s", err, stdout.String(), a.stderr)
		}
		for _, r := range report.Results {
			for _, on := range r.Resources {
				r.Kind, r.Namespace, r.Name = on.Kind, on.Namespace, on.Name
				a.results = append(a.results, r.result)
			}
		}
	}
	return a, nil
}

// needs maps names of policies to the features that they need and Ephor does not have.
type needs map[string][]string

var unsupportedText = regexp.MustCompile(`^(?:.*: )?(.+?) (?:is|are) not supported by this version`)

// inspect compiles the policies in the paths, and returns them with the names of their rules, and the features that they lack.
func inspect(paths []string) (policies map[string][]string, missing needs) {
	policies, missing = map[string][]string{}, needs{}
	objects, _ := source.Load(paths, source.Options{Recursive: true})
	for _, o := range objects {
		apiVersion, _ := o.Value["apiVersion"].(string)
		if compile.CompanionOf(apiVersion, o.Kind()) != nil {
			continue
		}
		policies[o.Name()] = nil
		if !compile.Owns(apiVersion, o.Kind()) {
			missing[o.Name()] = append(missing[o.Name()], "policies of kind "+o.Kind())
			continue
		}
		program, diags := compile.One(compile.Object{Value: o.Value, Pos: o.Pos})
		for _, r := range program.Rules {
			policies[o.Name()] = append(policies[o.Name()], r.Name)
		}
		for _, d := range diags {
			if m := unsupportedText.FindStringSubmatch(d.Summary); m != nil {
				missing[o.Name()] = append(missing[o.Name()], m[1])
			}
		}
	}
	return policies, missing
}

// features lists the missing features, each once.
func (n needs) features() []string {
	seen := map[string]bool{}
	for _, list := range n {
		for _, f := range list {
			seen[f] = true
		}
	}
	out := make([]string, 0, len(seen))
	for f := range seen {
		out = append(out, f)
	}
	sort.Strings(out)
	return out
}
