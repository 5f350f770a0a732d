package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// Kyverno 1.20, whose chart is 3.10, denies writes of the kinds of kyverno.io and stops to execute them.
var (
	firstWithoutClassic      = version.MustParseGeneric("1.20.0")
	firstChartWithoutClassic = version.MustParseGeneric("3.10.0")
)

// blockFlag is the flag of Kyverno 1.20 that allows writes again, in the builds whose policies are still executed.
const blockFlag = "--blockLegacyPolicyAPIs"

// Impact is what a policy says about the objects that exist.
type Impact struct {
	// Objects is the number of objects that the policy selects, and Errors the number of those that it cannot evaluate.
	Objects, Errors int
	// Violating and Changed are the objects that it would deny or change if they were created now.
	Violating, Changed Named
	// Requests is the number of recorded requests that it selects, and Refused are those that violate it.
	Requests int
	Refused  Named
}

// Named counts objects, and names the first of them.
type Named struct {
	Count int
	First []string
}

// maxNamed is the number of objects that a finding names.
const maxNamed = 10

// Add counts an object.
func (n *Named) Add(name string) {
	if n.Count++; n.Count <= maxNamed {
		n.First = append(n.First, name)
	}
}

// text lists the first of the objects.
func (n *Named) text() string {
	if n.Count == 0 {
		return ""
	}
	out := ": " + strings.Join(n.First, ", ")
	if more := n.Count - len(n.First); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// checkLegacy finds what Kyverno 1.20 has done to policies of the classic kinds, and what they would begin to do under Ephor.
func (s *state) checkLegacy(ctx context.Context) {
	kyverno, err := s.kyverno(ctx)
	if err != nil {
		s.unread(Object{Kind: "Deployment", Namespace: s.Namespace}, err)
		return
	}
	s.gate(ctx)
	if kyverno == nil || len(s.superseded) == 0 {
		return
	}
	s.add(Finding{
		Code: "writes-denied", Severity: Note, Object: Object{Kind: "Deployment", Namespace: s.Namespace, Name: kyverno.Name},
		Message: "Kyverno denies that policies of kyverno.io are created or changed" + deniedTo(kyverno) + ", so syncs of repositories with such policies fail until the webhooks are Ephor's, which accepts them",
	})
	if s.executed {
		return
	}
	found := s.impact(ctx)
	for _, p := range s.superseded {
		s.inert(p, found[p.Identity()])
	}
}

// deniedTo says what the toggle of Kyverno changes.
func deniedTo(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		if slices.Contains(c.Args, blockFlag+"=false") {
			return " (unless " + blockFlag + "=false, which is set, still has an effect in this version)"
		}
	}
	return ""
}

// kyverno returns the Deployment of the admission controller if it runs Kyverno 1.20 or later; nil otherwise.
func (s *state) kyverno(ctx context.Context) (*appsv1.Deployment, error) {
	var list appsv1.DeploymentList
	if err := s.Reader.List(ctx, &list, client.InNamespace(s.Namespace), partOf); err != nil {
		return nil, absent(err)
	}
	for i := range list.Items {
		d := &list.Items[i]
		if !strings.HasSuffix(d.Name, "admission-controller") {
			continue
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			name, tag, _ := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":")
			own := strings.HasPrefix(name, "kyverno") // also kyverno-fips, and other names of mirrors
			if !own && c.Name != "kyverno" {
				continue // a sidecar
			}
			if v, err := version.ParseGeneric(tag); err == nil {
				if own && v.AtLeast(firstWithoutClassic) {
					return d, nil
				}
				return nil, nil
			}
		}
		// An image without a version: the chart that rendered the Deployment has one, also without a release of Helm.
		if chart, ok := strings.CutPrefix(d.Labels["helm.sh/chart"], "kyverno-"); ok {
			if v, err := version.ParseGeneric(chart); err == nil && v.AtLeast(firstChartWithoutClassic) {
				return d, nil
			}
		}
	}
	return nil, nil
}

// classicPath reports whether a webhook path is one of the classic kinds.
func classicPath(path string) bool {
	return slices.ContainsFunc(compile.Kinds, func(k *family.Kind) bool {
		f := compile.FamilyOf(k.GVK().GroupVersion().String(), k.Kind)
		return k.Superseded && slices.ContainsFunc(f.Endpoints, func(e policy.Endpoint) bool { return strings.HasPrefix(path, e.Path+"/") })
	})
}

// impact evaluates the policies on all existing objects.
func (s *state) impact(ctx context.Context) map[policy.ID]*Impact {
	if s.Live == nil {
		return nil
	}
	found, err := s.Live(ctx, s.superseded)
	if err != nil {
		s.unread(Object{Kind: "existing objects"}, err)
	}
	return found
}

// inert reports a policy that Kyverno does not execute and that Ephor would.
func (s *state) inert(p *policy.Program, found *Impact) {
	at := Object{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name}
	f := Finding{Code: "policy-inert", Severity: Stops, Object: at}
	does := effects(p)
	f.Message = "Kyverno stores it without executing it. Ephor would execute it: it would " + strings.Join(does, ", ") + ". " + found.text()
	switch {
	case s.settings != nil && s.settings.AuditFirst[at.String()]:
		f.Severity = Note
		f.Message = "Kyverno stores it without executing it. Under Ephor it audits first: it reports, and denies and changes nothing. " + found.text()
		f.Commands = []string{"ephor rollout " + p.Key() + " --as-written   # then it would " + strings.Join(does, ", ")}
	case len(does) == 1 && does[0] == reports:
		f.Severity = Note
	default:
		f.Commands = []string{"ephor rollout --audit-first   # all policies of kyverno.io report first, and deny and change nothing"}
	}
	if p.Schedule != nil {
		f.Commands = append(f.Commands, strings.TrimSpace("ephor cleanup preview "+p.Kind+"/"+p.Name+namespaceFlag(p.Namespace)))
	}
	s.add(f)
}

func namespaceFlag(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " -n " + namespace
}

// reports is the effect of a policy that only audits.
const reports = "report violations"

// effects returns what the policy does besides reports.
func effects(p *policy.Program) (out []string) {
	add := func(text string, on bool) {
		if on && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, r := range p.Rules {
		add("deny requests that violate it", r.Stage.Has(policy.StageValidate|policy.StageVerifyImages) && r.Action.May(policy.Deny))
		add("change objects of requests", r.Stage.Has(policy.StageMutate))
		add("change existing objects", r.Stage.Has(policy.StageMutateExisting))
		add("generate objects", r.Stage.Has(policy.StageGenerate))
		add("generate objects for existing triggers", r.Generation != nil && r.Generation.Existing)
		add("delete objects on its schedule", r.Stage.Has(policy.StageDelete))
	}
	if len(out) == 0 {
		out = []string{reports}
	}
	return out
}

// text says what the policy says about existing objects.
func (i *Impact) text() string {
	if i == nil {
		return "What it says about existing objects is not known."
	}
	requests := ""
	if i.Requests > 0 {
		requests = fmt.Sprintf(" Of %d recorded requests that it selects, %d violate it%s.", i.Requests, i.Refused.Count, i.Refused.text())
	}
	if i.Objects == 0 {
		return "It selects no existing object." + requests
	}
	text := fmt.Sprintf("Of %s that it selects, %d violate it%s", objects(i.Objects), i.Violating.Count, i.Violating.text())
	if i.Changed.Count > 0 {
		text += fmt.Sprintf("; it would change %d%s", i.Changed.Count, i.Changed.text())
	}
	if i.Errors > 0 {
		text += fmt.Sprintf("; %d cannot be evaluated", i.Errors)
	}
	return text + "." + requests
}

// hooks are the kinds of the objects of a Helm hook.
var hooks = []struct {
	gvk     schema.GroupVersionKind
	cluster bool
}{
	{batchv1.SchemeGroupVersion.WithKind("Job"), false},
	{corev1.SchemeGroupVersion.WithKind("ServiceAccount"), false},
	{rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), true},
	{rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), true},
}

// gate finds objects of hooks that run before an install or an upgrade: Kyverno's chart has one since 3.10, which refuses both while
// policies of kyverno.io exist. Helm deletes them only if the hook succeeds, or before it runs again.
func (s *state) gate(ctx context.Context) {
	for _, kind := range hooks {
		options := []client.ListOption{partOf}
		if !kind.cluster {
			options = append(options, client.InNamespace(s.Namespace))
		}
		err := s.each(ctx, kind.gvk, func(u *unstructured.Unstructured) {
			hook := u.GetAnnotations()["helm.sh/hook"]
			if !strings.Contains(hook, "pre-upgrade") && !strings.Contains(hook, "pre-install") {
				return
			}
			command := "kubectl delete " + strings.ToLower(u.GetKind()) + " " + u.GetName()
			if !kind.cluster {
				command += " -n " + u.GetNamespace()
			}
			s.add(Finding{
				Code: "helm-hook", Severity: Note, Object: objectOf(u), Commands: []string{command},
				Message: "an object of the hook " + hook + " of Kyverno's chart, which refuses an upgrade while policies of kyverno.io exist: Helm does not delete it with the release, and Ephor's chart has no hooks",
			})
		}, options...)
		s.unread(Object{Kind: kind.gvk.Kind}, err)
	}
}
