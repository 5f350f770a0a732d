// Package rollout answers what a team asks before it switches a policy from Audit to Enforce: what would be refused, in which
// namespaces and whose, and is it safe.
//
//	c := rollout.New(rollout.Options{Policy: "require-team", Program: program, Keep: 1000})
//	for _, r := range reports {
//		c.Add(r)
//	}
//	c.Count(requests)                                                       // what requests show, when there are metrics
//	plan := c.Plan(ctx)
//	plan.Own(ctx, &rollout.Owners{Read: read, Label: "team", Limit: 2000}) // whose
//	plan.Evaluate(rollout.Facts{…})                                            // the figures of the usual guide, and a verdict
//
// What is not known is listed as lacking, and where it could change the answer the verdict is unknown, never safe.
//
// It evaluates no resource (the scan did) and changes nothing.
//
// Floor 6: imports compliance, policy and floor 0.
package rollout
