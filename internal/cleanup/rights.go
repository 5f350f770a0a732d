package cleanup

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// never is the time of what is not done again: a check of rights none of which is missing, since a run notices that a right was withdrawn, and a
// failed run whose schedule has no further time.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// checked reports whether the status of a policy has the result of its check of rights, and when the next check is due.
func (c *Controller) checked(e *policyState) (at time.Time, ok bool) {
	return e.check, c.Missing != nil && e.of.Rights != nil && e.check != never
}

// checkRights checks which rights the runs of a policy lack.
func (c *Controller) checkRights(ctx context.Context, e *policyState, _ *unstructured.Unstructured) outcome {
	missing, err := c.Missing(ctx, e.program)
	if err != nil {
		c.Log.Warn("the rights of a policy could not be looked up", "policy", e.program.Key(), "error", err)
		return outcome{rights: &metav1.Condition{}, failed: err}
	}
	condition := e.of.Rights(missing)
	return outcome{rights: &condition, lacking: len(missing) > 0}
}

// Right is a right that a run needs. An empty Namespace or Name stands for all.
type Right struct {
	Verb            string
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// maxRights bounds the number of rights that are checked for one policy.
const maxRights = 200

// MissingRights checks the rights to list and delete the resources that the policy names, if they are served.
func MissingRights(ctx context.Context, p *policy.Program, served discovery.Resources, allowed func(context.Context, Right) (ok bool, reason string, err error)) (out []family.MissingRight, err error) {
	asked := map[Right]bool{}
	for _, rule := range p.Rules {
		for i := range rule.Targets {
			t := &rule.Targets[i]
			if !t.ByResource() || !t.Main() {
				continue
			}
			if found, err := served.Find(t.WithoutSubresource()); err != nil {
				return nil, fmt.Errorf("find %s: %w", t.String(), err)
			} else if len(found) == 0 {
				continue
			}
			names := t.OnlyNames()
			if names == nil {
				names = []string{""}
			}
			resource := schema.GroupVersionResource{Group: t.Group, Version: t.Version, Resource: t.Resource}
			for _, verb := range []string{"list", "delete"} {
				for _, name := range names {
					right := Right{verb, resource, p.Namespace, name}
					if asked[right] || len(asked) >= maxRights {
						continue
					}
					asked[right] = true
					ok, reason, err := allowed(ctx, right)
					if err != nil {
						return nil, fmt.Errorf("ask for the right to %s %s: %w", verb, resource.GroupResource(), err)
					}
					if !ok {
						out = append(out, family.MissingRight{Verb: verb, Resource: resource, Reason: reason})
						break
					}
				}
			}
		}
	}
	return out, nil
}
