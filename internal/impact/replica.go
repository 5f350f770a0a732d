package impact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/webhookconf"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/taped"
)

// Options configure a Replica.
type Options struct {
	// Kinds has the resources for the webhooks; Replicas share it.
	Kinds *Kinds
	// Root makes the lookups of rules; nil if rules cannot look anything up.
	Root world.Root
	// Roles and Labels look up the roles of a user and the labels of a namespace. If nil, they are unknown, which is an error for rules that
	// need them.
	Roles  func(ctx context.Context, user *policy.User, namespace string) (policy.Roles, error)
	Labels func(ctx context.Context, namespace string) (map[string]string, error)
	// Live: lookups that are not recorded are made in Root, and by Roles and Labels. Otherwise, a request that needs one is not answered.
	Live bool
	// Settings has the settings of the installation; nil for the defaults.
	Settings *settings.Settings
	// Families has the families of the policies; nil for those of Ephor.
	Families *compile.Registry
	// Timeout bounds the evaluation at one webhook; 0 for defaultTimeout.
	Timeout time.Duration
}

// defaultTimeout is the timeout of webhooks unless a flag sets another.
const defaultTimeout = 10 * time.Second

// installation is the namespace that the webhooks exclude, as in the default values of the chart.
const installation = "kyverno"

// Replica answers requests as a replica of the admission controller would if the policies were in force, and as the API server would for the policies that it
// evaluates itself. It is safe for concurrent use.
type Replica struct {
	options  Options
	programs []*policy.Program
	server   *admission.Server
	snapshot *catalog.Snapshot
	native   *catalog.Snapshot // the policies among them that the API server evaluates; nil for none
	settings *settings.Settings

	mu   sync.Mutex
	plan *plan
}

// plan has the webhooks for the known kinds.
type plan struct {
	version              uint64
	mutating, validating []*webhook
}

// lookups makes the lookups of package admission in a cluster.
type lookups struct {
	*Kinds
	o *Options
}

func (l lookups) Roles(ctx context.Context, user *policy.User, namespace string) (policy.Roles, error) {
	if l.o.Roles == nil {
		return policy.Roles{}, fmt.Errorf("the roles of user %s: %w", user.Username, world.ErrUnavailable)
	}
	return l.o.Roles(ctx, user, namespace)
}

func (l lookups) NamespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	if namespace == "" {
		return nil, nil
	}
	if l.o.Labels == nil {
		return nil, fmt.Errorf("the labels of namespace %s: %w", namespace, world.ErrUnavailable)
	}
	return l.o.Labels(ctx, namespace)
}

// NewReplica returns a Replica with these policies. The caller joins the exceptions to them first (catalog.Join).
func NewReplica(programs []*policy.Program, o Options) *Replica {
	if o.Settings == nil {
		o.Settings = settings.Defaults()
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Kinds == nil {
		o.Kinds = NewKinds(nil)
	}
	r := &Replica{options: o, programs: programs, settings: o.Settings}
	store := &settings.Store{}
	store.Set(o.Settings)
	r.snapshot = catalog.NewStatic(programs)
	var native []*policy.Program
	for _, p := range programs {
		if !o.Families.Evaluates(p.APIVersion, p.Kind) {
			native = append(native, p)
		}
	}
	if len(native) > 0 {
		r.native = catalog.NewStatic(native)
	}
	r.server = admission.New(admission.Options{
		Families: o.Families, Namespace: installation, Timeout: o.Timeout,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now,
	}, func() *catalog.Snapshot { return r.snapshot }, store, o.Root, lookups{o.Kinds, &r.options}, func() error { return nil })
	return r
}

// webhooks returns the webhooks that the policies need for the kinds known so far.
func (r *Replica) webhooks(version uint64) (*plan, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.plan != nil && r.plan.version >= version {
		return r.plan, nil
	}
	version = r.options.Kinds.version.Load()
	want, _, _, err := webhookconf.Desired(webhookconf.Input{
		Programs: r.programs, Settings: r.settings, Resources: r.options.Kinds, Families: r.options.Families,
		Options: webhookconf.Options{Namespace: installation, Service: "replica", ServicePort: 443, TimeoutSeconds: int32(r.options.Timeout / time.Second), AdmissionReports: true},
	})
	if err != nil {
		return nil, fmt.Errorf("find the webhooks of the policies: %w", err)
	}
	next := &plan{version: version}
	if next.mutating, next.validating, err = webhooksOf(want); err != nil {
		return nil, err
	}
	r.plan = next
	return next, nil
}

// Verdict is the answer of all webhooks to one request.
type Verdict struct {
	policy.Decision
	// Asked is the number of webhooks that were called, and of policies that the API server evaluated.
	Asked int
	// Results has the results of all rules, including the auditing ones, in the order of the webhooks.
	Results []policy.Result
	// Object is the object after all mutations; nil if nothing was changed. Changes has the changes that led to it.
	Object  *value.Doc
	Changes []patch.Operation
	// Failures has the errors of the webhooks that gave no answer: their failurePolicy decided.
	Failures []error
}

// Answer sends the request through the webhooks. Requests are not shared between calls, since the lookups of a Replica are attached to
// them. The error means that the webhooks cannot be found, or that ctx is done.
func (r *Replica) Answer(ctx context.Context, req *policy.Request) (Verdict, error) {
	hooks, err := r.webhooks(r.options.Kinds.meet(req))
	if err != nil {
		return Verdict{}, err
	}
	req.ResolveNamespace = func(ctx context.Context) (map[string]string, error) {
		if isNamespace(req) {
			return nil, nil // as in package admission
		}
		return taped.AnswerOrCall(ctx, req.Tape, taped.Labels, req.Namespace, func(ctx context.Context) (map[string]string, error) {
			return lookups{r.options.Kinds, &r.options}.NamespaceLabels(ctx, req.Namespace)
		})
	}
	v := Verdict{Decision: policy.Decision{Allowed: true}}
	on, err := r.callNative(ctx, policy.StageMutate, req, &v)
	if err != nil || !v.Allowed {
		return v, err
	}
	if on, err = r.mutate(ctx, hooks.mutating, on, &v); err != nil || !v.Allowed {
		return v, err
	}
	if _, err := r.callNative(ctx, policy.StageValidate, on, &v); err != nil {
		return v, err
	}
	for _, w := range hooks.validating {
		if err := r.callWebhook(ctx, w, on, &v, nil); err != nil {
			return v, err
		}
	}
	if on == req {
		return v, nil
	}
	before, err := req.Object.Value()
	if err != nil {
		return v, err
	}
	after, err := on.Object.Value()
	if err != nil {
		return v, err
	}
	if v.Changes = patch.Diff(before, after); len(v.Changes) > 0 {
		v.Object = on.Object
	}
	return v, nil
}

// mutate calls the mutating webhooks one after the other. Like the API server, it calls a webhook with reinvocationPolicy IfNeeded once more
// if a later one changed the object.
func (r *Replica) mutate(ctx context.Context, hooks []*webhook, req *policy.Request, v *Verdict) (*policy.Request, error) {
	var asked, again []*webhook
	pass := func(hooks []*webhook) error {
		for _, w := range hooks {
			changed := false
			before := v.Asked
			if err := r.callWebhook(ctx, w, req, v, func(object *value.Doc) { req, changed = req.WithObject(object), true }); err != nil {
				return err
			}
			if !v.Allowed {
				return nil
			}
			if v.Asked == before {
				continue
			}
			if changed {
				again, asked = append(again, asked...), nil
			}
			if w.again {
				asked = append(asked, w)
			}
		}
		return nil
	}
	if err := pass(hooks); err != nil || !v.Allowed || len(again) == 0 {
		return req, err
	}
	second := again
	again = nil
	return req, pass(second)
}

// callWebhook calls one webhook if it selects the request.
func (r *Replica) callWebhook(ctx context.Context, w *webhook, req *policy.Request, v *Verdict, changed func(*value.Doc)) error {
	selected, err := w.selects(ctx, req)
	var got admission.Answered
	if err == nil {
		if !selected {
			return nil
		}
		got, err = r.server.Answer(ctx, w.path, req)
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	v.Asked++
	if err != nil {
		v.Failures = append(v.Failures, fmt.Errorf("webhook %s: %w", w.name, err))
		if w.fails && v.Allowed {
			v.Allowed, v.Message = false, fmt.Sprintf("failed calling webhook %q: %v", w.name, err)
		}
		return nil
	}
	v.Results = append(v.Results, got.Results...)
	v.Warnings = append(v.Warnings, got.Warnings...)
	if !got.Allowed && v.Allowed {
		v.Allowed, v.Message = false, got.Message
	}
	if got.Allowed && got.Object != nil && changed != nil {
		changed(got.Object)
	}
	return nil
}

// labelsOf returns the labels of an object; none if there is no object.
func labelsOf(d *value.Doc) (labels.Set, error) {
	object, err := d.Map()
	if err != nil {
		return nil, err
	}
	metadata, _ := object["metadata"].(map[string]any)
	raw, _ := metadata["labels"].(map[string]any)
	out := make(labels.Set, len(raw))
	for k, v := range raw {
		text, ok := v.(string)
		if !ok {
			return nil, errLabel
		}
		out[k] = text
	}
	return out, nil
}

var errLabel = errors.New("a label of the object is not a text")
