package testrun

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/world"
)

// testRun is the run of one Test with its results.
type testRun struct {
	*testCase
	families   *compile.Registry // the families of the policies; nil for those of Ephor
	server     kubeversion.Minor
	strict     bool
	images     world.Images // none: no registry is queried
	signatures world.Signatures

	log      bytes.Buffer // the lines that report progress
	rows     []testRow
	notes    []string // warnings about the expectations
	diags    diag.List
	policies load.PolicySet
	// resources are the objects of the Test. The first ones, up to the number evaluated, are evaluated; rules may look up
	// or change the others.
	resources  []*testObject
	evaluated  int
	cluster    []map[string]any // the objects in the ClusterResource files
	targets    []map[string]any // the objects in the files of targets
	params     []map[string]any // the objects in the files of parameters
	scopes     source.Scopes
	names      discovery.Offline
	evaluator  *offline.Evaluator
	exceptions load.ExceptionSet
	// answers holds the answers by operation, for each resource in order. The empty operation stands for the one that the values set.
	answers map[policy.Operation][][]offline.Answer
	files   map[string][]map[string]any // expected objects by file, read once
}

// statusWords are the results that an expectation can name.
var statusWords = []string{policy.StatusPass.String(), policy.StatusFail.String(), policy.StatusSkip.String(), policy.StatusWarn.String(), policy.StatusError.String()}

// testObject is one resource of a Test.
type testObject struct {
	value                             map[string]any
	payload                           policy.Payload // the type of a document that is not a Kubernetes object
	apiVersion, kind, namespace, name string
	// request is the recorded request with the object; nil for an object without one.
	request *policy.Request
}

func newTestObject(o map[string]any) *testObject {
	t := &testObject{value: o}
	t.apiVersion, _ = o["apiVersion"].(string)
	t.kind, _ = o["kind"].(string)
	meta, _ := o["metadata"].(map[string]any)
	t.namespace, _ = meta["namespace"].(string)
	t.name, _ = meta["name"].(string)
	return t
}

// String returns the name of the object in the table.
func (t *testObject) String() string {
	if t.request != nil {
		return t.apiVersion + "/" + t.kind + "/" + t.namespace + "/" + t.name + " (" + t.request.UID + ")"
	}
	return t.apiVersion + "/" + t.kind + "/" + t.namespace + "/" + t.name
}

// group returns the API group of the object.
func (t *testObject) group() string {
	g, _, named := strings.Cut(t.apiVersion, "/")
	if !named {
		return ""
	}
	return g
}

func (t *testObject) key() string {
	return t.group() + " " + t.kind + " " + t.namespace + " " + t.name
}

func (r *testRun) say(format string, args ...any) { fmt.Fprintf(&r.log, format+"\n", args...) }

// run loads, evaluates and compares. It returns an error if the test cannot be run.
func (r *testRun) run(ctx context.Context) error {
	r.say("Loading test  ( %s ) ...", r.path)
	if r.deprecated {
		return fmt.Errorf("test file %s uses a deprecated schema — please migrate to the latest format\n(`ephor fix test %s --save` does that)", r.path, r.path)
	}
	if err := r.load(); err != nil {
		return fmt.Errorf("failed to run test (%w)", err)
	}
	r.answers = map[policy.Operation][][]offline.Answer{}
	for _, e := range r.Results {
		op := policy.Operation(e.Operation)
		if op != "" && e.Deletes() {
			return errors.New("failed to run test (operation cannot be used with policies that delete: they look at what is there, not at requests)")
		}
		switch op {
		case "", policy.Create, policy.Update, policy.Delete:
		default:
			return fmt.Errorf("failed to run test (invalid operation %q, must be one of CREATE, UPDATE, DELETE)", e.Operation)
		}
		if r.answers[op] != nil {
			continue
		}
		if err := r.evaluate(ctx, op); err != nil {
			return fmt.Errorf("failed to run test (%w)", err)
		}
	}
	for _, d := range r.evaluator.UnknownNamespaces() {
		d.Pos = r.pos("resources")
		r.diags.Add(d)
	}
	r.say("  Checking results ...")
	var unevaluated load.Unevaluated
	for _, op := range slices.Sorted(maps.Keys(r.answers)) {
		for _, answers := range r.answers[op] {
			for i := range answers {
				unevaluated.Add(answers[i].ExceptionErrors...)
			}
		}
	}
	r.diags.Add(r.exceptions.Unevaluated(unevaluated)...)
	for i := range r.Results {
		if result := r.Results[i].Result; !slices.Contains(statusWords, result) {
			r.diags.Add(diag.Diagnostic{
				Severity: diag.Warning, Pos: r.pos(fmt.Sprintf("results[%d].result", i)), Path: fmt.Sprintf("results[%d].result", i),
				Summary: fmt.Sprintf("%q is not a result", result), Hint: "the results are " + strings.Join(statusWords, ", "),
			})
		}
		r.check(&r.Results[i], fmt.Sprintf("results[%d]", i))
	}
	return nil
}

// evaluate runs all policies on all resources.
func (r *testRun) evaluate(ctx context.Context, op policy.Operation) error {
	all := make([][]offline.Answer, r.evaluated)
	for i, o := range r.resources[:r.evaluated] {
		by := r.evaluator
		if o.payload != policy.NoPayload {
			by = by.OfDocuments(o.payload)
		}
		if o.request != nil {
			if op != "" && op != o.request.Operation {
				continue // the recorded request has another operation
			}
			by = by.OfRequest(o.request)
		}
		answers, err := by.Each(ctx, o.value, op)
		if err != nil {
			return fmt.Errorf("failed to apply policies on resource %s (%w)", o.name, err)
		}
		if op == "" && o.request == nil {
			deletions, err := by.Deletions(ctx, o.value)
			if err != nil {
				return fmt.Errorf("failed to apply policies on resource %s (%w)", o.name, err)
			}
			for _, d := range deletions {
				answers = append(answers, offline.Answer{Program: d.Results[0].Program, Stage: policy.StageDelete, Outcome: d})
			}
		}
		all[i] = answers
	}
	r.answers[op] = all
	return nil
}

// load reads all files that the Test names and compiles the policies.
func (r *testRun) load() error {
	set, err := r.loadGiven()
	if err != nil {
		return err
	}
	if err := r.loadPolicies(); err != nil {
		return err
	}
	if err := r.loadDefinitions(); err != nil {
		return err
	}
	if err := r.loadResources(); err != nil {
		return err
	}
	made, err := r.loadWorld(set)
	if err != nil {
		return err
	}
	r.say("  Loading exceptions ...")
	r.exceptions = load.Exceptions(r.within(r.PolicyExceptions...), nil)
	exceptions := &r.exceptions
	if exceptions.Diags.HasErrors() {
		return r.mistaken("failed to load the exceptions", exceptions.Diags)
	}
	if len(exceptions.Exceptions) > 0 {
		for _, p := range r.policies.Programs {
			if k := r.families.Kinds().Owner(p.APIVersion, p.Kind); k != nil && k.NoExceptions != "" {
				return errors.New(k.NoExceptions)
			}
		}
	}
	programs := exceptions.Join(r.policies.Programs, offline.Now())
	r.diags.Add(load.PassedOver(programs, r.sorts(), testFields)...)
	r.diags.Add(exceptions.Diags.Warnings()...)
	r.evaluator = offline.New(programs, made.root(""), set)
	r.evaluator.Names = r.names
	for i := range r.evaluator.Policies {
		if p := &r.evaluator.Policies[i]; len(made.sources[p.Program.Name]) > 0 {
			p.Root = made.root(p.Program.Name)
		}
	}
	r.say("  Applying %s to %s with %s ...", terminal.Counted(len(r.policies.Programs)+len(r.policies.Refused), "policy", "policies"),
		terminal.Counted(r.evaluated, "resource", "resources"), terminal.Counted(len(exceptions.Exceptions), "exception", "exceptions"))
	return nil
}

// testFields are the fields of a Test for each type of documents.
var testFields = map[policy.Payload]string{
	policy.NoPayload: "resources", policy.JSONPayload: "jsonPayloads", policy.HTTPPayload: "httpPayloads", policy.EnvoyPayload: "envoyPayloads",
}

// sorts returns the types of the inputs that are evaluated.
func (r *testRun) sorts() (out []policy.Payload) {
	for _, o := range r.resources[:r.evaluated] {
		if !slices.Contains(out, o.payload) {
			out = append(out, o.payload)
		}
	}
	return out
}

// loadPayloads reads the documents for policies whose evaluation.mode is not Kubernetes. The file names become the names of the documents.
func (r *testRun) loadPayloads() error {
	paths := r.JSONPayloads
	if r.JSONPayload != "" {
		paths = append([]string{r.JSONPayload}, paths...)
	}
	for _, given := range []struct {
		paths []string
		sort  policy.Payload
	}{{paths, policy.JSONPayload}, {r.HTTPPayloads, policy.HTTPPayload}, {r.EnvoyPayloads, policy.EnvoyPayload}} {
		for _, path := range given.paths {
			read, err := load.Payloads(r.within(path), given.sort)
			if err != nil {
				return err
			}
			r.resources = append(r.resources, &testObject{value: read[0].Value, payload: given.sort, name: filepath.Clean(path)})
		}
	}
	return nil
}

// loadRequests reads recorded requests. Several of them may have the same object.
func (r *testRun) loadRequests() error {
	for _, path := range r.within(r.Requests...) {
		f, err := terminal.Open(path, nil)
		if err != nil {
			return fmt.Errorf("failed to load the requests (%w)", err)
		}
		for record := range impact.Reviews(path, f) {
			var req *policy.Request
			var object map[string]any
			if req, err = record.Request(); err == nil {
				object, err = req.Subject()
			}
			if err != nil {
				err = fmt.Errorf("failed to load the requests (%s: %w)", record.At, err)
				break
			}
			t := newTestObject(object)
			t.apiVersion, t.kind = req.RequestGVK.GroupVersion().String(), req.RequestGVK.Kind
			t.namespace, t.name, t.request = cmp.Or(t.namespace, req.ObjectNamespace()), cmp.Or(t.name, req.Name), req
			r.resources = append(r.resources, t)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// mistaken returns the error for files of the Test that cannot be read. Their paths are relative to the folder of the Test.
func (r *testRun) mistaken(attempt string, diags diag.List) error {
	for i := range diags {
		if _, err := os.Stat(diags[i].Pos.File); errors.Is(err, fs.ErrNotExist) {
			diags[i].Hint = "paths in a Test are relative to its folder: " + r.dir
		}
	}
	return terminal.Mistaken(attempt, diags)
}

// loadGiven reads the values and the user.
func (r *testRun) loadGiven() (*clivalues.Set, error) {
	r.say("  Loading values/variables ...")
	var spec *v1alpha1.ValuesSpec
	switch {
	case r.Values != nil:
		spec = r.Values
	case r.Variables != "":
		values, diags := clivalues.ReadValues(r.within(r.Variables)[0])
		if diags.HasErrors() {
			return nil, r.mistaken("failed to load the values", diags)
		}
		r.diags.Add(diags...)
		spec = values
	}
	set := clivalues.New(spec, nil)
	if r.UserInfo != "" {
		r.say("  Loading user infos ...")
		user, diags := clivalues.ReadUserInfo(r.within(r.UserInfo)[0], false)
		if diags.HasErrors() {
			return nil, r.mistaken("failed to load the user info", diags)
		}
		r.diags.Add(diags...)
		set.SetUser(user)
	}
	return set, nil
}

// loadPolicies reads the policies. A policy that violates a rule of the language is not applied, and its expectations
// report that. A policy that cannot be read ends the test.
func (r *testRun) loadPolicies() error {
	r.say("  Loading policies ...")
	r.policies = load.ForTest(r.families, r.within(r.Policies...), len(r.TargetResources) > 0, r.server)
	refused := map[diag.Position]bool{}
	for _, p := range r.policies.Refused {
		if unreadable(p.Errors) {
			continue
		}
		for _, d := range p.Errors {
			refused[d.Pos] = true
		}
	}
	var fatal diag.List
	for _, d := range r.policies.Diags.Errors() {
		if !refused[d.Pos] {
			fatal.Add(d)
		}
	}
	if len(fatal) > 0 {
		return r.mistaken("failed to load the policies", fatal)
	}
	r.diags.Add(r.policies.Diags.Warnings()...)
	return nil
}

// unreadable reports whether any mistake means that the policy does not have the form of a policy, or uses features
// that this version does not have. Such mistakes say nothing about whether the policy is valid.
func unreadable(diags diag.List) bool {
	return diags.Has(diag.UnknownField, diag.WrongType, diag.NotSupported)
}

// loadResources reads the resources, and the targets of rules that change existing objects. If several have the same
// name, the first one is used.
func (r *testRun) loadResources() error {
	r.say("  Loading resources ...")
	seen := map[string]bool{}
	for group, paths := range [][]string{r.Resources, r.TargetResources, r.ParamResources} {
		objects, diags := source.Load(r.within(paths...), source.Options{Numbers: source.Floats})
		if diags.HasErrors() {
			return r.mistaken("failed to load resources", diags)
		}
		r.diags.Add(diags...)
		for _, o := range objects {
			r.scopes.Normalise(o.Value)
			r.diags.Add(o.Misnamed()...)
			switch group {
			case 1:
				r.targets = append(r.targets, o.Value)
			case 2:
				r.params = append(r.params, o.Value)
			}
			t := newTestObject(o.Value)
			if k := t.key(); seen[k] {
				r.say("  warning: found duplicated resource %s %s %s", t.kind, t.name, t.namespace)
				continue
			} else {
				seen[k] = true
			}
			r.resources = append(r.resources, t)
		}
		if group == 0 {
			if err := r.loadPayloads(); err != nil {
				return err
			}
			if err := r.loadRequests(); err != nil {
				return err
			}
			r.evaluated = len(r.resources)
		}
	}
	return nil
}
