package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/webhookconf"
)

// Shutdown removes the webhook configurations when a process ends because its Deployment was scaled to zero or
// deleted, because then no replica would answer reviews. The next replica that starts writes the configurations again. They
// stay during a rolling update, and when a Pod is evicted.
//
// Every replica removes them, after its own tasks have ended: a replica that was still leading while another one ended may
// have written them again.
type Shutdown struct {
	Live   client.Reader // reads from the API server, not from the cache
	Client client.Writer
	// Deployment is the Deployment of the process. Without a name, as with --serverIP, the process does not belong to a Deployment.
	Deployment client.ObjectKey
	Log        *slog.Logger

	existed bool
}

// removalTimeout limits the time for the removal, and removalPause is the pause before it is tried again.
const (
	removalTimeout = 5 * time.Second
	removalPause   = 250 * time.Millisecond
)

// Begin records whether the Deployment may exist, to distinguish its deletion from a process that never had one.
func (s *Shutdown) Begin(ctx context.Context) {
	if s.Deployment.Name == "" {
		return
	}
	_, err := s.get(ctx)
	s.existed = !apierrors.IsNotFound(err)
}

// End removes the configurations if the Deployment was scaled to zero or deleted. ctx is already cancelled.
func (s *Shutdown) End(ctx context.Context) {
	if s.Deployment.Name == "" || ctx.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
	defer cancel()
	err := s.remove(ctx)
	for err != nil && !apierrors.IsForbidden(err) && ctx.Err() == nil {
		controller.Sleep(ctx, removalPause)
		if again := s.remove(ctx); again == nil || ctx.Err() == nil {
			err = again // otherwise it only says that the time is over
		}
	}
	if err != nil {
		s.Log.Error("webhook configurations may remain without a server", "error", err)
	}
}

// remove removes the configurations if no Pod will replace this one.
func (s *Shutdown) remove(ctx context.Context) error {
	why, err := s.reason(ctx)
	if err != nil || why == "" {
		return err
	}
	s.Log.Warn("removing webhook configurations: no replica will answer", "deployment", s.Deployment.Name, "reason", why)
	return webhookconf.Remove(ctx, s.Client)
}

// reason returns the reason why no Pod will replace this one; it is empty if one will.
func (s *Shutdown) reason(ctx context.Context) (string, error) {
	d, err := s.get(ctx)
	switch {
	case apierrors.IsNotFound(err) && s.existed:
		return "it was deleted", nil
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", err
	case d.GetDeletionTimestamp() != nil:
		return "it is being deleted", nil
	}
	if replicas, found, _ := unstructured.NestedInt64(d.Object, "spec", "replicas"); found && replicas == 0 {
		return "it has no replicas", nil
	}
	return "", nil
}

func (s *Shutdown) get(ctx context.Context) (*unstructured.Unstructured, error) {
	d := &unstructured.Unstructured{}
	d.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	if err := s.Live.Get(ctx, s.Deployment, d); err != nil {
		return nil, fmt.Errorf("read the Deployment %s: %w", s.Deployment.Name, err)
	}
	return d, nil
}
