package admission

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// The policies of a path: those that it names, all that share its webhook, or none.
func TestFind(t *testing.T) {
	t1 := routesOf([]*family.Family{
		{Name: "shared", Endpoints: []policy.Endpoint{
			{Kinds: []string{"C", "N"}, Path: "/validate"},
			{Kinds: []string{"C", "N"}, Path: "/mutate", Mutating: true},
		}},
		{Name: "named", Endpoints: []policy.Endpoint{
			{Kinds: []string{"V"}, Path: "/v", Stages: policy.StageValidate, ByName: true},
			{Kinds: []string{"I"}, Path: "/i/mutate", ByName: true, Mutating: true},
		}},
	})
	for path, want := range map[string]string{
		"/validate":                        "shared all",
		"/validate/fail":                   "shared Fail all",
		"/validate/ignore":                 "shared Ignore all",
		"/mutate/ignore":                   "shared Ignore mutating all",
		"/validate/fail/finegrained/a":     "shared Fail C//a N//a",
		"/mutate/fail/finegrained/ns/a":    "shared Fail mutating C/ns/a N/ns/a",
		"/validate/finegrained/a":          "",
		"/validate/fail/finegrained/":      "",
		"/validate/fail/finegrained/a/b/c": "",
		"/validate/other":                  "",
		"/v/a":                             "named V/*/a",
		"/v/a/b":                           "named V/*/a V/*/b",
		"/v/a//b/":                         "named V/*/a V/*/b",
		"/v":                               "named",
		"/v/":                              "named",
		"/va":                              "",
		"/i/mutate/a":                      "named mutating I/*/a",
		"/i/validate/a":                    "",
	} {
		for range 2 { // the second time the row is cached
			got := ""
			if row := t1.find(path); row != nil {
				parts := []string{row.Family}
				if row.FailurePolicy != nil {
					parts = append(parts, row.FailurePolicy.String())
				}
				if row.mutating {
					parts = append(parts, "mutating")
				}
				if row.Policies == nil {
					parts = append(parts, "all")
				}
				for _, id := range slices.SortedFunc(maps.Keys(row.Policies), func(a, b catalog.ID) int {
					return strings.Compare(a.Kind+a.Name, b.Kind+b.Name)
				}) {
					parts = append(parts, id.Kind+"/"+id.Namespace+"/"+id.Name)
				}
				got = strings.Join(parts, " ")
			}
			if got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	}
}

// The cached rows for paths with names are bounded and stay correct.
func TestFindIsBounded(t *testing.T) {
	t1 := routesOf([]*family.Family{{Name: "named", Endpoints: []policy.Endpoint{{Kinds: []string{"V"}, Path: "/v", Stages: policy.StageValidate, ByName: true}}}})
	long := strings.Repeat("a", 1<<20)
	for i := range 20 {
		path := "/v/" + long + strings.Repeat("b", i)
		if row := t1.find(path); len(row.Policies) != 1 {
			t.Fatal(row.Policies)
		}
		kept := 0
		t1.cache.rows.Range(func(any, any) bool { kept++; return true })
		if kept > maxNamed/len(long) {
			t.Fatalf("%d long paths are kept", kept)
		}
	}
}

// A path of one family evaluates no policy of another family.
func TestFamiliesAreApart(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	other := routesOf([]*family.Family{{Name: "other", Endpoints: []policy.Endpoint{
		{Kinds: []string{"ClusterPolicy"}, Path: "/other", Stages: policy.StageValidate}, {Kinds: []string{"ClusterPolicy"}, Path: "/named", Stages: policy.StageValidate, ByName: true},
	}}})
	name := srv.snapshot().Programs()[0].Name
	if _, res := postReview(t, srv, "/validate/fail", configMap("")); res.Allowed {
		t.Fatal("the policy does not deny")
	}
	srv.routes = other
	for _, path := range []string{"/other/fail", "/other", "/named/" + name} {
		if code, res := postReview(t, srv, path, configMap("")); code != 200 || !res.Allowed {
			t.Errorf("%s: %d %+v", path, code, res)
		}
	}
}
