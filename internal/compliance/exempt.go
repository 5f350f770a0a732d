package compliance

import (
	"cmp"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/policy"
)

// Exempt counts the objects that one exception exempts, by the results of reports. Reports name exceptions without their namespaces, so an
// exception of the same name from the same policy counts them, too.
type Exempt struct {
	// Name is the name of the exception. From reports whether it is for a policy, which is given as reports name it.
	Name string
	From func(policy string) bool
	// Keep keeps the results.
	Keep    bool
	Results []Result

	objects map[Resource]Status // without exceptions; empty if that is not known
	rules   map[string]bool
}

// Exceptions returns the names of the exceptions that exempt the object of the result.
func (r *Result) Exceptions() []string {
	names := r.Properties[policy.PropertyExceptions]
	if names == "" {
		return nil
	}
	return strings.Split(names, ",")
}

// Add counts a result if the exception exempts its object.
func (x *Exempt) Add(r Result) {
	if !slices.Contains(r.Exceptions(), x.Name) || !x.From(r.Policy) {
		return
	}
	if x.objects == nil {
		x.objects, x.rules = map[Resource]Status{}, map[string]bool{}
	}
	if x.Keep {
		x.Results = append(x.Results, r)
	}
	without := Status(r.Properties[policy.PropertyWithoutException])
	if known := x.objects[r.Resource]; known == "" || needs(without) {
		x.objects[r.Resource] = cmp.Or(without, known)
	}
	x.rules[r.Policy+"/"+r.Rule] = true
}

// needs reports whether an object with the status without exceptions needs one.
func needs(without Status) bool { return without != "" && without != Pass && without != Skip }

// Count returns the number of objects, and of those that are known to need the exception or not.
func (x *Exempt) Count() (objects, needed, unneeded int) {
	for _, without := range x.objects {
		switch {
		case needs(without):
			needed++
		case without != "":
			unneeded++
		}
	}
	return len(x.objects), needed, unneeded
}

// Rules returns the rules from which objects are exempt, as policy/rule, sorted.
func (x *Exempt) Rules() []string {
	out := make([]string, 0, len(x.rules))
	for r := range x.rules {
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}
