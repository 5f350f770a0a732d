package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/value"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata")

// TestCorpus runs every case of testdata through the engine, the handler and the command line.
func TestCorpus(t *testing.T) {
	cases, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	numbers, commandLine := 0, 0
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			programs, diags := c.Compile()
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			exact, float := c.run(t, programs)
			if *update {
				if err := c.Save(text(exact), text(float)); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got := text(exact); got != c.Want {
				t.Errorf("the engine says\n%swant\n%s", got, c.Want)
			}
			if got := text(float); got != c.WantFloat {
				t.Errorf("with the numbers of the command line the engine says\n%swant\n%s", got, c.WantFloat)
			}
			if c.TwoWants {
				if c.Want == c.WantFloat {
					t.Error("want.float says the same as want: leave it out")
				}
				numbers++
			}
			if c.Old == "" {
				commandLine++
			}
		})
	}
	if len(cases) < 30 {
		t.Errorf("only %d cases were found", len(cases))
	}
	t.Logf("%d cases through engine and handler, %d of them through the command line (the others update an object); %d are number cases", len(cases), commandLine, numbers)
}

// TestRules runs the test data of the rule kinds through all three as well. The tests beside the rules check the results
// themselves.
func TestRules(t *testing.T) {
	files, err := filepath.Glob("../internal/rule/testdata/*/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatal("no test data of rules", err)
	}
	ran, resources := 0, 0
	for _, file := range files {
		c, why := fromRule(file)
		if c == nil {
			t.Logf("%s: %s", file, why)
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			programs, diags := c.Compile()
			if diags.HasErrors() {
				return // the command line and admission reject a policy with mistakes
			}
			ran++
			resources += len(c.Resources)
			c.run(t, programs)
		})
	}
	t.Logf("%d of %d files, %d resources", ran, len(files), resources)
	if ran < len(files)/3 {
		t.Errorf("only %d of %d files of the rules were run", ran, len(files))
	}
}

// run makes the comparison: it returns the engine's results with both kinds of numbers, and fails if the others differ.
func (c *Case) run(t *testing.T, programs []*policy.Program) (exact, float []Evaluation) {
	snapshot := catalog.NewStatic(programs)
	srv := c.server(t, snapshot)
	for _, r := range c.Resources {
		j := c.Evaluate(snapshot, r, false)
		exact, float = append(exact, j), append(float, c.Evaluate(snapshot, r, true))
		if got, want := c.post(t, srv, r), j; got.Allowed != want.Allowed || strings.TrimSpace(got.Message) != strings.TrimSpace(want.Message) || got.Object != want.Object {
			t.Errorf("the handler says\n%sthe engine\n%s", got, want)
		}
	}
	if c.Old == "" {
		c.compareCommandLine(t, float)
	}
	return exact, float
}

func text(list []Evaluation) string {
	var b strings.Builder
	for _, j := range list {
		b.WriteString(j.String())
	}
	return b.String()
}

// fromRule creates a case from the test data of a rule kind: a rule, and a list of requests, of which only those that
// create an object count.
func fromRule(file string) (c *Case, why string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return nil, err.Error()
	}
	c = &Case{Name: strings.TrimSuffix(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), ".txtar"), File: file, Archive: archive}
	for _, f := range archive.Files {
		switch f.Name {
		case "rule.yaml":
			var rule map[string]any
			if err := yaml.Unmarshal(f.Data, &rule); err != nil {
				return nil, err.Error()
			}
			if strings.Contains(string(f.Data), "attestors:") || strings.Contains(string(f.Data), "attestations:") {
				return nil, "the command line asks registries about signatures"
			}
			c.Policies = append(c.Policies, value.JSON(map[string]any{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "p"},
				"spec": map[string]any{"validationFailureAction": "Enforce", "rules": []any{rule}}}))
		case "requests.yaml":
			var requests []map[string]any
			if err := yaml.Unmarshal(f.Data, &requests); err != nil {
				return nil, err.Error()
			}
			for i, r := range requests {
				o, ok := r["object"].(map[string]any)
				metadata, named := o["metadata"].(map[string]any)
				for key := range r {
					ok = ok && (key == "name" || key == "object")
				}
				if !ok || !named || o["kind"] == nil || o["apiVersion"] == nil {
					continue // another operation, user or cluster
				}
				metadata["name"] = fmt.Sprintf("%v-%d", metadata["name"], i) // results are found by name
				c.Resources = append(c.Resources, value.JSON(o))
			}
		case "want":
		default:
			return nil, "has the section " + f.Name
		}
	}
	c.normalise()
	if len(c.Resources) == 0 {
		return nil, "no request creates an object"
	}
	return c, ""
}

// cluster provides the handler's lookups for a review.
type cluster struct{ c *Case }

func (cluster) Roles(context.Context, *policy.User, string) (policy.Roles, error) {
	return policy.Roles{}, nil
}
func (k cluster) NamespaceLabels(_ context.Context, ns string) (map[string]string, error) {
	return k.c.Namespaces[ns], nil
}
func (cluster) KindFor(context.Context, schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return schema.GroupVersionKind{}, errors.New("only subresources ask")
}
func (cluster) Find(t policy.Target) ([]discovery.Resource, error) {
	return []discovery.Resource{{Group: t.Group, Version: t.Version, Kind: t.Kind, Namespaced: true}}, nil
}
func (cluster) BodyOf(string) []string { return nil }

func (c *Case) server(t *testing.T, snapshot *catalog.Snapshot) http.Handler {
	t.Helper()
	store := &settings.Store{}
	s, _ := settings.Parse(nil)
	store.Set(s)
	srv := admission.New(admission.Options{
		Namespace: "kyverno", Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return Now },
	}, func() *catalog.Snapshot { return snapshot }, store, c.Root(false), cluster{c}, func() error { return nil })
	srv.Open()
	return srv
}

// post sends the reviews that the API server would send: a mutating one, and a validating one for the changed object.
func (c *Case) post(t *testing.T, srv http.Handler, resource string) Evaluation {
	t.Helper()
	req := c.Request(resource, false)
	j := Evaluation{Resource: name(req)}
	current := object(resource, false)
	for _, path := range []string{"/mutate", "/validate"} {
		res := c.review(t, srv, path, req, value.JSON(current))
		j.Allowed, j.Message = res.Allowed, ""
		if res.Result != nil {
			j.Message = res.Result.Message
		}
		if !res.Allowed {
			return j
		}
		if len(res.Patch) > 0 {
			ops, err := value.DecodeJSON(res.Patch)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := patch.JSONPatchOf(ops)
			if err != nil {
				t.Fatal(err)
			}
			changed, err := patch.ApplyJSON(nil, current, decoded)
			if err != nil {
				t.Fatalf("the patch %s: %v", res.Patch, err)
			}
			current = changed.(map[string]any)
			j.Object = value.JSON(current)
		}
	}
	return j
}

func (c *Case) review(t *testing.T, srv http.Handler, path string, req *policy.Request, resource string) *admissionv1.AdmissionResponse {
	t.Helper()
	old := json.RawMessage("null")
	if c.Old != "" {
		old = json.RawMessage(c.Old)
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": map[string]any{
		"uid": "u", "operation": string(req.Operation), "namespace": req.Namespace, "name": req.Name, "userInfo": map[string]any{},
		"kind":     map[string]any{"group": req.GVK.Group, "version": req.GVK.Version, "kind": req.GVK.Kind},
		"resource": map[string]any{"group": req.GVR.Group, "version": req.GVR.Version, "resource": req.GVR.Resource},
		"object":   json.RawMessage(resource), "oldObject": old,
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	srv.ServeHTTP(w, r)
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Response == nil {
		t.Fatalf("HTTP %d: %s", w.Code, w.Body)
	}
	return out.Response
}

// compareCommandLine runs `apply` and compares its report and the objects that it writes.
func (c *Case) compareCommandLine(t *testing.T, want []Evaluation) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, documents ...string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(documents, "\n---\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := []string{"ephor", "apply", file("policy.yaml", c.Policies...), "--exceptions-within-policies", "--policy-report", "--output-format", "json",
		"--resource", file("resource.yaml", append(append([]string{}, c.Resources...), c.World...)...), "-o", filepath.Join(dir, "out")}
	if len(c.Namespaces) > 0 {
		var list []any
		for ns, labels := range c.Namespaces {
			m := map[string]any{}
			for k, v := range labels {
				m[k] = v
			}
			list = append(list, map[string]any{"name": ns, "labels": m})
		}
		args = append(args, "-f", file("values.yaml", value.JSON(map[string]any{"apiVersion": "cli.kyverno.io/v1alpha1", "kind": "Values", "namespaceSelector": list})))
	}
	before := offline.Now
	offline.Now = func() time.Time { return Now }
	defer func() { offline.Now = before }()
	var stdout, stderr bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	cli.Main(args, root)
	got, err := reported(stdout.Bytes())
	if err != nil {
		t.Fatalf("%v in the output of apply:\n%s%s", err, stdout.Bytes(), stderr.Bytes())
	}
	for _, j := range want {
		list := got[j.Resource]
		sort.Strings(list)
		if strings.Join(list, "\n") != strings.Join(j.Results, "\n") {
			t.Errorf("%s: the command line says\n%s\nthe engine\n%s\n%s", j.Resource, strings.Join(list, "\n"), strings.Join(j.Results, "\n"), stderr.Bytes())
		}
		short := j.Resource[strings.LastIndexAny(j.Resource, " /")+1:]
		written, err := os.ReadFile(filepath.Join(dir, "out", short+"-mutated.yaml"))
		switch {
		case err != nil && j.ByMutate:
			t.Errorf("%s: the command line writes no object, the engine makes %s", j.Resource, j.Object)
		case err == nil && j.Object != "":
			raw, err := yaml.YAMLToJSON(written)
			if err != nil {
				t.Fatal(err)
			}
			if o, w := object(string(raw), true), object(j.Object, true); !value.Equal(o, w) {
				t.Errorf("%s: the command line writes\n%s\nthe engine makes\n%s", j.Resource, raw, j.Object)
			}
		}
	}
}

// reported parses the reports: their results by resource.
func reported(text []byte) (map[string][]string, error) {
	out := map[string][]string{}
	for documents := json.NewDecoder(bytes.NewReader(text)); ; { // cluster-wide policies, then one for each namespace
		var report struct {
			Results []struct {
				Policy, Rule, Result, Message string
				Resources                     []struct{ Kind, Namespace, Name string }
			}
		}
		if err := documents.Decode(&report); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		for _, r := range report.Results {
			for _, o := range r.Resources {
				name := o.Kind + " " + o.Name
				if o.Namespace != "" {
					name = o.Kind + " " + o.Namespace + "/" + o.Name
				}
				out[name] = append(out[name], line(r.Policy, r.Rule, r.Result, r.Message))
			}
		}
	}
}
