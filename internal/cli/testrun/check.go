package testrun

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/strict"
)

// testRow is one row of the table: the result of one expectation for one resource.
type testRow struct {
	Policy, Rule, Resource string
	Result                 string // Pass, Fail or Skip
	Reason                 string
	Message                string
	// If the row failed, the output shows the difference between want and got.
	want, got string
}

// The words of the table.
const (
	rowPass = "Pass"
	rowFail = "Fail"
	rowSkip = "Skip"

	reasonOk            = "Ok"
	reasonExcluded      = "Excluded"
	reasonInvalid       = "Invalid Policy"
	reasonNotFound      = "Not found"
	reasonDiff          = "Resource diff"
	reasonResourceError = "Resource error"
	// Reasons that only --strict has, and Kyverno does not.
	reasonNotApplied  = "Not applied"
	reasonNoRule      = "Rule not found"
	reasonNoResource  = "Resource not found"
	reasonNotCompared = "Nothing to compare"

	messageDiff = "Patched resource didn't match the patched resource in the test result"
)

// wantedResult is one entry of results while it is checked.
type wantedResult struct {
	*v1alpha1.TestResult
	policy string // the name of the policy without its namespace
	path   string // the path of the entry in the Test
	rows   []testRow
}

// check compares one expectation with the results of the policies, with the same rules as Kyverno.
func (r *testRun) check(entry *v1alpha1.TestResult, path string) {
	e := &wantedResult{TestResult: entry, policy: plainName(entry.Policy), path: path}
	defer func() { r.rows = append(r.rows, e.rows...) }()

	chosen, missing := r.choose(e)
	if i := slices.IndexFunc(r.policies.Refused, func(p load.Refusal) bool { return p.Name == e.policy }); i >= 0 {
		r.checkRefused(e, chosen, r.policies.Refused[i])
		return
	}
	if !r.hasPolicy(e.policy) {
		for _, group := range chosen {
			for _, i := range group.objects {
				e.add(testRow{Rule: e.Rule, Resource: r.resources[i].String(), Result: rowFail, Reason: reasonNotFound,
					Message: r.noPolicy(e.policy)})
			}
		}
		if len(e.rows) == 0 {
			e.add(testRow{Rule: e.Rule, Result: rowFail, Reason: reasonNotFound, Message: r.noPolicy(e.policy)})
		}
		return
	}
	if !r.hasRule(e) {
		r.doubt(e, reasonNoRule, strings.Join(e.Resources, ", "), "the policy %s has no rule %s, so that nothing is checked%s", e.policy, e.Rule, meant(e.Rule, r.rulesOf(e.policy)))
		if r.strict {
			return
		}
	}
	for _, name := range missing {
		others := ""
		if len(missing) == len(chosen) && !r.strict {
			others = ", so that all resources are checked"
		}
		r.doubt(e, reasonNoResource, name, "there is no resource %s%s%s", name, others, meant(name, r.resourceNames()))
	}
	if r.strict && len(missing) > 0 && len(missing) == len(chosen) {
		return // if no named resource exists, the expectation is not checked on all resources instead
	}
	for _, group := range chosen {
		applied := false
		for _, i := range group.objects {
			before := len(e.rows)
			applied = r.checkTarget(e, i) || applied
			if i < r.evaluated {
				applied = r.checkObject(e, i, before) || applied
			}
		}
		if !applied && r.hasRule(e) && e.Result != policy.StatusSkip.String() {
			r.doubt(e, reasonNotApplied, group.name, "none of the expected rules of the policy %s applied to %s, but the result %s is expected",
				e.policy, group.name, e.Result)
		}
	}
}

// plainName returns a name without its namespace prefix.
func plainName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// add appends a row for the expectation.
func (e *wantedResult) add(row testRow) {
	row.Policy = e.Policy
	e.rows = append(e.rows, row)
}

// doubt reports an expectation that checks less than it seems to. It adds a note, or with --strict a failure.
func (r *testRun) doubt(e *wantedResult, reason, resource, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r.strict {
		e.add(testRow{Rule: e.Rule, Resource: resource, Result: rowFail, Reason: reason, Message: text})
		return
	}
	r.notes = append(r.notes, fmt.Sprintf("%s: warning: %s (with --strict this is a failure)", r.pos(e.path), text))
}

// meant names the most similar of the names; empty if none is similar.
func meant(name string, names []string) string {
	if near := strict.Nearest(name, names); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// rulesOf returns the names of the rules that the author of a policy wrote.
func (r *testRun) rulesOf(name string) (out []string) {
	for _, p := range r.policies.Programs {
		for _, rule := range p.Rules {
			if p.Name == name && !rule.Origin.IsAutogen() {
				out = append(out, rule.Name)
			}
		}
	}
	return out
}

// resourceNames returns the names of all resources.
func (r *testRun) resourceNames() (out []string) {
	for _, o := range r.resources {
		out = append(out, o.name)
	}
	return out
}

// noPolicy returns the message for a policy that does not exist, with the most similar name or all names.
func (r *testRun) noPolicy(name string) string {
	var names []string
	for _, p := range r.policies.Programs {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	text := "there is no policy " + name
	if near := strict.Nearest(name, names); near != "" {
		return text + " (did you mean " + near + "?)"
	}
	switch {
	case len(names) == 0:
		return text + " (there is no policy in this test)"
	case len(names) > maxNames:
		return text + " (there are " + strings.Join(names[:maxNames], ", ") + " and " + strconv.Itoa(len(names)-maxNames) + " more)"
	}
	return text + " (there is " + strings.Join(names, ", ") + ")"
}

// maxNames is the number of policies that a message names.
const maxNames = 5

func (r *testRun) hasPolicy(name string) bool {
	return slices.ContainsFunc(r.policies.Programs, func(p *policy.Program) bool { return p.Name == name })
}

func (r *testRun) hasRule(e *wantedResult) bool {
	for _, p := range r.policies.Programs {
		if p.Name == e.policy && slices.ContainsFunc(p.Rules, func(rule *policy.Rule) bool { return r.covers(e, p, rule) }) {
			return true
		}
	}
	return false
}

// covers reports whether the expectation covers the rule of the policy: the rule that it names, or one generated from it. For a policy of a
// kind without rules, it covers all results, as in Kyverno.
func (r *testRun) covers(e *wantedResult, p *policy.Program, rule *policy.Rule) bool {
	if controllers, cronJobs := autogen.Derived(e.Rule); e.Rule == "" || rule.Name == e.Rule || rule.Name == controllers || rule.Name == cronJobs {
		return true
	}
	k := r.families.Kinds().Owner(p.APIVersion, p.Kind)
	return k != nil && !k.Rules
}

// chosenObjects are the resources that one name in an expectation selects.
type chosenObjects struct {
	name    string
	objects []int
}

// choose finds the resources that the expectation covers. If none of its names matches, or it has no names, it covers
// all resources. missing are the names that match nothing.
func (r *testRun) choose(e *wantedResult) (groups []chosenObjects, missing []string) {
	seen := map[int]bool{}
	add := func(name string, fits func(*testObject) bool) {
		g := chosenObjects{name: name}
		found := false
		for i, o := range r.resources {
			if fits(o) {
				found = true
				if !seen[i] {
					seen[i] = true
					g.objects = append(g.objects, i)
				}
			}
		}
		if !found {
			missing = append(missing, name)
		}
		if len(g.objects) > 0 || !found {
			groups = append(groups, g)
		}
	}
	for _, name := range e.Resources {
		namespace, plain, qualified := strings.Cut(name, "/")
		add(name, func(o *testObject) bool {
			if o.payload != policy.NoPayload {
				return o.name == filepath.Clean(name)
			}
			return !qualified && (o.name == name || o.request != nil && o.request.UID == name) || qualified && o.namespace == namespace && o.name == plain
		})
	}
	for _, s := range e.ResourceSpecs {
		name := s.Name
		if s.Namespace != "" {
			name = s.Namespace + "/" + name
		}
		add(name, func(o *testObject) bool {
			return o.group() == s.Group && o.apiVersion[strings.LastIndexByte(o.apiVersion, '/')+1:] == s.Version &&
				o.namespace == s.Namespace && o.name == s.Name
		})
	}
	if len(seen) > 0 {
		return groups, missing
	}
	all := chosenObjects{name: "any resource"}
	for i := range r.resources {
		all.objects = append(all.objects, i)
	}
	if r.strict && len(missing) > 0 {
		return groups, missing
	}
	return []chosenObjects{all}, missing
}

// checkRefused handles an expectation for a policy that is not applied because of a mistake. Kyverno lets such expectations pass.
func (r *testRun) checkRefused(e *wantedResult, chosen []chosenObjects, p load.Refusal) {
	row := testRow{Rule: e.Rule, Result: rowSkip, Reason: reasonInvalid, Message: p.Reason()}
	if r.strict {
		row.Result = rowFail
	}
	for _, group := range chosen {
		for _, i := range group.objects {
			row.Resource = r.resources[i].String()
			e.add(row)
		}
	}
	if len(e.rows) == 0 {
		e.add(row)
	}
}

// checkObject compares the expectation with all answers for one resource, and reports whether the resource needs no further note: a rule
// that the expectation covers applied to it, or there is a row that fails. before is the number of rows before the first row for the
// resource.
func (r *testRun) checkObject(e *wantedResult, i, before int) bool {
	object, applied, responded := r.resources[i], false, false
	if object.request != nil && e.Operation != "" && object.request.Operation != policy.Operation(e.Operation) {
		return false // it was not evaluated
	}
	for _, a := range r.answers[policy.Operation(e.Operation)][i] {
		if a.Program.Name != e.policy {
			continue
		}
		n := 0
		for k := range a.Results {
			result := &a.Results[k]
			if !r.covers(e, a.Program, result.Rule) {
				continue
			}
			n++
			if result.Rule.Stage == policy.StageMutateExisting && k > 0 && a.Results[k-1].Rule == result.Rule {
				continue // there is one result for each target, and targets are checked separately
			}
			r.checkResult(e, object, &a, result)
		}
		applied = applied || n > 0
		if len(a.Results) == 0 && silent(&a) {
			continue
		}
		responded = true
		if n == 0 && len(e.rows) == before {
			e.add(testRow{Rule: e.Rule, Resource: object.String(), Result: rowPass, Reason: reasonExcluded})
		}
	}
	if r.strict && applied { // another stage of the policy had no result for the rule
		kept := slices.DeleteFunc(slices.Clone(e.rows[before:]), func(row testRow) bool { return row.Reason == reasonExcluded })
		e.rows = append(e.rows[:before], kept...)
	}
	if !responded && len(e.rows) == before {
		e.add(testRow{Rule: e.Rule, Resource: object.String(), Result: rowFail, Reason: reasonNotFound,
			Message: "the policy " + e.policy + " has no result for this resource, because it does not match the resource"})
		return true
	}
	return applied
}

// silent reports whether policies have no response for a resource that none of their rules of these stages matches (policy.Offline).
func silent(a *offline.Answer) bool {
	for _, rule := range a.Program.Rules {
		if a.Stage.Has(rule.Stage) && !rule.Stage.Has(policy.StageGenerate|policy.StageDelete) && !rule.Offline.Silent {
			return false
		}
	}
	return true
}

// checkResult compares one result with the expectation.
func (r *testRun) checkResult(e *wantedResult, object *testObject, a *offline.Answer, result *policy.Result) {
	if result.Rule.Stage == policy.StageGenerate && r.checkGenerated(e, result) {
		return
	}
	row := testRow{Rule: result.Rule.Name, Resource: object.String(), Message: result.Message}
	if result.Rule.Stage == policy.StageDelete {
		row.Rule = ""
	}
	if e.PatchedResources != "" && a.Stage != policy.StageGenerate {
		if failed, kept := r.comparePatched(e, &row, a); failed || !kept {
			if kept {
				e.add(row)
			}
			return
		}
	}
	e.evaluate(&row, Status(result))
	e.add(row)
}

// evaluate compares the status with the expected one.
func (e *wantedResult) evaluate(row *testRow, got string) {
	row.Result, row.Reason = rowPass, reasonOk
	if got != e.Result {
		row.Result, row.Reason = rowFail, "Want "+e.Result+", got "+got
		row.want, row.got = e.Result+"\n", got+": "+row.Message+"\n"
	}
}

// Status returns the status that a report shows. A failure of an unscored policy becomes a warning.
func Status(r *policy.Result) string {
	if r.Status == policy.StatusFail && !r.Program.Settings.Scored {
		return policy.StatusWarn.String()
	}
	return r.Status.String()
}
