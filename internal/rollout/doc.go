// Package rollout predicts the effect of switching a policy from Audit to Enforce: which resources would be denied, in which
// namespaces, who owns them, and whether the switch is safe.
//
//	c := rollout.New(rollout.Options{Policy: "require-team", Program: program, Keep: 1000})
//	for _, r := range reports {
//		c.Add(r)
//	}
//	c.Count(requests)                                                       // results of requests, if there are metrics
//	plan := c.Plan(ctx)
//	plan.Own(ctx, &rollout.Owners{Read: read, Label: "team", Limit: 2000}) // the owners
//	plan.Evaluate(rollout.Facts{…})                                            // the figures of the usual guide, and a verdict
//
// Missing information is listed, and if it could change the answer the verdict is unknown, never safe.
//
// It evaluates no resource (the scan did) and changes nothing.
//
// Floor 6: imports compliance, policy and floor 0.
package rollout
