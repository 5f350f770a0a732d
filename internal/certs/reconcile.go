package certs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Interval is how often the certificates are looked at when nothing else happens.
const Interval = 12 * time.Hour

// Reconciler keeps the two Secrets valid. Only the leader runs it.
type Reconciler struct {
	Config Config
	Client client.Writer
	// Reader reads the Secrets from the API server itself: a renewal that looked at an old copy would be lost work.
	Reader client.Reader
	Now    func() time.Time
	Log    *slog.Logger
}

// Reconcile issues what Make asks for. It returns when to look again.
func (r *Reconciler) Reconcile(ctx context.Context) (time.Duration, error) {
	var state State
	var err error
	if state.CA, err = r.get(ctx, r.Config.CASecret); err != nil {
		return 0, err
	}
	if state.TLS, err = r.get(ctx, r.Config.TLSSecret); err != nil {
		return 0, err
	}
	now := r.Now()
	plan, err := Make(r.Config, state, now)
	if err != nil {
		return 0, err
	}
	if !plan.RenewCA && !plan.RenewTLS {
		return Interval, nil
	}
	r.Log.Info("renewing certificates", "ca", plan.RenewCA, "tls", plan.RenewTLS, "reason", plan.Reason)
	ca := plan.CA
	if plan.RenewCA {
		if ca, err = renewCA(r.Config, plan, now); err != nil {
			return 0, fmt.Errorf("issue the CA: %w", err)
		}
		if err := r.write(ctx, r.Config.CASecret, state.CA, plan.ReplaceCA, ca); err != nil {
			return 0, err
		}
	}
	if plan.RenewTLS {
		leaf, err := issueLeaf(ca, r.Config.Names, r.Config.Algorithm, now)
		if err != nil {
			return 0, fmt.Errorf("issue the serving certificate: %w", err)
		}
		if err := r.write(ctx, r.Config.TLSSecret, state.TLS, plan.ReplaceTLS, leaf); err != nil {
			return 0, err
		}
	}
	return Interval, nil
}

func renewCA(cfg Config, p Plan, now time.Time) (*Pair, error) {
	if p.CA != nil {
		return issueCA(p.CA.Key, p.Keep, now)
	}
	key, err := newKey(cfg.Algorithm)
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

// write stores the pair. The resource version of old guards against another writer.
func (r *Reconciler) write(ctx context.Context, name string, old *corev1.Secret, replace bool, p *Pair) error {
	certPEM, keyPEM, err := p.Encode()
	if err != nil {
		return err
	}
	if replace {
		if err := r.Client.Delete(ctx, old); client.IgnoreNotFound(err) != nil {
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
