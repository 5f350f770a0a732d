package updaterequest

import (
	"github.com/ephor-dev/ephor/internal/policy"
)

// Reporter takes the results of what was carried out, for the reports about the triggers. It never waits; nil for nobody.
type Reporter interface {
	Put(req *policy.Request, results []policy.Result)
}

// grave orders statuses: of the results about several targets the gravest is told.
var grave = map[policy.Status]int{
	policy.StatusSkip: 1, policy.StatusPass: 2, policy.StatusWarn: 3, policy.StatusFail: 4, policy.StatusError: 5,
}

// report tells what became of a rule for one trigger: the result of its evaluation, or why what it asked for could not be
// done. Reports hold one result of a rule for an object, so that those about several targets are one.
func (w *Worker) report(t *task, req *policy.Request, out *policy.Outcome, err error) {
	if w.Reports == nil || err != nil && onlyConflicts(err) {
		return
	}
	result := policy.Result{Program: t.program, Rule: t.rule}
	for i := range out.Results {
		if r := &out.Results[i]; grave[r.Status] > grave[result.Status] {
			result = *r
		}
	}
	if err != nil {
		result.Status, result.Message, result.Path = policy.StatusError, err.Error(), ""
	}
	if result.Status == policy.StatusNone {
		return
	}
	result.Object, result.Work, result.Also = nil, nil, nil // they may be large, and are nobody's business any more
	w.Reports.Put(req, []policy.Result{result})
}
