package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Interval is the time between two checks without an event: the clock may be set, and the event of a deletion may be lost.
	Interval = 20 * time.Second
	// retry is the pause before a round that waits for another writer.
	retry = 500 * time.Millisecond
	// settle is the time that API servers get to load a bundle before we rely on it.
	settle = 2 * time.Second
	// patience is how long a serving certificate waits for the bundles, which may never be updated.
	patience = 30 * time.Second
)

// Reconciler keeps the two Secrets valid. Only the leader runs it.
//
// A rotation takes three rounds: the first adds the new authority to the bundle; the second waits until the webhook configurations have
// the bundle; in the third the new authority issues the serving certificate. So clients trust the served certificate at every moment.
type Reconciler struct {
	Config Config
	Client client.Writer
	// Reader reads the Secrets directly from the API server: a renewal that is based on an outdated copy would be lost.
	Reader client.Reader
	// Serving returns the chain that is currently served; nil for none.
	Serving func() []*x509.Certificate
	// Published returns the bundles with which clients verify the server; nil for none.
	Published func(context.Context) ([][]byte, error)
	Now       func() time.Time
	Log       *slog.Logger

	waiting time.Time // start of the wait for the bundles; zero if no certificate waits
	trusted time.Time // when all bundles began to trust the awaited authority
}

// Reconcile executes the plan of Make. It returns the time until the next check.
func (r *Reconciler) Reconcile(ctx context.Context) (time.Duration, error) {
	var state State
	var err error
	if state.CA, err = r.get(ctx, r.Config.CASecret); err != nil {
		return 0, err
	}
	if state.TLS, err = r.get(ctx, r.Config.TLSSecret); err != nil {
		return 0, err
	}
	if r.Published != nil {
		if state.Published, err = r.Published(ctx); err != nil {
			return 0, err
		}
	}
	if r.Serving != nil {
		state.Serving = r.Serving()
	}
	now := r.Now()
	plan, err := Make(r.Config, state, now)
	if err != nil {
		return 0, err
	}
	next, err := r.carryOut(ctx, state, plan, now)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return retry, nil // another writer was faster: read the current state
	}
	return next, err
}

func (r *Reconciler) carryOut(ctx context.Context, state State, plan Plan, now time.Time) (time.Duration, error) {
	if plan.WriteCA {
		r.Log.Info("writing the certificate authority", "secret", r.Config.CASecret, "new", plan.RenewCA, "newKey", plan.NewKey,
			"kept", len(plan.Keep), "reason", plan.Reason)
		ca, err := r.authority(plan, now)
		if err != nil {
			return 0, fmt.Errorf("issue the CA: %w", err)
		}
		if err := r.write(ctx, r.Config.CASecret, state.CA, plan.ReplaceCA, ca); err != nil {
			return 0, err
		}
		plan.CA = ca
		if plan.RenewCA && len(state.Published) > 0 {
			return retry, nil // the bundles must be updated first
		}
	}
	switch {
	case plan.Wait && !r.out(now):
		return retry, nil
	case !plan.RenewTLS && !plan.Wait:
		r.waiting, r.trusted = time.Time{}, time.Time{}
		return Interval, nil
	case plan.RenewTLS && !r.waiting.IsZero() && len(state.Serving) > 0:
		if r.trusted.IsZero() {
			r.trusted = now
		}
		if within(r.trusted, now, settle) {
			return retry, nil
		}
	}
	r.Log.Info("issuing the serving certificate", "secret", r.Config.TLSSecret, "reason", plan.Reason)
	leaf, err := issueLeaf(plan.CA, &r.Config, now)
	if err != nil {
		return 0, fmt.Errorf("issue the serving certificate: %w", err)
	}
	if err := r.write(ctx, r.Config.TLSSecret, state.TLS, plan.ReplaceTLS, leaf); err != nil {
		return 0, err
	}
	r.waiting, r.trusted = time.Time{}, time.Time{}
	return Interval, nil
}

// out reports whether the wait for the bundles is over. It ends even if the clock is set.
func (r *Reconciler) out(now time.Time) bool {
	if r.waiting.IsZero() {
		r.waiting = now
	}
	if within(r.waiting, now, patience) {
		return false
	}
	r.Log.Warn("the webhook configurations do not have the new CA; issuing the serving certificate anyway", "since", r.waiting)
	return true
}

// authority issues a CA certificate, or only updates the bundle.
func (r *Reconciler) authority(p Plan, now time.Time) (*Pair, error) {
	switch {
	case !p.RenewCA:
		return &Pair{Certs: append([]*x509.Certificate{p.CA.Newest()}, p.Keep...), Key: p.CA.Key}, nil
	case !p.NewKey:
		return issueCA(p.CA.Key, p.Keep, now)
	}
	key, err := newKey(r.Config.Algorithm)
	if err != nil {
		return nil, err
	}
	return issueCA(key, p.Keep, now)
}

func (r *Reconciler) get(ctx context.Context, name string) (*corev1.Secret, error) {
	var s corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: r.Config.Namespace, Name: name}, &s)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the Secret %s: %w", name, err)
	}
	return &s, nil
}

// write stores the pair. The resource version of old prevents overwriting the change of another writer.
func (r *Reconciler) write(ctx context.Context, name string, old *corev1.Secret, replace bool, p *Pair) error {
	certPEM, keyPEM, err := p.Encode()
	if err != nil {
		return err
	}
	if replace {
		uid := old.UID
		err := r.Client.Delete(ctx, old, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the Secret %s: %w", name, err)
		}
		old = nil
	}
	data := map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM}
	if old == nil {
		err = r.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.Config.Namespace, Name: name, Labels: map[string]string{ManagedLabel: ManagedValue}},
			Type:       corev1.SecretTypeTLS,
			Data:       data,
		})
	} else {
		changed := old.DeepCopy()
		changed.Data = data
		err = r.Client.Update(ctx, changed)
	}
	if err != nil {
		return fmt.Errorf("write the Secret %s: %w", name, err)
	}
	return nil
}
