package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

func always(context.Context, *policy.Request) (bool, error) { return true, nil }

func yields(s policy.Status, msg string) func(*policy.Call) policy.Yield {
	return func(*policy.Call) policy.Yield { return policy.Yield{Status: s, Message: msg} }
}

func rule(name string, eval func(*policy.Call) policy.Yield) *policy.Rule {
	return &policy.Rule{Name: name, Stage: policy.StageValidate, Matching: policy.Matching{Match: always}, Eval: eval, Effect: policy.Effect{Action: policy.ActionPlan{Default: policy.Deny}}}
}

func program(rules ...*policy.Rule) policy.Selection {
	return policy.Selection{Program: &policy.Program{Name: "p", Rules: rules}, Rules: rules}
}

func request(op policy.Operation) *policy.Request {
	obj := value.Of(map[string]any{"v": "new"})
	old := value.Of(map[string]any{"v": "old"})
	r := &policy.Request{Review: policy.Review{Operation: op, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "ns", Name: "x"}}
	if op != policy.Delete {
		r.Object = obj
	}
	if op == policy.Update || op == policy.Delete {
		r.OldObject = old
	}
	return r
}

func eval(req *policy.Request, s ...policy.Selection) policy.Outcome {
	return Eval(context.Background(), Input{Selections: s, Request: req, Stages: policy.StageValidate})
}

func statuses(o policy.Outcome) string {
	var b []string
	for _, r := range o.Results {
		b = append(b, r.Rule.Name+"="+r.Status.String())
	}
	return strings.Join(b, " ")
}

func TestEval(t *testing.T) {
	noMatch := rule("unmatched", yields(policy.StatusFail, ""))
	noMatch.Match = func(context.Context, *policy.Request) (bool, error) { return false, nil }
	lookup := rule("lookup", yields(policy.StatusPass, ""))
	lookup.Match = func(context.Context, *policy.Request) (bool, error) { return false, errors.New("no namespace") }
	panics := rule("panics", func(*policy.Call) policy.Yield { panic("a bug") })
	onlyMutate := rule("mutate", yields(policy.StatusFail, ""))
	onlyMutate.Stage = policy.StageMutate
	skipsDelete := rule("pattern", yields(policy.StatusFail, ""))
	skipsDelete.SkipOnDelete = true
	pass, fail := rule("pass", yields(policy.StatusPass, "")), rule("fail", yields(policy.StatusFail, ""))
	skip, broken := rule("skip", yields(policy.StatusSkip, "")), rule("broken", yields(policy.StatusError, ""))
	one := program(skip, broken, pass, fail)
	one.Program.Settings.ApplyOne = true

	for _, c := range []struct {
		name string
		op   policy.Operation
		sel  policy.Selection
		want string
	}{
		{"a rule that does not match has no result", policy.Create, program(noMatch, pass), "pass=pass"},
		{"a lookup that failed is an error, never no match", policy.Create, program(lookup), "lookup=error"},
		{"a panic costs only its rule", policy.Create, program(panics, pass), "panics=error pass=pass"},
		{"other stages are passed over", policy.Create, program(onlyMutate), ""},
		{"a pattern has no result on DELETE", policy.Delete, program(skipsDelete, pass), "pass=pass"},
		{"applyRules One stops after pass or fail, not after skip or error", policy.Create, one, "skip=skip broken=error pass=pass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := statuses(eval(request(c.op), c.sel)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A violation that the old object already had does not block an update.
func TestPreExistingViolations(t *testing.T) {
	evaluate := func(old policy.Yield) policy.Outcome {
		r := rule("r", func(s *policy.Call) policy.Yield {
			obj, _ := s.Request.Object.Map()
			if obj["v"] == "old" {
				if s.Request.Subresource != "" {
					t.Errorf("an object is created as a whole, not as %q", s.Request.Subresource)
				}
				if s.Request.Operation != policy.Create || s.Request.OldObject != nil || s.Request.User == nil || s.Request.User.Username != "" {
					t.Errorf("the old object is not evaluated as a creation by a user whom nothing matches: %+v", s.Request)
				}
				return old
			}
			return policy.Yield{Status: policy.StatusFail, Message: "bad"}
		})
		r.AllowExisting = true
		update := request(policy.Update)
		update.Subresource = "ephemeralcontainers"
		return eval(update, program(r))
	}
	for _, c := range []struct {
		old     policy.Yield
		status  policy.Status
		message string
	}{
		{policy.Yield{Status: policy.StatusFail}, policy.StatusSkip, "skipping the rule evaluation as pre-existing violations are allowed"},
		{policy.Yield{Status: policy.StatusError, Message: "no value"}, policy.StatusFail, "bad (it is not known whether the old object violated the rule: no value)"},
		{policy.Yield{Status: policy.StatusPass}, policy.StatusFail, "bad"},
		{policy.Yield{Status: policy.StatusSkip}, policy.StatusFail, "bad"},
		{policy.Yield{}, policy.StatusFail, "bad"},
	} {
		got := evaluate(c.old).Results[0]
		if got.Status != c.status || got.Message != c.message {
			t.Errorf("old object %s: got %s %q, want %s %q", c.old.Status, got.Status, got.Message, c.status, c.message)
		}
	}
}

// Each rule sees the object as earlier rules changed it; a policy with an error changes nothing.
func TestMutationIsThreaded(t *testing.T) {
	appends := func(suffix string, status policy.Status) *policy.Rule {
		return rule(suffix, func(s *policy.Call) policy.Yield {
			obj, _ := s.Request.Object.Map()
			return policy.Yield{Status: status, Object: value.Of(map[string]any{"v": obj["v"].(string) + suffix})}
		})
	}
	out := eval(request(policy.Create), program(appends("-a", policy.StatusPass), appends("-b", policy.StatusPass)),
		program(appends("-c", policy.StatusPass), appends("-broken", policy.StatusError), appends("-d", policy.StatusPass)),
		program(appends("-e", policy.StatusPass)))
	obj, err := out.Object.Map()
	if err != nil || obj["v"] != "new-a-b-e" {
		t.Errorf("got %v %v", obj, err)
	}
	if got, _ := out.Request.Object.Map(); got["v"] != "new" {
		t.Errorf("the request was changed to %v", got)
	}
}

// A failed patch ends its policy, since there is no object for the next rule; an error before the patch does not.
func TestMutationErrors(t *testing.T) {
	mutates := func(name string, y policy.Yield) *policy.Rule {
		r := rule(name, func(*policy.Call) policy.Yield { return y })
		r.Stage = policy.StageMutate
		return r
	}
	object := value.Of(map[string]any{})
	pass := mutates("pass", policy.Yield{Status: policy.StatusPass, Object: object})
	run := func(broken policy.Yield) policy.Outcome {
		return Eval(context.Background(), Input{
			Selections: []policy.Selection{program(mutates("broken", broken), pass)}, Request: request(policy.Create), Stages: policy.StageMutate,
		})
	}
	if got := statuses(run(policy.Yield{Status: policy.StatusError, Object: object})); got != "broken=error" {
		t.Errorf("after a patch that failed: %s", got)
	}
	out := run(policy.Yield{Status: policy.StatusError})
	if got := statuses(out); got != "broken=error pass=pass" || out.Object != out.Request.Object {
		t.Errorf("after an error before the patch: %s, %v", got, out.Object)
	}
}

func TestDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	endless := rule("endless", func(s *policy.Call) policy.Yield {
		<-ctx.Done() // on a busy machine, the timer may fire after the end of the budget
		for {
			if err := s.Env.Meter.Step(1); err != nil {
				return policy.Yield{Status: policy.StatusError, Message: err.Error()}
			}
		}
	})
	// Without a deadline, the step budget ends the rule; with one, the deadline does, and later rules are errors, not passes.
	out := Eval(ctx, Input{Selections: []policy.Selection{program(endless, rule("later", yields(policy.StatusPass, "")))}, Request: request(policy.Create), Stages: policy.StageValidate})
	if got := statuses(out); got != "endless=error later=error" {
		t.Errorf("got %q", got)
	}
	if d := Decide(&out, ValidateWording); d.Allowed {
		t.Error("a policy with failurePolicy Fail that ran out of time let the request pass")
	}
	byAction, ignored := rule("own", yields(policy.StatusPass, "")), program()
	byAction.OnError, ignored.Rules, ignored.Program.Settings.FailurePolicy = policy.ErrorByAction, []*policy.Rule{byAction}, policy.Ignore
	out = Eval(ctx, Input{Selections: []policy.Selection{ignored}, Request: request(policy.Create), Stages: policy.StageValidate})
	if d := Decide(&out, ValidateWording); statuses(out) != "own=error" || !d.Allowed {
		t.Errorf("a policy with failurePolicy Ignore that ran out of time denies the request: %s %+v", statuses(out), d)
	}
	out = eval(request(policy.Create), program(endless))
	if got := out.Results[0].Message; !strings.Contains(got, "budget exhausted") {
		t.Errorf("the step budget did not end the rule: %q", got)
	}
}

func TestActionNeedsNamespaceLabels(t *testing.T) {
	r := rule("r", yields(policy.StatusFail, "bad"))
	r.Action = policy.ActionPlan{Default: policy.Audit, Overrides: []policy.ActionOverride{{Action: policy.Deny, Selector: func(l map[string]string) bool { return l["env"] == "prod" }}}}
	for _, c := range []struct {
		resolve func(context.Context) (map[string]string, error)
		status  policy.Status
		action  policy.Action
	}{
		{func(context.Context) (map[string]string, error) { return map[string]string{"env": "prod"}, nil }, policy.StatusFail, policy.Deny},
		{func(context.Context) (map[string]string, error) { return nil, nil }, policy.StatusFail, policy.Audit},
		{func(context.Context) (map[string]string, error) { return nil, errors.New("gone") }, policy.StatusError, policy.Deny},
	} {
		req := request(policy.Create)
		req.ResolveNamespace = c.resolve
		got := eval(req, program(r)).Results[0]
		if got.Status != c.status || got.Action != c.action {
			t.Errorf("got %s/%s, want %s/%s", got.Status, got.Action, c.status, c.action)
		}
	}
}

func TestReachOfTheWorld(t *testing.T) {
	var reaches []world.Reach
	root := world.RootFunc(func(r world.Reach) world.World { reaches = append(reaches, r); return world.World{} })
	cluster, namespaced := program(rule("a", yields(policy.StatusPass, "")), rule("b", yields(policy.StatusPass, ""))), program(rule("c", yields(policy.StatusPass, "")))
	namespaced.Program.Namespace = "team"
	Eval(context.Background(), Input{Selections: []policy.Selection{cluster, namespaced}, Request: request(policy.Create), Stages: policy.StageValidate, Root: root})
	if len(reaches) != 2 || !reaches[0].IsCluster() || reaches[1] != world.InNamespace("team") {
		t.Errorf("worlds were made for %+v, want one for the cluster and one for namespace team", reaches)
	}
}

// The results that deny a request.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  policy.Status
		action  policy.Action
		failure policy.FailurePolicy
		allowed bool
	}{
		{"an enforced failure blocks", policy.StatusFail, policy.Deny, policy.Fail, false},
		{"an enforced failure blocks regardless of failurePolicy", policy.StatusFail, policy.Deny, policy.Ignore, false},
		{"an audited failure does not block", policy.StatusFail, policy.Audit, policy.Fail, true},
		{"an error blocks with failurePolicy Fail", policy.StatusError, policy.Audit, policy.Fail, false},
		{"an error passes with failurePolicy Ignore", policy.StatusError, policy.Deny, policy.Ignore, true},
		{"a skip passes", policy.StatusSkip, policy.Deny, policy.Fail, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rule("r", yields(c.status, "why"))
			r.Action.Default = c.action
			s := program(r)
			s.Program.Settings.FailurePolicy = c.failure
			out := eval(request(policy.Create), s)
			d := Decide(&out, ValidateWording)
			if d.Allowed != c.allowed {
				t.Errorf("allowed = %v", d.Allowed)
			}
			if !d.Allowed && d.Message != "\n\nresource Pod/ns/x was blocked due to the following policies \n\np:\n  r: why\n" {
				t.Errorf("message %q", d.Message)
			}
		})
	}
}

// Each rule defines the meaning of an error, and an action may have several effects.
func TestActionsAndErrors(t *testing.T) {
	const warning = "policy p.r: why"
	for _, c := range []struct {
		name    string
		status  policy.Status
		action  policy.Action
		onError policy.ErrorMeaning
		own     policy.FailurePolicy // of the rule's policy
		any     policy.FailurePolicy // of the request
		allowed bool
		warns   bool
	}{
		{"no effect", policy.StatusFail, 0, policy.ErrorByAny, policy.Fail, policy.Fail, true, false},
		{"audit", policy.StatusFail, policy.Audit, policy.ErrorByAny, policy.Fail, policy.Fail, true, false},
		{"warn", policy.StatusFail, policy.Warn, policy.ErrorByAny, policy.Fail, policy.Fail, true, true},
		{"audit and warn", policy.StatusFail, policy.Audit | policy.Warn, policy.ErrorByAny, policy.Fail, policy.Fail, true, true},
		{"audit and warn, passed", policy.StatusPass, policy.Audit | policy.Warn, policy.ErrorByAny, policy.Fail, policy.Fail, true, false},
		{"audit and warn, skipped", policy.StatusSkip, policy.Audit | policy.Warn, policy.ErrorByAny, policy.Fail, policy.Fail, true, false},
		{"deny and audit", policy.StatusFail, policy.Deny | policy.Audit, policy.ErrorByAny, policy.Ignore, policy.Ignore, false, false},
		{"deny and warn", policy.StatusFail, policy.Deny | policy.Warn, policy.ErrorByAny, policy.Ignore, policy.Ignore, false, false},
		{"by any: another policy fails", policy.StatusError, policy.Audit, policy.ErrorByAny, policy.Ignore, policy.Fail, false, false},
		{"by any: all ignore", policy.StatusError, policy.Deny, policy.ErrorByAny, policy.Ignore, policy.Ignore, true, false},
		{"by own: another policy fails", policy.StatusError, policy.Deny, policy.ErrorByOwn, policy.Ignore, policy.Fail, true, false},
		{"by own: it fails", policy.StatusError, policy.Audit, policy.ErrorByOwn, policy.Fail, policy.Fail, false, false},
		{"by action: deny", policy.StatusError, policy.Deny, policy.ErrorByAction, policy.Ignore, policy.Ignore, false, false},
		{"by action: audit", policy.StatusError, policy.Audit, policy.ErrorByAction, policy.Fail, policy.Fail, true, false},
		{"by action: warn", policy.StatusError, policy.Warn, policy.ErrorByAction, policy.Fail, policy.Fail, true, true},
		{"images, by any: audit", policy.StatusError, policy.Audit, policy.ErrorByAny, policy.Fail, policy.Fail, true, true},
		{"images, by any: deny", policy.StatusError, policy.Deny, policy.ErrorByAny, policy.Fail, policy.Fail, false, false},
		{"images, by any: all ignore", policy.StatusError, policy.Deny, policy.ErrorByAny, policy.Ignore, policy.Ignore, true, false},
		{"images, by action: audit", policy.StatusError, policy.Audit, policy.ErrorByAction, policy.Fail, policy.Fail, true, true},
		{"images: a failure is audited", policy.StatusFail, policy.Audit, policy.ErrorByAny, policy.Fail, policy.Fail, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &policy.Program{Name: "p", Settings: policy.Settings{FailurePolicy: c.own}}
			images := strings.HasPrefix(c.name, "images")
			r := policy.Result{Program: p, Rule: &policy.Rule{Name: "r", Effect: policy.Effect{OnError: c.onError, VerifiesImages: images}}, Action: c.action, Yield: policy.Yield{Status: c.status, Message: "why"}}
			d := Decide(&policy.Outcome{Request: request(policy.Create), Results: []policy.Result{r}, FailurePolicy: c.any}, ValidateWording)
			if d.Allowed != c.allowed || (len(d.Warnings) == 1 && d.Warnings[0] == warning) != c.warns || len(d.Warnings) > 1 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// A rule that verifies images and only audits leaves half of the time to the rules after it.
func TestImagesLeaveTime(t *testing.T) {
	outer, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	end, _ := outer.Deadline()
	left := map[string]time.Duration{}
	named := func(name string, a policy.Action) *policy.Rule {
		r := rule(name, func(c *policy.Call) policy.Yield {
			at, _ := c.Context().Deadline()
			left[name] = end.Sub(at).Round(time.Minute)
			return policy.Yield{Status: policy.StatusPass}
		})
		r.VerifiesImages, r.Action.Default = true, a
		return r
	}
	s := program(named("audits", policy.Audit), named("audits too", policy.Audit), named("denies", policy.Deny))
	Eval(outer, Input{Selections: []policy.Selection{s}, Request: request(policy.Create), Stages: policy.StageValidate, Now: time.Now})
	if left["audits"] != 30*time.Minute || left["audits too"] != 30*time.Minute || left["denies"] != 0 {
		t.Errorf("got %v", left)
	}
}

// Results of a policy with emitWarning are warnings of the answer, except skips.
func TestWarnings(t *testing.T) {
	s := program(rule("ok", yields(policy.StatusPass, "fine")), rule("no", yields(policy.StatusSkip, "skipped")))
	s.Program.Settings.EmitWarning = true
	out := eval(request(policy.Create), s)
	if d := Decide(&out, ValidateWording); len(d.Warnings) != 1 || d.Warnings[0] != "policy p.ok: fine" {
		t.Errorf("got %q", d.Warnings)
	}
}

// Several goroutines share one Program; run with -race.
func TestEvalConcurrently(t *testing.T) {
	s := program(rule("a", func(c *policy.Call) policy.Yield {
		if _, ok, err := scope.New(c).With("x", 1).Field("request"); !ok || err != nil {
			return policy.Yield{Status: policy.StatusError}
		}
		return policy.Yield{Status: policy.StatusPass}
	}))
	req := request(policy.Create)
	done := make(chan string, 8)
	for range 8 {
		go func() { done <- statuses(eval(req, s)) }()
	}
	for range 8 {
		if got := <-done; got != "a=pass" {
			t.Errorf("got %q", got)
		}
	}
}

// Deferred work is kept even without a result; a policy with applyRules: One evaluates no further rule after an error.
func TestWork(t *testing.T) {
	work := policy.Work{Kind: policy.WorkGenerate}
	silent := rule("undo", func(*policy.Call) policy.Yield {
		return policy.Yield{Work: []policy.Work{{Kind: policy.WorkDeleteDownstream}}}
	})
	planned := rule("make", func(s *policy.Call) policy.Yield {
		w := work
		w.Planned = s.Plan
		return policy.Yield{Status: policy.StatusPass, Work: []policy.Work{w}}
	})
	broken := rule("broken", yields(policy.StatusError, ""))
	for _, r := range []*policy.Rule{silent, planned, broken} {
		r.Stage = policy.StageGenerate
	}
	all := program(silent, broken, planned)
	run := func(plan bool) policy.Outcome {
		return Eval(context.Background(), Input{Selections: []policy.Selection{all}, Request: request(policy.Create), Stages: policy.StageGenerate, Plan: plan})
	}
	for _, plan := range []bool{false, true} {
		got := run(plan)
		if len(got.Work) != 2 || got.Work[0].Rule != silent || got.Work[0].Program != all.Program || got.Work[1].Rule != planned || got.Work[1].Planned != plan {
			t.Errorf("plan %v: %+v", plan, got.Work)
		}
		if statuses(got) != "broken=error make=pass" {
			t.Errorf("results %s", statuses(got))
		}
	}
	all.Program.Settings.ApplyOne = true
	if got := statuses(run(false)); got != "broken=error" {
		t.Errorf("applyRules One: %s", got)
	}
}

// Elapsed is the measured time of a rule, in its first result; without a clock, no time is measured.
func TestElapsed(t *testing.T) {
	two := policy.Yield{Status: policy.StatusPass, Also: []policy.Yield{{Status: policy.StatusPass}}}
	s := program(rule("a", func(*policy.Call) policy.Yield { return two }), rule("b", yields(policy.StatusPass, "")))
	in := Input{Selections: []policy.Selection{s}, Request: request(policy.Create), Stages: policy.StageValidate}
	for _, r := range Eval(context.Background(), in).Results {
		if r.Elapsed != 0 {
			t.Errorf("rule %s took %s without a clock", r.Rule.Name, r.Elapsed)
		}
	}
	at := time.Unix(0, 0)
	in.Now = func() time.Time { at = at.Add(time.Second); return at }
	var got []time.Duration
	for _, r := range Eval(context.Background(), in).Results {
		got = append(got, r.Elapsed)
	}
	if want := []time.Duration{time.Second, 0, time.Second}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A watcher sees each rule with its yield, and its context is passed to the rule.
func TestWatch(t *testing.T) {
	type key struct{}
	reads := func(s *policy.Call) policy.Yield {
		name, _ := s.Env.Meter.Context().Value(key{}).(string)
		return policy.Yield{Status: policy.StatusPass, Message: name}
	}
	s := program(rule("a", reads), rule("b", func(*policy.Call) policy.Yield { panic("b") }), rule("c", reads))
	s.Rules[2].Match = func(context.Context, *policy.Request) (bool, error) { return false, nil }
	var seen []string
	in := Input{Selections: []policy.Selection{s}, Request: request(policy.Create), Stages: policy.StageValidate}
	in.Watch = func(ctx context.Context, p *policy.Program, r *policy.Rule) (context.Context, func(policy.Yield)) {
		return context.WithValue(ctx, key{}, "of "+r.Name), func(y policy.Yield) {
			seen = append(seen, r.Name+" "+y.Status.String()+" "+y.Message)
		}
	}
	Eval(context.Background(), in)
	if want := []string{"a pass of a", "b error rule b panicked: b", "c  "}; !slices.Equal(seen, want) {
		t.Errorf("saw %q, want %q", seen, want)
	}
}
