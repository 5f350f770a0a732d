package decisions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/cli/testrun"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
	objects "ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/world/fixed"
)

// exporting has the flags of export.
type exporting struct {
	options
	families *compile.Registry
	asTest   string
	files    files
}

// newExport returns the command `ephor decisions export`.
func newExport(families *compile.Registry) *cobra.Command {
	o := &exporting{families: families}
	cmd := &cobra.Command{
		Use:   "export POLICY... -f FILE... --as-test DIRECTORY",
		Short: "Write a test directory from recorded requests",
		Long: "Export creates a test from recorded requests (--decisionsRequests of the admission controller): it evaluates the policies on\n" +
			"them and writes the policies, the requests and a kyverno-test.yaml that expects the results to a new directory, for\n" +
			"`ephor test`. The test does not contain values that were removed before the requests were recorded.\n\n" +
			"It omits requests to which no rule applies, requests of which a policy reads a removed value, and results that are\n" +
			"errors because a lookup needs a cluster. It prints their number to standard error.",
		Example: "  ephor decisions export policy.yaml -f decisions.jsonl --as-test tests/recorded --since 7d --limit 50",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	o.files.addFlags(f)
	f.StringVar(&o.asTest, "as-test", "", "directory to create for the test; an existing directory must be empty")
	f.IntVar(&o.limit, "limit", 100, "maximum number of requests in the test; earlier requests are preferred")
	return cmd
}

// left counts the requests and results that are not part of the test, by reason.
type left struct{ unmatched, unrecorded, cut, errors, more int }

func (o *exporting) run(cmd *cobra.Command, paths []string) error {
	q, err := o.selected()
	switch {
	case err != nil:
		return err
	case o.asTest == "":
		return errors.New("require a directory: --as-test names it")
	case o.limit < 1:
		return errors.New("--limit must be positive")
	case len(o.files) == 0:
		return errNoFiles
	}
	if entries, err := os.ReadDir(o.asTest); err == nil && len(entries) > 0 {
		return fmt.Errorf("--as-test: the directory %s is not empty", o.asTest)
	}
	set := load.Policies(o.families, paths, nil)
	if set.Diags.HasErrors() {
		return terminal.Mistaken("failed to load the policies", set.Diags.Errors())
	}
	if len(set.Programs) == 0 {
		return errors.New("there is no policy to evaluate")
	}
	q.Requests, q.Oldest = true, true
	mistakes := 0
	var sources []iter.Seq[impact.Decided]
	for _, path := range o.files {
		sources = append(sources, o.selectedFrom(cmd, path, &q, &mistakes))
	}
	test := v1alpha1.Test{Requests: []string{"requests.yaml"}}
	test.APIVersion, test.Kind, test.ObjectMeta.Name = "cli.kyverno.io/v1alpha1", "Test", "recorded"
	cases, out, err := o.cases(cmd.Context(), set.Programs, impact.Decisions(q.Since, sources...), &test)
	if err != nil {
		return err
	}
	if len(cases) == 0 {
		out.say(cmd)
		return errors.New("no recorded request is for the policies: nothing is written")
	}
	loaded, diags := objects.Load(paths, objects.Options{Recursive: true, Numbers: objects.Exact, Git: &objects.Git{}})
	if diags.HasErrors() {
		return terminal.Mistaken("failed to load the policies", diags.Errors())
	}
	if err := o.write(&test, cases, loaded); err != nil {
		return err
	}
	out.say(cmd)
	fmt.Fprintf(cmd.OutOrStdout(), "%s of %s in %s\n", terminal.Counted(len(test.Results), "expectation", "expectations"), terminal.Counted(len(cases), "request", "requests"), o.asTest)
	if mistakes > 0 {
		return terminal.End(cmd, 1)
	}
	return nil
}

// selectedFrom returns the records of one file that the flags select. It reports lines that it cannot read.
func (o *exporting) selectedFrom(cmd *cobra.Command, path string, q *decision.Query, mistakes *int) iter.Seq[impact.Decided] {
	return func(yield func(impact.Decided) bool) {
		ended := false
		n, err := files{path}.read(cmd.Context(), q, terminal.Stdin(cmd.InOrStdin()), cmd.ErrOrStderr(), func(r *decision.Record) bool {
			ended = !yield(impact.Decided{At: store.Name(path), Record: r})
			return !ended
		})
		*mistakes += n
		if err != nil && !ended {
			yield(impact.Decided{At: store.Name(path), Err: err})
		}
	}
}

// cases evaluates the policies on the requests and adds the results to the expectations of the test. It returns the reviews of the
// requests.
func (o *exporting) cases(ctx context.Context, programs []*policy.Program, records iter.Seq[impact.Record], test *v1alpha1.Test) (reviews [][]byte, out left, err error) {
	type expectation struct{ policy, rule, kind, status string }
	evaluator := offline.New(programs, fixed.New(fixed.Values{Now: offline.Now, EveryNamespace: true}), clivalues.New(nil, nil))
	reads := impact.NewReplica(programs, impact.Options{Families: o.families})
	expected := map[expectation][]string{}
	uids := map[string]bool{}
	for r := range records {
		if r.Err != nil && r.Decision == nil {
			return nil, out, r.Err
		}
		req, err := r.Request()
		switch {
		case errors.Is(err, impact.ErrSameRequest):
			continue
		case errors.Is(err, decision.ErrNoRequest), errors.Is(err, decision.ErrNoText), err == nil && uids[req.UID]:
			out.unrecorded++
			continue
		case err != nil:
			return nil, out, fmt.Errorf("%s: %w", r.At, err)
		case len(reviews) == o.limit:
			out.more++
			continue
		}
		if unknown, _ := reads.ReadsCut(req, r.Decision.Request.Cut); unknown {
			out.cut++
			continue
		}
		object, err := req.Subject()
		if err != nil {
			return nil, out, fmt.Errorf("%s: %w", r.At, err)
		}
		answers, err := evaluator.OfRequest(req).Each(ctx, object, "")
		if err != nil {
			return nil, out, fmt.Errorf("%s: %w", r.At, err)
		}
		matched := false
		for i := range answers {
			for k := range answers[i].Results {
				result := &answers[i].Results[k]
				if result.Status == policy.StatusError {
					out.errors++
					continue
				}
				matched = true
				key := expectation{result.Program.Key(), result.Rule.Name, req.RequestGVK.Kind, testrun.Status(result)}
				if !slices.Contains(expected[key], req.UID) {
					expected[key] = append(expected[key], req.UID)
				}
			}
		}
		if !matched {
			out.unmatched++
			continue
		}
		review, err := r.Decision.Review()
		if err != nil {
			return nil, out, err
		}
		uids[req.UID] = true
		reviews = append(reviews, review)
	}
	for k, requests := range expected {
		test.Results = append(test.Results, v1alpha1.TestResult{Policy: k.policy, Rule: k.rule, Kind: k.kind, Result: k.status, Resources: requests})
	}
	slices.SortFunc(test.Results, func(a, b v1alpha1.TestResult) int {
		return cmp.Or(strings.Compare(a.Policy, b.Policy), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Result, b.Result))
	})
	return reviews, out, nil
}

// write creates the directory of the test.
func (o *exporting) write(test *v1alpha1.Test, reviews [][]byte, policies []objects.Object) error {
	if err := os.MkdirAll(filepath.Join(o.asTest, "policies"), 0o755); err != nil {
		return err
	}
	for i, p := range policies {
		text, err := yaml.Marshal(p.Value)
		if err != nil {
			return err
		}
		name := filepath.Join("policies", strconv.Itoa(i+1)+".yaml")
		test.Policies = append(test.Policies, name)
		if err := os.WriteFile(filepath.Join(o.asTest, name), text, 0o644); err != nil {
			return err
		}
	}
	var requests strings.Builder
	for _, r := range reviews {
		text, err := yaml.JSONToYAML(r)
		if err != nil {
			return err
		}
		requests.WriteString("---\n")
		requests.Write(text)
	}
	text, err := yaml.Marshal(test)
	if err != nil {
		return err
	}
	text = append([]byte("# Written by `ephor decisions export` at "+time.Now().UTC().Format(time.RFC3339)+".\n"), text...)
	return errors.Join(
		os.WriteFile(filepath.Join(o.asTest, "requests.yaml"), []byte(requests.String()), 0o644),
		os.WriteFile(filepath.Join(o.asTest, "kyverno-test.yaml"), text, 0o644))
}

// say prints what the test does not contain.
func (l left) say(cmd *cobra.Command) {
	for _, x := range []struct {
		n    int
		what string
	}{
		{l.unmatched, "of requests that no rule is for, or only with an error"},
		{l.unrecorded, "of reviews without a recorded request of their own"},
		{l.cut, "of requests of which a policy reads a value that was cut"},
		{l.more, "of requests beyond --limit"},
		{l.errors, "of results that are errors"},
	} {
		if x.n > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "left out: %d %s\n", x.n, x.what)
		}
	}
}
