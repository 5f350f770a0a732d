package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/webhookconf"
)

// removeOnShutdown removes the webhook configurations when a process ends because its Deployment was scaled to zero or
// deleted, because then no replica would answer reviews. The next replica that starts writes the configurations again. They
// stay during a rolling update, and when a Pod is evicted.
//
// Every replica removes them, after its own tasks have ended: a replica that was still leading while another one ended may
// have written them again.
type removeOnShutdown struct {
	live   client.Reader // reads from the API server, not from the cache
	client client.Writer
	// deployment is the Deployment of the process. Without a name, as with --serverIP, the process does not belong to a Deployment.
	deployment client.ObjectKey
	log        *slog.Logger

	existed bool
}

// removalTimeout limits the time for the removal.
const removalTimeout = 5 * time.Second

// begin records whether the Deployment exists, to distinguish its deletion from a process that never had one.
func (s *removeOnShutdown) begin(ctx context.Context) {
	if s.deployment.Name == "" {
		return
	}
	_, err := s.get(ctx)
	s.existed = err == nil
}

// end removes the configurations if the Deployment was scaled to zero or deleted. ctx is already cancelled.
func (s *removeOnShutdown) end(ctx context.Context) {
	if s.deployment.Name == "" || ctx.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
	defer cancel()
	why, err := s.reason(ctx)
	if err == nil && why != "" {
		s.log.Warn("removing webhook configurations: no replica will answer", "deployment", s.deployment.Name, "reason", why)
		err = webhookconf.Remove(ctx, s.client)
	}
	if err != nil {
		s.log.Error("webhook configurations may remain without a server", "error", err)
	}
}

// reason returns the reason why no Pod will replace this one; it is empty if one will.
func (s *removeOnShutdown) reason(ctx context.Context) (string, error) {
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

func (s *removeOnShutdown) get(ctx context.Context) (*unstructured.Unstructured, error) {
	d := &unstructured.Unstructured{}
	d.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	if err := s.live.Get(ctx, s.deployment, d); err != nil {
		return nil, fmt.Errorf("read the Deployment %s: %w", s.deployment.Name, err)
	}
	return d, nil
}
