package index

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
)

func compiledProgram(name string, d kyvernov1.ResourceDescription, exclude ...kyvernov1.ResourceFilter) *policy.Program {
	m, diags := match.Compile(kyvernov1.MatchResources{Any: []kyvernov1.ResourceFilter{{ResourceDescription: d}}},
		&kyvernov1.MatchResources{Any: exclude}, "", "spec.rules[0]")
	if diags.HasErrors() {
		panic(diags.Error())
	}
	return &policy.Program{Name: name, Settings: policy.Settings{Admission: true}, Rules: []*policy.Rule{
		{Name: "r", Stage: policy.StageValidate, Matching: policy.Matching{Match: m.Match, Targets: m.Targets(), Excludes: m.Excludes()}},
	}}
}

// BenchmarkIndex measures lookups in which one policy matches the Pod; each case excludes the others in another way. The cost must
// hardly depend on their number.
func BenchmarkIndex(b *testing.B) {
	pod := []string{"Pod"}
	for _, c := range []struct {
		name    string
		other   func(i int) kyvernov1.ResourceDescription
		exclude []kyvernov1.ResourceFilter
	}{
		{"kind", func(i int) kyvernov1.ResourceDescription {
			return kyvernov1.ResourceDescription{Kinds: []string{fmt.Sprint("Kind", i%40)}}
		}, nil},
		{"name", func(i int) kyvernov1.ResourceDescription {
			return kyvernov1.ResourceDescription{Kinds: pod, Names: []string{fmt.Sprint("other-", i)}}
		}, nil},
		{"namespace", func(i int) kyvernov1.ResourceDescription {
			return kyvernov1.ResourceDescription{Kinds: pod, Namespaces: []string{fmt.Sprint("other-", i)}}
		}, nil},
		{"label", func(i int) kyvernov1.ResourceDescription {
			return kyvernov1.ResourceDescription{Kinds: pod, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("other-", i)}}}
		}, nil},
		{"label-key", func(i int) kyvernov1.ResourceDescription {
			return kyvernov1.ResourceDescription{Kinds: pod, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{fmt.Sprint("key-", i): "x"}}}
		}, nil},
		{"wildcard-namespace", func(i int) kyvernov1.ResourceDescription {
			return kyvernov1.ResourceDescription{Kinds: pod, Namespaces: []string{fmt.Sprintf("other-%d-*", i)}}
		}, nil},
		{"operation", func(i int) kyvernov1.ResourceDescription {
			return kyvernov1.ResourceDescription{Kinds: pod, Operations: []kyvernov1.AdmissionOperation{"DELETE"}}
		}, nil},
		{"none", func(i int) kyvernov1.ResourceDescription { return kyvernov1.ResourceDescription{Kinds: pod} }, nil},
		{"exclude", func(i int) kyvernov1.ResourceDescription { return kyvernov1.ResourceDescription{Kinds: pod} },
			[]kyvernov1.ResourceFilter{{ResourceDescription: kyvernov1.ResourceDescription{Namespaces: []string{"kube-*", "default"}}}}},
	} {
		for _, n := range []int{1, 10, 100, 300, 1000} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				programs := []*policy.Program{compiledProgram("match", kyvernov1.ResourceDescription{Kinds: pod})}
				for i := 1; i < n; i++ {
					programs = append(programs, compiledProgram(fmt.Sprintf("other-%d", i), c.other(i), c.exclude...))
				}
				index := New(programs)
				r := podRequest("web-7d9f", "default", map[string]any{"app": "web", "pod-template-hash": "7d9f", "tier": "front"})
				b.ReportAllocs()
				for b.Loop() {
					if len(index.Lookup(r, policy.StageValidate)) == 0 {
						b.Fatal("nothing found")
					}
				}
			})
		}
	}
}

// BenchmarkIndexWith measures one policy change among n, and the first lookup after it.
func BenchmarkIndexWith(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var programs []*policy.Program
			for i := range n {
				programs = append(programs, compiledProgram(fmt.Sprintf("p-%d", i), kyvernov1.ResourceDescription{Kinds: []string{fmt.Sprint("Kind", i%40), "Pod"}}))
			}
			index := New(programs)
			r := podRequest("web", "default", nil)
			b.ReportAllocs()
			for b.Loop() {
				index = index.With(programs[:1], programs[:1])
				index.Lookup(r, policy.StageValidate)
			}
		})
	}
}
