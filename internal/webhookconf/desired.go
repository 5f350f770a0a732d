package webhookconf

import (
	"errors"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/settings"
)

// ManagedLabel marks every webhook configuration of ours; its value is ManagedValue.
const (
	ManagedLabel = "webhook.kyverno.io/managed-by"
	ManagedValue = "kyverno"
)

// The names of the configurations.
const (
	PolicyValidating    = "kyverno-policy-validating-webhook-cfg"
	PolicyMutating      = "kyverno-policy-mutating-webhook-cfg"
	ResourceValidating  = "kyverno-resource-validating-webhook-cfg"
	ResourceMutating    = "kyverno-resource-mutating-webhook-cfg"
	ExceptionValidating = "kyverno-exception-validating-webhook-cfg"
	VerifyMutating      = "kyverno-verify-mutating-webhook-cfg"
)

// MaxTimeoutSeconds is the longest timeout that the API server accepts.
const MaxTimeoutSeconds = 30

// Options are the start-up flags that shape the configurations.
type Options struct {
	Namespace, Service string
	ServicePort        int32
	// ServerIP, when set, is the host (and port) in a URL that replaces the Service.
	ServerIP       string
	TimeoutSeconds int32
	// AdmissionReports: validation has a side effect, the report.
	AdmissionReports bool
}

// Input is everything that the configurations depend on.
type Input struct {
	Programs  []*policy.Program
	Settings  *settings.Settings
	CABundle  []byte
	Resources Resources
	Options   Options
}

// Configurations are the webhook configurations as they should be stored.
type Configurations struct {
	Validating []*admissionv1.ValidatingWebhookConfiguration
	Mutating   []*admissionv1.MutatingWebhookConfiguration
}

// Readiness says for each Program, by its Key with the kind before it (see ProgramKey), whether its rules are in the
// configurations; the error is why they are not.
type Readiness map[string]error

// ProgramKey identifies a Program among all kinds.
func ProgramKey(p *policy.Program) string { return p.Kind + "/" + p.Key() }

// Desired computes the configurations. unknown is the number of kind selectors that name nothing the API server
// serves; they are left out, and their policies are ready all the same (§3.3.4). The error means that the served
// resources could not be listed at all: nothing may be concluded then, and the stored configurations must stay.
func Desired(in Input) (_ Configurations, ready Readiness, unknown int, err error) {
	b := &builder{Input: in, ready: Readiness{}}
	for _, p := range in.Programs {
		b.ready[ProgramKey(p)] = nil
		if p.Settings.Admission {
			b.add(p)
		}
	}
	if b.err != nil {
		return Configurations{}, nil, 0, b.err
	}
	return Configurations{
		Validating: []*admissionv1.ValidatingWebhookConfiguration{
			b.validating(PolicyValidating, b.policyValidating()),
			b.validating(ResourceValidating, b.resource(&b.val)),
			b.validating(ExceptionValidating, b.exceptionValidating()),
		},
		Mutating: []*admissionv1.MutatingWebhookConfiguration{
			b.mutating(PolicyMutating, b.policyMutating()),
			b.mutating(ResourceMutating, b.resource(&b.mut)),
			b.mutating(VerifyMutating, b.verify()),
		},
	}, b.ready, b.unknown, nil
}

type builder struct {
	Input
	ready    Readiness
	unknown  int
	err      error
	val, mut side
}

// side collects the resource webhooks of one configuration.
type side map[string]*hook

// hook is a webhook in the making; its name and path follow from its key.
type hook struct {
	name, path    string
	failurePolicy policy.FailurePolicy
	timeout       int32
	conditions    []policy.MatchCondition
	fine          bool
	rules         ruleSet
}

// add puts the rules of a Program where they belong. Which rules and policies contribute to which configuration is
// §3.3; a generate rule adds its kinds wherever its policy contributes.
func (b *builder) add(p *policy.Program) {
	var stages policy.Stage
	for _, r := range p.Rules {
		stages |= r.Stage
	}
	const validates = policy.StageValidate | policy.StageMutateExisting
	const mutates = policy.StageMutate | policy.StageVerifyImages
	if stages.Has(validates | policy.StageGenerate) {
		b.contribute(&b.val, "validate", p, validates, allOperations)
	}
	if stages.Has(mutates) {
		b.contribute(&b.mut, "mutate", p, mutates, writeOperations)
	}
}

func (b *builder) contribute(to *side, base string, p *policy.Program, stages policy.Stage, defaults operations) {
	h := to.hook(base, p, b.Options.TimeoutSeconds)
	for _, r := range p.Rules {
		ops := defaults
		switch {
		case r.Stage.Has(policy.StageGenerate):
			ops = allOperations
		case !r.Stage.Has(stages):
			continue
		}
		unknown, err := h.rules.add(r, ops, p.Namespace != "", b.Resources)
		b.unknown += unknown
		var group *discovery.ErrGroupDiscoveryFailed
		switch {
		case errors.As(err, &group):
			b.ready[ProgramKey(p)] = err
		case err != nil:
			b.err = err
			return
		}
	}
	h.timeout = max(h.timeout, p.Settings.TimeoutSeconds)
}

// hook returns the webhook that serves the Program: the shared one of its failurePolicy, or one of its own.
func (s *side) hook(base string, p *policy.Program, timeout int32) *hook {
	fp := p.Settings.FailurePolicy
	mode := strings.ToLower(fp.String())
	name, path := base+".kyverno.svc-"+mode, "/"+base+"/"+mode
	fine := len(p.Settings.MatchConditions) > 0
	if fine {
		name += "-finegrained-" + strings.ReplaceAll(p.Key(), "/", "-")
		path += "/finegrained/" + p.Key()
	}
	if *s == nil {
		*s = side{}
	}
	h := (*s)[path]
	if h == nil {
		h = &hook{name: name, path: path, failurePolicy: fp, timeout: timeout, fine: fine, conditions: p.Settings.MatchConditions, rules: ruleSet{}}
		(*s)[path] = h
	}
	return h
}

// resource gives the webhooks of one resource configuration; one whose rules name nothing is left out.
func (b *builder) resource(s *side) []webhook {
	out := []webhook{}
	for _, h := range *s {
		w := b.webhook(h.name, h.path)
		w.Rules = h.rules.rules()
		if len(w.Rules) == 0 {
			continue
		}
		if h.failurePolicy == policy.Ignore {
			w.FailurePolicy = admissionv1.Ignore
		}
		w.TimeoutSeconds = min(h.timeout, MaxTimeoutSeconds)
		if sel := b.Settings.Webhook.NamespaceSelector; sel != nil {
			w.NamespaceSelector = sel.DeepCopy()
		}
		if sel := b.Settings.Webhook.ObjectSelector; sel != nil {
			w.ObjectSelector = sel.DeepCopy()
		}
		w.SideEffects = admissionv1.SideEffectClassNoneOnDryRun
		if s == &b.val && !b.Options.AdmissionReports {
			w.SideEffects = admissionv1.SideEffectClassNone
		}
		if h.fine { // the policy's conditions replace the global ones
			for _, c := range h.conditions {
				w.MatchConditions = append(w.MatchConditions, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
			}
		} else {
			for _, c := range b.Settings.Webhook.MatchConditions {
				w.MatchConditions = append(w.MatchConditions, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
			}
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(x, y webhook) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// metadata is shared by all configurations.
func (b *builder) metadata(name string) metav1.ObjectMeta {
	labels := map[string]string{}
	for k, v := range b.Settings.Webhook.Labels {
		labels[k] = v
	}
	labels[ManagedLabel] = ManagedValue
	annotations := map[string]string{}
	for k, v := range b.Settings.Webhook.Annotations {
		annotations[k] = v
	}
	return metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}
}
