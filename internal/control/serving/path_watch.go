package serving

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
)

// Failed records that a call may have failed. The API server shows the URL of a failed call to the requester, so the epoch is ended soon.
func (p *Paths) Failed() {
	if !p.on {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaked != p.epochs.Current.ID {
		p.leaked = p.epochs.Current.ID
		p.wake.Fire()
	}
}

// plainReason is the reason of the events that report plain paths.
const plainReason = "PlainWebhookPath"

// Watch returns the row that every replica runs: it creates a missing Secret, requests the end of a revealed epoch, and reports plain paths.
func (p *Paths) Watch() controller.Row {
	return controller.Row{Name: "webhook-paths", Sources: []controller.Source{p.wake}, Reconcile: func(ctx context.Context, _ string) (time.Duration, error) {
		if !p.on {
			return 0, nil
		}
		p.mu.Lock()
		missing, current, leaked, asked, standing, reported := p.secret == nil, p.epochs.Current.ID, p.leaked, p.asked, p.standing, p.reported
		p.mu.Unlock()
		if missing {
			if err := p.load(ctx); err != nil && !apierrors.IsConflict(err) {
				return 0, err
			}
		}
		if leaked != "" && leaked == current && asked != current {
			if err := p.requestRotation(ctx, current); err != nil {
				return 0, err
			}
		}
		for _, s := range standing {
			if p.Events == nil || slices.Contains(reported, s) {
				continue
			}
			p.log.Warn("a webhook configuration has a path without a secret segment: it is answered until the configuration is written again", "configuration", s.Configuration, "path", s.Path)
			p.Events.Record(event.Event{
				Regarding: event.Reference{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: s.Kind, Name: s.Configuration},
				Type:      event.Warning, Reason: plainReason, Action: event.None, Controller: p.controller,
				Note: fmt.Sprintf("the path %s has no secret segment: requests there are answered for every client until this configuration is written again, and %s longer",
					s.Path, p.flags.overlap),
			})
		}
		p.mu.Lock()
		p.reported = standing
		p.mu.Unlock()
		return 0, nil
	}}
}

// requestRotation requests that the leader ends an epoch.
func (p *Paths) requestRotation(ctx context.Context, epoch string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.store.Namespace, Name: p.store.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, rotateAnnotation, epoch)
	if err := p.manager.GetClient().Patch(ctx, secret, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("request new webhook paths in the Secret %s: %w", p.key(), err)
	}
	p.mu.Lock()
	p.asked = epoch
	p.mu.Unlock()
	return nil
}

// Led returns the row that runs once when this process becomes the leader, since the last leader may have crashed during a call.
func (p *Paths) Led() controller.Row {
	return controller.Row{Name: "webhook-paths-term", Owner: controller.Leader, Reconcile: func(context.Context, string) (time.Duration, error) {
		p.mu.Lock()
		fresh := p.epochs.Current.ID == p.made
		p.mu.Unlock()
		if !fresh {
			p.Failed()
		}
		return 0, nil
	}}
}
