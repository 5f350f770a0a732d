package compile

import (
	"slices"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// Companions are objects that belong to policies, such as bindings. The zero value holds none.
type Companions struct {
	// Registry holds their families; nil for Product.
	Registry *Registry

	all []companion
}

type companion struct {
	family.Attached
	object Object
}

// Add compiles a companion. It leaves out a companion with a mistake, which the diagnostics report.
func (c *Companions) Add(o Object) diag.List {
	attached, diags := c.Registry.Companion(o)
	if !diags.HasErrors() {
		c.all = append(c.all, companion{attached, o})
	}
	return diags
}

// Of returns the contents of the companions of a policy, in the order in which they were added.
func (c *Companions) Of(id policy.ID) []any {
	var out []any
	for _, x := range c.all {
		if x.Policy == id {
			out = append(out, x.Content)
		}
	}
	return out
}

// Unattached warns of each companion whose policy is not in the list.
func (c *Companions) Unattached(policies []policy.ID) (diags diag.List) {
	for _, x := range c.all {
		if slices.Contains(policies, x.Policy) {
			continue
		}
		var found diag.List
		found.Warnf("spec.policyName", "there is no %s %s among the policies", x.Policy.Kind, x.Policy.Key())
		found.Hint("the binding has no effect")
		locate(found, x.object)
		diags.Add(found...)
	}
	return diags
}

// Companion compiles one object of a kind that CompanionOf knows. Use the result only without an error among the diagnostics.
func (r *Registry) Companion(o Object) (family.Attached, diag.List) {
	c := r.CompanionOf(typeOf(o))
	if c == nil {
		return family.Attached{}, notAPolicy(o)
	}
	attached, diags := c.Compile(o.Value)
	locate(diags, o)
	return attached, diags
}
