package convert

import (
	"context"
	"fmt"
	"io"
	"maps"

	"github.com/ephor-dev/ephor/internal/cli/offline"
	"github.com/ephor-dev/ephor/internal/clivalues"
	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/family/convert"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/schema"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world/fixed"
)

// prover compares policies on resources.
type prover struct {
	given   []map[string]any
	known   *schema.Kinds
	samples int
	seed    int64

	namespaces map[string]map[string]string // labels of the namespaces of all resources
}

// oneRule is a classic policy with one of its rules only.
func oneRule(object map[string]any, index int) map[string]any {
	out := maps.Clone(object)
	spec, _ := object["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	kept := maps.Clone(spec)
	kept["rules"] = []any{rules[index]}
	out["spec"] = kept
	return out
}

func compiled(object map[string]any) (*policy.Program, diag.List) {
	return compile.One(compile.Object{Value: object})
}

// maxShown is the number of differences that are shown of a rule.
const maxShown = 3

// compare evaluates both policies on all resources, writes the differences, and reports whether there are none.
func (p prover) compare(ctx context.Context, w io.Writer, where string, original map[string]any, rule convert.Rule) (bool, error) {
	classic, diags := compiled(original)
	if diags.HasErrors() {
		return false, diags.Errors().Err()
	}
	cel, diags := compiled(rule.Policy)
	if diags.HasErrors() {
		for _, d := range diags.Errors() {
			fmt.Fprintf(w, "%s: the converted policy has a mistake: %s\n", where, d.String())
		}
		return false, nil
	}
	objects := append(newSampler(p, original, rule.Uncovered, classic, cel).objects(p.samples), p.given...)
	namespaces := map[string]map[string]string{}
	for _, o := range objects {
		metadata, _ := o["metadata"].(map[string]any)
		if name, _ := metadata["namespace"].(string); name != "" {
			namespaces[name] = map[string]string{"kubernetes.io/metadata.name": name}
		}
	}
	p.namespaces = namespaces
	differences, applied, denied := 0, 0, 0
	for i, o := range objects {
		before, err := p.verdict(ctx, classic, o)
		if err != nil {
			return false, err
		}
		after, err := p.verdict(ctx, cel, o)
		if err != nil {
			return false, err
		}
		if before.applied {
			applied++
		}
		if before.violated {
			denied++
		}
		if before.violated == after.violated {
			continue
		}
		if differences++; differences > maxShown {
			continue
		}
		origin := "made for the comparison"
		if i >= len(objects)-len(p.given) {
			origin = "given"
		}
		fmt.Fprintf(w, "%s: a difference in a resource that was %s: the classic rule says %s, the policy in CEL says %s\n  %s\n", where, origin, before, after, value.JSON(o))
	}
	fmt.Fprintf(w, "%s: %d resources compared, %d of them matched, %d violating, %d different\n", where, len(objects), applied, denied, differences)
	return differences == 0, nil
}

// verdict is what a policy says of a resource.
type verdict struct {
	applied  bool // some rule matches
	violated bool // some rule fails, or has no value
	message  string
}

func (v verdict) String() string {
	switch {
	case v.violated:
		return "fail (" + v.message + ")"
	case v.applied:
		return "pass"
	}
	return "nothing"
}

// verdict evaluates the creation of a resource. The world has its Namespace and the given resources.
func (p prover) verdict(ctx context.Context, program *policy.Program, object map[string]any) (verdict, error) {
	e := offline.New([]*policy.Program{program}, fixed.New(fixed.Values{
		Now: offline.Now, NamespaceLabels: p.namespaces, Objects: func() ([]map[string]any, error) { return p.given, nil },
	}), clivalues.New(nil, nil))
	answers, err := e.Each(ctx, object, policy.Create)
	if err != nil {
		return verdict{}, err
	}
	var out verdict
	for i := range answers {
		for _, r := range answers[i].Results {
			out.applied = true
			if offline.Unsuccessful(r) && !out.violated {
				out.violated, out.message = true, r.Message
			}
		}
	}
	return out, nil
}
