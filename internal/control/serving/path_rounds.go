package serving

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/secretpath"
	"ephor.invalid/ephor/internal/webhookconf"
)

// RetryConflict is the pause before a write is retried after a conflict. It doubles up to longestConflict while the cache stays older than the
// stored objects, which after an outage takes until its watch begins again.
const (
	RetryConflict   = 100 * time.Millisecond
	longestConflict = 10 * time.Second
)

// rolloutPatience is how long plain paths are kept during a rollout. rolloutLook is the pause between two checks of the rollout.
const (
	rolloutPatience = 10 * time.Minute
	rolloutLook     = 2 * time.Second
)

// writing describes the paths in the configurations of one round.
type writing struct {
	// path converts a plain path to the path to write; nil for plain paths.
	path func(plain string) string
	// retires is the ID of the epoch that ends once the paths are written; empty for none.
	retires string
	// wait is the time until the next check.
	wait time.Duration
}

// before starts or ends an epoch if that is due, and returns the paths to write. Only the leader calls it.
func (p *Paths) before(ctx context.Context) (writing, error) {
	if !p.on {
		return writing{}, nil
	}
	p.mu.Lock()
	secret, epochs, current, previous, standing := p.secret, p.epochs, p.current, p.previous, len(p.standing) > 0
	p.mu.Unlock()
	if secret == nil {
		return writing{}, errors.New("the key of the webhook paths is not known")
	}
	now := p.now()
	if !standing {
		p.plain = time.Time{} // a later rollout begins anew
	} else if p.keepPlain(ctx, now) {
		return writing{wait: rolloutLook}, nil
	}
	asked := secret.Annotations[rotateAnnotation]
	step := p.rotation.Next(epochs, asked == rotateNow || asked == epochs.Current.ID, now)
	switch {
	case step.Begin:
		if err := p.write(ctx, secret, epochs.Begin(secretpath.NewID(), now)); err != nil {
			return writing{}, err
		}
		p.log.Info("starting new webhook paths", "asked", asked != "")
		return writing{path: current.Path, wait: pathSettle}, nil
	case step.End:
		if err := p.write(ctx, secret, epochs.End()); err != nil {
			return writing{}, err
		}
		return writing{path: current.Path, wait: time.Millisecond}, nil
	case step.Previous:
		return writing{path: previous.Path, wait: step.Wait}, nil
	case step.Retire:
		return writing{path: current.Path, retires: epochs.Previous.ID, wait: step.Wait}, nil
	}
	return writing{path: current.Path, wait: step.Wait}, nil
}

// after is called when all configurations are written. Until then the previous epoch stays valid, no matter how long that takes.
func (p *Paths) after(ctx context.Context, w writing) error {
	if w.retires == "" {
		return nil
	}
	p.mu.Lock()
	secret, epochs := p.secret, p.epochs
	p.mu.Unlock()
	if secret == nil || epochs.Previous == nil || epochs.Previous.ID != w.retires || !epochs.Previous.Retired.IsZero() {
		return nil
	}
	return p.write(ctx, secret, epochs.Retire(p.now()))
}

// Round calls write with the current paths, and advances the epochs. It writes nothing while the cluster is unlocked. A conflict of write, or
// ErrUnlocked, means that the cache is older than a write, usually our own: the round is repeated.
func (p *Paths) Round(
	ctx context.Context, u *Unlocked, write func(context.Context, func(string) string) (written bool, again time.Duration, err error),
) (time.Duration, error) {
	left := u.left()
	if left > 0 {
		if !p.on || p.present() {
			return left, nil
		}
		// The configurations contain no epoch now, but epochs still start and end.
		write = func(context.Context, func(string) string) (bool, time.Duration, error) { return true, left, nil }
	}
	w, err := p.before(ctx)
	if stale(err) {
		return p.behind.Next(), nil
	}
	if err != nil {
		return 0, err
	}
	written, again, err := write(ctx, w.path)
	if stale(err) {
		return sooner(p.behind.Next(), w.wait), nil
	}
	if written {
		switch failed := p.after(ctx, w); {
		case stale(failed):
			return sooner(p.behind.Next(), w.wait), nil
		case failed != nil:
			err = errors.Join(err, failed)
		}
		p.behind = conflictPause
	}
	return sooner(again, w.wait), err
}

// conflictPause is the pause after a first conflict.
var conflictPause = controller.Pause{First: RetryConflict, Longest: longestConflict}

// stale reports whether an error shows that the cache is older than a write.
func stale(err error) bool { return apierrors.IsConflict(err) || errors.Is(err, ErrUnlocked) }

// present reports whether a webhook configuration calls our server.
func (p *Paths) present() bool {
	all, err := p.stored()
	return err != nil || slices.ContainsFunc(all, func(o client.Object) bool { return webhookconf.Asks(o, p.Ours) })
}

// keepPlain reports whether configurations keep their plain paths for now. During a rollout of the Deployment, Pods of the earlier version
// still answer some of the requests, and they know only plain paths.
func (p *Paths) keepPlain(ctx context.Context, now time.Time) bool {
	if p.deployment.Name == "" {
		return false
	}
	if p.plain.IsZero() {
		p.plain = now
	}
	if now.Sub(p.plain) > rolloutPatience {
		return false
	}
	d := &unstructured.Unstructured{}
	d.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	if err := p.store.Reader.Get(ctx, p.deployment, d); err != nil {
		return false // without an answer, secret paths take precedence
	}
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(d.Object, fields...)
		return n
	}
	old := number("status", "replicas") > number("status", "updatedReplicas")
	return old || number("status", "observedGeneration") < d.GetGeneration()
}

// sooner returns the shorter of two waits. 0 means no wait is set.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
