package webhookconf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/policy"
)

// If the API server rejects a configuration, although each webhook was checked, one policy would keep all others out of it. Offenders finds
// that policy by dry runs and leaves it out.

// Offenders are the policies because of which the API server rejected a configuration. Only one goroutine uses it.
type Offenders struct {
	Reconciler *Reconciler
	Now        func() time.Time

	verdicts map[string]verdict // by edition
	// accepted are the editions in the last configurations that were stored; nil for none yet.
	accepted map[string]bool
	// blamed holds the times of verdicts within patience, by namespace.
	blamed map[string][]time.Time
	tries  []time.Time // of the last minute
	spent  time.Time   // when no try was left
}

type verdict struct {
	err error
	at  time.Time
}

// rejection is a configuration that the API server rejected, with its answer.
type rejection struct {
	want   client.Object
	answer metav1.Status
}

const (
	// maxTries is the maximum number of dry runs in tryPeriod. One search needs about ten.
	maxTries  = 20
	tryPeriod = time.Minute
	// maxBlamed is the number of verdicts on policies of a namespace within patience after which its new policies are left out for that time.
	maxBlamed = 2
	patience  = time.Minute
	// validity is the time after which a policy is tried again, since the API server may have changed.
	validity = time.Hour
)

// errWaiting is the reason for which policies are left out without a verdict.
var errWaiting = errors.New("the API server rejected the webhook of a policy, and this policy is checked within a minute")

// edition identifies a policy and what its webhooks depend on.
func edition(p *policy.Program) string {
	return fmt.Sprintln(ProgramKey(p), p.UID, p.Generation, p.Annotations)
}

// Split returns the policies whose webhooks may be written, and the reasons for leaving out the others.
func (o *Offenders) Split(programs []*policy.Program) (in []*policy.Program, out Readiness) {
	out = Readiness{}
	now := o.Now()
	known := map[string]verdict{}
	for namespace, times := range o.blamed {
		if o.blamed[namespace] = slices.DeleteFunc(times, func(at time.Time) bool { return now.Sub(at) >= patience }); len(o.blamed[namespace]) == 0 {
			delete(o.blamed, namespace)
		}
	}
	for _, p := range programs {
		name := edition(p)
		v, found := o.verdicts[name]
		switch {
		case found && now.Sub(v.at) < validity:
			known[name] = v
			out[ProgramKey(p)] = LeftOut{v.err}
		case p.Namespace != "" && o.accepted != nil && !o.accepted[name] &&
			(len(o.blamed[p.Namespace]) >= maxBlamed || now.Sub(o.spent) < tryPeriod):
			out[ProgramKey(p)] = LeftOut{errWaiting}
		default:
			in = append(in, p)
		}
	}
	o.verdicts = known // those of other editions are not needed any more
	return in, out
}

// Accept records that the configurations of the policies were stored.
func (o *Offenders) Accept(programs []*policy.Program) {
	o.accepted = make(map[string]bool, len(programs))
	for _, p := range programs {
		o.accepted[edition(p)] = true
	}
}

// Waiting returns the time after which left-out policies may be written.
func (o *Offenders) Waiting(out Readiness) time.Duration {
	for _, err := range out {
		if errors.Is(err, errWaiting) {
			return patience
		}
	}
	if len(out) > 0 {
		return validity
	}
	return 0
}

// Find looks for the policies because of which the API server rejected configurations in the last Apply, and reports whether it found any. The
// next round leaves them out. wait is the time until the next search, if no dry run is left. Errors other than a rejection end the search.
func (o *Offenders) Find(ctx context.Context, in Input, want Configurations) (found bool, wait time.Duration, err error) {
	for _, r := range o.Reconciler.rejected {
		some, err := o.search(ctx, in, want, r)
		switch {
		case errors.Is(err, errSpent):
			// The next round leaves out namespaced policies that are not known to be accepted, unless this round did.
			first := o.Now().Sub(o.spent) >= tryPeriod
			if first {
				o.spent = o.Now()
			}
			return found || first && o.accepted != nil, tryPeriod, nil
		case err != nil:
			return found, 0, err
		}
		found = found || some
	}
	return found, 0, nil
}

// errSpent means that no dry run is left.
var errSpent = errors.New("no dry run is left")

// search looks for the offenders in one configuration.
func (o *Offenders) search(ctx context.Context, in Input, want Configurations, r rejection) (found bool, err error) {
	named, single := suspects(want, r, true)
	ok, _, err := o.accepts(ctx, in, r, named)
	if err == nil && len(named) > 0 && ok && single {
		// The API server rejected webhooks of single policies.
		for _, p := range named {
			o.leaveOut(p, words(r.answer, func(i int) bool { return slices.Contains(serving(want, r, i), p) }))
		}
		return true, nil
	}
	if err == nil && !ok {
		all, _ := suspects(want, r, false)
		if len(all) == len(named) {
			return false, nil
		}
		named = all
		ok, _, err = o.accepts(ctx, in, r, named)
	}
	if err != nil || !ok || len(named) == 0 {
		return false, err // no policy is the reason
	}
	// Without any suspect the configuration is accepted, and with all of them it is not. Administrators' policies come first, so that none of
	// them is left out because of a tenant's.
	slices.SortStableFunc(named, func(a, b *policy.Program) int { return compareBool(a.Namespace != "", b.Namespace != "") })
	low, high, answer := 0, len(named), r.answer // the first low are accepted, and the first high are not, with that answer
	for high-low > 1 {
		middle := (low + high) / 2
		ok, rejected, err := o.accepts(ctx, in, r, named[middle:])
		switch {
		case err != nil:
			return false, err
		case ok:
			low = middle
		default:
			high, answer = middle, rejected
		}
	}
	o.leaveOut(named[high-1], words(answer, func(int) bool { return true })) // the others in the configuration are accepted
	return true, nil
}

// serving returns the policies of the webhook with the index in a rejected configuration.
func serving(c Configurations, r rejection, index int) []*policy.Program {
	return c.serves[webhookKey{r.want.GetName(), webhooksOf(r.want)[index].name()}]
}

// suspects returns the policies of the webhooks that the answer of the API server names, or of all webhooks of the configuration. single
// reports whether each of these webhooks has only one policy.
func suspects(c Configurations, r rejection, named bool) (out []*policy.Program, single bool) {
	seen := map[*policy.Program]bool{}
	single = true
	for i := range webhooksOf(r.want) {
		if named && !mentions(r.answer, i) {
			continue
		}
		programs := serving(c, r, i)
		single = single && len(programs) == 1
		for _, p := range programs {
			if !seen[p] {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	return out, single
}

// mentions reports whether an answer names the webhook with the index as a cause.
func mentions(answer metav1.Status, index int) bool {
	if answer.Details == nil {
		return false
	}
	return slices.ContainsFunc(answer.Details.Causes, func(c metav1.StatusCause) bool { return within(c, index) })
}

// within reports whether a cause is in the webhook with the index.
func within(c metav1.StatusCause, index int) bool {
	return strings.HasPrefix(c.Field, fmt.Sprintf("webhooks[%d]", index))
}

// accepts reports whether the API server accepts the configuration, and its further parts, without some of the policies. If not, it returns the
// answer.
func (o *Offenders) accepts(ctx context.Context, in Input, r rejection, without []*policy.Program) (bool, metav1.Status, error) {
	in.Programs = slices.DeleteFunc(slices.Clone(in.Programs), func(p *policy.Program) bool { return slices.Contains(without, p) })
	want, _, _, err := Desired(in)
	if err != nil {
		return false, metav1.Status{}, err
	}
	var list []client.Object
	for _, c := range all(want) {
		if baseName(c.GetName()) == baseName(r.want.GetName()) {
			list = append(list, c)
		}
	}
	if len(list) == 0 { // the policies were the only ones
		without := empty(r.want)
		without.SetName(r.want.GetName())
		without.SetLabels(r.want.GetLabels())
		without.SetAnnotations(r.want.GetAnnotations())
		without.SetOwnerReferences(r.want.GetOwnerReferences())
		list = append(list, without)
	}
	for _, c := range list {
		if !o.useDryRun() {
			return false, metav1.Status{}, errSpent
		}
		err := o.Reconciler.try(ctx, c)
		if answer, rejected := rejected(err); rejected {
			return false, answer, nil
		}
		if err != nil {
			return false, metav1.Status{}, err
		}
	}
	return true, metav1.Status{}, nil
}

// rejected returns the API server's answer if it rejected a write as invalid.
func rejected(err error) (metav1.Status, bool) {
	if answer := apierrors.APIStatus(nil); apierrors.IsInvalid(err) && errors.As(err, &answer) {
		return answer.Status(), true
	}
	return metav1.Status{}, false
}

// baseName returns the name of a configuration without the number of its part.
func baseName(name string) string {
	return strings.TrimSuffix(strings.TrimRight(name, "0123456789"), "-")
}

// useDryRun reports whether a dry run is left, and uses it.
func (o *Offenders) useDryRun() bool {
	now := o.Now()
	o.tries = slices.DeleteFunc(o.tries, func(at time.Time) bool { return now.Sub(at) >= tryPeriod })
	if len(o.tries) >= maxTries {
		return false
	}
	o.tries = append(o.tries, now)
	return true
}

// leaveOut records that the API server rejects the webhooks of a policy, with its words.
func (o *Offenders) leaveOut(p *policy.Program, words string) {
	if o.blamed == nil {
		o.blamed = map[string][]time.Time{}
	}
	now := o.Now()
	if p.Namespace != "" {
		o.blamed[p.Namespace] = append(o.blamed[p.Namespace], now)
	}
	o.verdicts[edition(p)] = verdict{fmt.Errorf("the API server rejects the webhook of the policy: %s", cmp.Or(words, "it gives no reason")), now}
}

// maxWords is the maximum length of the API server's words in an error.
const maxWords = 1 << 10

// words returns what the API server says about webhooks of a rejected configuration: causes in these webhooks, and those without a field, such
// as the message of a ValidatingAdmissionPolicy. Causes in the address of a webhook are left out, since the address contains a secret.
func words(answer metav1.Status, about func(index int) bool) string {
	if answer.Details == nil {
		return ""
	}
	var out []string
	for _, c := range answer.Details.Causes {
		var index int
		if c.Field == "" {
			out = append(out, c.Message)
			continue
		}
		if _, err := fmt.Sscanf(c.Field, "webhooks[%d]", &index); err != nil || !about(index) {
			continue
		}
		_, field, _ := strings.Cut(c.Field, ".")
		if !strings.HasPrefix(field, "clientConfig") {
			out = append(out, field+": "+c.Message)
		}
	}
	text := strings.Join(out, "; ")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + " …"
	}
	return text
}
