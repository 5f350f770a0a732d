package match

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/index"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// requestCase is one document of requests.yaml: a request and whether the rule matches it.
type requestCase struct {
	Name        string
	Want        bool
	Error       string // the error of Match contains this text
	Operation   string
	Subresource string
	// Kind is group/version/Kind of the (parent) resource; by default that of the object.
	Kind            string
	RequestName     string
	Namespace       *string
	Object          map[string]any
	OldObject       map[string]any
	User            *policy.User
	Roles           []string
	ClusterRoles    []string
	RolesFail       bool
	NamespaceLabels map[string]string
	NamespaceFails  bool
}

func (c *requestCase) request() *policy.Request {
	r := &policy.Request{Review: policy.Review{Operation: policy.Operation(c.Operation), Subresource: c.Subresource, User: c.User}}
	object := c.Object
	if c.Object != nil {
		r.Object = value.Of(c.Object)
	}
	if c.OldObject != nil {
		r.OldObject = value.Of(c.OldObject)
		if object == nil {
			object = c.OldObject
		}
	}
	kind, _ := object["kind"].(string)
	version, _ := object["apiVersion"].(string)
	r.GVK = schema.FromAPIVersionAndKind(version, kind)
	if c.Kind != "" {
		parts := strings.Split(c.Kind, "/")
		r.GVK = schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]}
	}
	meta, _ := object["metadata"].(map[string]any)
	r.Namespace, _ = meta["namespace"].(string)
	r.Name, _ = meta["name"].(string)
	if c.RequestName != "" {
		r.Name = c.RequestName
	}
	if c.Namespace != nil {
		r.Namespace = *c.Namespace
	}
	r.ResolveRoles = func(context.Context) (policy.Roles, error) {
		if c.RolesFail {
			return policy.Roles{}, errors.New("cannot list bindings")
		}
		return policy.Roles{Roles: c.Roles, ClusterRoles: c.ClusterRoles}, nil
	}
	r.ResolveNamespace = func(context.Context) (map[string]string, error) {
		if c.NamespaceFails {
			return nil, errors.New("cannot read the namespace")
		}
		return c.NamespaceLabels, nil
	}
	return r
}

type ruleFile struct {
	PolicyNamespace string                    `json:"policyNamespace"`
	Options         Options                   `json:"options"`
	Match           kyvernov1.MatchResources  `json:"match"`
	Exclude         *kyvernov1.MatchResources `json:"exclude"`
}

// TestMatch runs testdata/match: a rule, and requests that it matches or does not match. Every request also goes through the
// index, which must return the rule whenever Match accepts.
func TestMatch(t *testing.T) {
	files, err := filepath.Glob("testdata/match/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var rule ruleFile
			var cases []requestCase
			for _, f := range archive.Files {
				switch f.Name {
				case "rule.yaml":
					err = yaml.UnmarshalStrict(f.Data, &rule)
				case "requests.yaml":
					err = yaml.UnmarshalStrict(f.Data, &cases)
				default:
					t.Fatalf("unknown file %s", f.Name)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(cases) == 0 {
				t.Fatal("no requests")
			}
			m, diags := CompileWith(rule.Match, rule.Exclude, rule.PolicyNamespace, "spec.rules[0]", rule.Options)
			if strings.Contains(string(archive.Comment), "broken rule") != diags.HasErrors() {
				t.Errorf("diagnostics: %v", diags)
			}
			p := &policy.Program{Name: "p", Namespace: rule.PolicyNamespace, Settings: policy.Settings{Admission: true}}
			p.Rules = []*policy.Rule{{Name: "r", Stage: policy.StageValidate, Matching: policy.Matching{Match: m.Match, Targets: m.Targets(), Excludes: m.Excludes()}}}
			x := index.New([]*policy.Program{p})
			for _, c := range cases {
				r := c.request()
				got, err := m.Match(t.Context(), r)
				if got != c.Want {
					t.Errorf("%s: %v, want %v (error %v)", c.Name, got, c.Want, err)
				}
				if (err == nil) != (c.Error == "") || (err != nil && !strings.Contains(err.Error(), c.Error)) {
					t.Errorf("%s: error %v, want %q", c.Name, err, c.Error)
				}
				if found := len(x.Lookup(r, policy.StageValidate)) > 0; (got || err != nil) && !found {
					t.Errorf("%s: the index does not answer the rule", c.Name)
				}
			}
		})
	}
}
