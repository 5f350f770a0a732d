package convert

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/fixed"
)

// prover compares the results of two policies on resources.
type prover struct {
	given   []map[string]any
	known   *schema.Kinds
	samples int
	seed    int64

	now        time.Time                    // the time of all evaluations
	existing   []map[string]any             // what the cluster holds: the given resources, and the targets of the rule
	namespaces map[string]map[string]string // labels of the namespaces of all resources
	registry   registry
	rule       string // the only rule of the classic policy whose results count; empty for all
}

// oneRule returns a classic policy with only one of its rules, which covers Pod controllers only if it does so among the others. A policy without rules
// is returned as it is.
func oneRule(object map[string]any, index int, controllers bool) map[string]any {
	indexes := []int{index}
	if decidesOnce(object, index) { // whether the rule is evaluated depends on those before it
		indexes = nil
		for i := range index + 1 {
			indexes = append(indexes, i)
		}
	}
	out := onlyRules(object, indexes)
	if spec, _ := object["spec"].(map[string]any); controllers || spec["rules"] == nil {
		return out
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	metadata, annotations = maps.Clone(metadata), maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[autogen.ControllersAnnotation] = "none"
	metadata["annotations"], out["metadata"] = annotations, metadata
	return out
}

// decidesOnce reports whether only the first of the validate rules up to an index that applies is evaluated.
func decidesOnce(object map[string]any, index int) bool {
	spec, _ := object["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	if spec["applyRules"] != "One" || index >= len(rules) {
		return false
	}
	return !slices.ContainsFunc(rules[:index+1], func(r any) bool {
		rule, _ := r.(map[string]any)
		return rule["validate"] == nil
	})
}

func compiled(object map[string]any) (*policy.Program, diag.List) {
	return compile.One(compile.Object{Value: object})
}

// maxShown is the number of differences that are printed for each rule.
const maxShown = 3

// compare evaluates both policies on all resources, prints the differences, and reports whether there are none.
func (p prover) compare(ctx context.Context, w io.Writer, where string, original map[string]any, rule convert.Rule) (bool, error) {
	classic, diags := compiled(original)
	if diags.HasErrors() {
		return false, diags.Errors().Err()
	}
	var cel []*policy.Program
	for _, made := range append([]map[string]any{rule.Policy}, rule.More...) {
		one, diags := compiled(made)
		if diags.HasErrors() {
			for _, d := range diags.Errors() {
				fmt.Fprintf(w, "%s: the converted policy is invalid: %s\n", where, d.String())
			}
			return false, nil
		}
		cel = append(cel, one)
	}
	stage, sampler := stageOf(classic), newSampler(p, original, rule, classic, cel)
	made := sampler.objects(p.samples)
	if stage == policy.StageMutateExisting {
		p.existing = append(slices.Clip(p.given), p.targets(sampler, original, made)...)
	}
	objects := append(made, p.given...)
	roles := rolesOf(original["spec"])
	p.namespaces = namespaces(original, append(slices.Clip(objects), p.existing...))
	if p.existing == nil {
		p.existing = p.given
	}
	p.existing = append(slices.Clip(p.existing), bindings(roles)...)
	p.existing = append(p.existing, sampler.spaces(original, p.namespaces, p.existing)...)
	p.now = offline.Now()
	p.registry = newRegistry(sampler, original)
	if len(classic.Rules) > 1 && decidesOnce(original, 0) {
		p.rule = rule.Name
	}
	t := p.attempts(stage, sampler, unasked(classic, cel...))
	t.updates = onlyUpdates(classic)
	t.deletes = slices.ContainsFunc(classic.Rules, func(r *policy.Rule) bool {
		return slices.ContainsFunc(r.Targets, func(t policy.Target) bool {
			return len(t.Operations) > 0 && slices.Contains(t.Operations, policy.Delete)
		})
	})
	t.subresource = func(i int) *subresource {
		if i >= len(made) {
			return nil
		}
		return sampler.subresourceAt(i)
	}
	t.existing = denies(classic) && allowsExisting(classic) && !slices.ContainsFunc(cel, allowsExisting)
	rules := slices.Clone(classic.Rules)
	for _, one := range cel {
		rules = append(rules, one.Rules...)
	}
	for _, r := range rules {
		if (r.Needs.User || len(roles.Roles)+len(roles.ClusterRoles) > 0) && t.users == nil {
			t.users = requesters(original)
		}
	}
	admit := func(o map[string]any) (map[string]any, error) {
		v, err := p.verdict(ctx, []*policy.Program{classic}, &attempt{operation: policy.Create, object: o}, stage)
		switch {
		case err != nil || v.violated && (stage != policy.StageVerifyImages || v.made == ""):
			return nil, err
		case v.verified != nil:
			return v.verified, nil
		}
		return o, nil
	}
	different, applied, denied, met := 0, 0, 0, &coverage{}
	for i, o := range objects {
		all, err := t.of(i, o, admit)
		if err != nil {
			return false, err
		}
		matched, violating, differs := false, false, false
		for j := range all {
			a := &all[j]
			a.roles = roles
			before, err := p.verdict(ctx, []*policy.Program{classic}, a, stage)
			if err != nil {
				return false, err
			}
			after, err := p.verdict(ctx, cel, a, stage)
			if err != nil {
				return false, err
			}
			t.tried[a.what]++
			if j == 0 && (!before.violated || !t.existing) {
				t.older[fmt.Sprint(o["kind"])] = o
			}
			if before.applied {
				met.add(a)
			}
			matched, violating = matched || before.applied, violating || before.violated
			if before.same(after) {
				continue
			}
			if different += 1; differs {
				different-- // a resource counts once
			}
			if differs = true; different > maxShown {
				continue
			}
			origin := "generated for the comparison"
			if i >= len(made) {
				origin = "given"
			}
			fmt.Fprintf(w, "%s: the results for %sa resource that was %s differ: the classic rule gives %s, the CEL policy gives %s\n  %s\n", where, a, origin, before, after, value.JSON(o))
		}
		if matched {
			applied++
		}
		if violating {
			denied++
		}
	}
	fmt.Fprintf(w, "%s: %s compared, %d of them matched, %d %s, %d different\n", where, terminal.Counted(len(objects), "resource", "resources"), applied, denied, did[stage], different)
	missing := met.missing(classic, rule.Uncovered, applied)
	fmt.Fprintf(w, "  tried: %s\n", t.report())
	if left := t.left(met.left(classic)); left != "" {
		fmt.Fprintf(w, "  not tried: %s\n", left)
	}
	for _, m := range missing {
		fmt.Fprintf(w, "%s: %s\n", where, m)
	}
	if applied > 0 && denied == 0 {
		fmt.Fprintf(w, "%s: warning: no resource is %s, so that the proof says little (add one that is, with --resource)\n", where, did[stage])
	}
	if len(t.unasked) > 0 && stage != policy.StageDelete {
		fmt.Fprintf(w, "%s: the CEL policy is not asked about %s, the classic rule is\n", where, strings.Join(t.unasked, " and "))
	}
	return different == 0 && len(missing) == 0, nil
}

// allowsExisting reports whether a program admits updates of objects that violated it before.
func allowsExisting(p *policy.Program) bool {
	return slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return r.AllowExisting })
}

// denies reports whether some rule of a program denies.
func denies(p *policy.Program) bool {
	return slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return r.Action.Default.Has(policy.Deny) || len(r.Action.Overrides) > 0 })
}

// onlyUpdates reports whether the rules of a program are about updates, and not about creations.
func onlyUpdates(p *policy.Program) bool {
	updates := false
	for _, r := range p.Rules {
		for _, t := range r.Targets {
			if len(t.Operations) == 0 || slices.Contains(t.Operations, policy.Create) {
				return false
			}
			updates = updates || slices.Contains(t.Operations, policy.Update)
		}
	}
	return updates
}

// unasked returns the subresources of Pods that the classic rule evaluates and the policy in CEL does not.
func unasked(classic *policy.Program, cel ...*policy.Program) (out []string) {
	asks := func(p *policy.Program, sub string) bool {
		return slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return r.AsksAboutPods(policy.Update, sub) })
	}
	for _, sub := range []string{debug, resize} {
		if asks(classic, sub) && !slices.ContainsFunc(cel, func(p *policy.Program) bool { return asks(p, sub) }) {
			out = append(out, "pods/"+sub)
		}
	}
	return out
}

// did maps the stage of a rule to the word for its effect on a resource.
var did = map[policy.Stage]string{
	policy.StageValidate: "violating", policy.StageVerifyImages: "violating or changed", policy.StageMutate: "changed", policy.StageMutateExisting: "changing others", policy.StageGenerate: "generating", policy.StageDelete: "deleted",
}

// stageOf returns the stage of the rules of a program.
func stageOf(program *policy.Program) policy.Stage {
	for _, stage := range []policy.Stage{policy.StageVerifyImages, policy.StageMutate, policy.StageMutateExisting, policy.StageGenerate, policy.StageDelete} {
		for _, r := range program.Rules {
			if r.Stage.Has(stage) {
				return stage
			}
		}
	}
	return policy.StageValidate
}

// verdict is the result of a policy for a resource.
type verdict struct {
	applied  bool   // whether any rule matches
	violated bool   // whether any rule fails or ends in an error, or a rule that does not validate has an effect
	message  string // the reason for a failure or an error
	made     string // the changed resource, or the generated objects
	denied   bool   // whether a violation is denied
	failed   bool   // whether the evaluation ended in an error

	verified map[string]any // the resource with the digests of its images and the records of what was verified
}

// same reports whether two policies decide alike. If the policies change or generate objects, both must fail or produce the same objects.
func (v verdict) same(other verdict) bool {
	return v.violated == other.violated && v.failed == other.failed && v.made == other.made && (v.denied == other.denied || v.made != "")
}

func (v verdict) String() string {
	switch {
	case v.failed:
		return "error (" + v.message + ")"
	case v.made != "":
		return v.made
	case v.violated && v.message != "":
		return "fail (" + v.message + ")"
	case v.violated:
		return "delete"
	case v.applied:
		return "pass"
	}
	return "nothing"
}

// verdict evaluates a request. The world holds the namespace of the resource and the given resources.
func (p prover) verdict(ctx context.Context, programs []*policy.Program, a *attempt, stage policy.Stage) (verdict, error) {
	object := a.object
	given := func() ([]map[string]any, error) { return p.existing, nil }
	api := fixed.New(fixed.Values{Objects: given}).For(world.Cluster()).API // one cluster for both languages
	root := fixed.New(fixed.Values{
		Now: func() time.Time { return p.now }, NamespaceLabels: p.namespaces, Objects: given, Served: stage == policy.StageMutateExisting, Resources: api, Images: world.Images{Image: p.registry.Image}, Signatures: p.registry,
	})
	e := offline.New(programs, world.RootFunc(func(r world.Reach) world.World {
		out := root.For(r)
		out.Rand = alike{}
		return out
	}), clivalues.New(nil, nil))
	if stage == policy.StageDelete {
		return deletion(ctx, e, object)
	}
	req, err := e.Request(programs[0], object, policy.Create)
	if err != nil {
		return verdict{}, err
	}
	answers, err := e.OfRequest(a.request(req)).Each(ctx, object, "")
	if err != nil {
		return verdict{}, err
	}
	var out verdict
	for i := range answers {
		for _, r := range answers[i].Results {
			if p.rule != "" && convert.HasRules("kyverno.io/v1", r.Program.Kind) && !p.counts(r.Rule.Name) {
				continue
			}
			out.applied = true
			if offline.Unsuccessful(r) && !out.violated {
				out.violated, out.message = true, r.Message
			}
			if stage == policy.StageValidate || stage == policy.StageVerifyImages { // other rules have no action
				out.denied = out.denied || offline.Unsuccessful(r) && r.Action.Has(policy.Deny)
			}
		}
	}
	if stage == policy.StageMutateExisting {
		out.changed(answers)
		return out, nil
	}
	if out.violated {
		out.failed = stage != policy.StageValidate && stage != policy.StageVerifyImages
		return out, nil
	}
	switch stage {
	case policy.StageVerifyImages:
		for i := range answers {
			after, err := answers[i].Object.Map()
			if err != nil {
				return verdict{}, err
			}
			out.verified = after
			if text := p.registry.pinned(after); text != p.registry.pinned(object) {
				out.violated, out.made = true, text
			}
		}
	case policy.StageMutate:
		for i := range answers {
			after, err := answers[i].Object.Map()
			if err != nil {
				return verdict{}, err
			}
			if text := value.JSON(value.Unordered(after)); text != value.JSON(value.Unordered(object)) {
				out.violated, out.made = true, text
			}
		}
	case policy.StageGenerate:
		for i := range answers {
			out.generated(answers[i].Work)
		}
	}
	return out, nil
}

// alike gives the same random text each time: the two policies need not ask as often.
type alike struct{}

func (alike) Intn(n int) int { return n / 2 }

// counts reports whether the results of a rule count.
func (p prover) counts(name string) bool {
	controllers, cronJobs := autogen.Derived(p.rule)
	return name == p.rule || name == controllers || name == cronJobs
}

// generated adds the objects that the work generates, without the labels with which each family identifies its objects.
func (v *verdict) generated(work []policy.Work) {
	var texts []string
	for _, w := range work {
		if w.Err != nil {
			v.violated, v.failed, v.message = true, true, w.Err.Error()
			return
		}
		for _, g := range w.Generated {
			texts = append(texts, value.JSON(authored(g.Object)))
		}
	}
	if len(texts) > 0 {
		slices.Sort(texts)
		v.violated, v.made = true, strings.Join(texts, " ")
	}
}

// authored returns a generated object with only the labels that its policy sets.
func authored(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	own := maps.Clone(labels)
	maps.DeleteFunc(own, func(k string, _ any) bool {
		return k == "app.kubernetes.io/managed-by" || strings.HasPrefix(k, "generate.kyverno.io/")
	})
	out, with := maps.Clone(object), maps.Clone(metadata)
	if with["labels"] = own; len(own) == 0 {
		delete(with, "labels")
	}
	out["metadata"] = with
	return out
}

// deletion returns the result for a resource of a policy that deletes. A policy that cannot be evaluated deletes nothing.
func deletion(ctx context.Context, e *offline.Evaluator, object map[string]any) (verdict, error) {
	outcomes, err := e.Deletions(ctx, object)
	var out verdict
	for i := range outcomes {
		for _, r := range outcomes[i].Results {
			out.applied = true
			out.violated = out.violated || r.Status == policy.StatusPass
		}
	}
	return out, err
}
