package preflight

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/settings"
)

// configMap is the name of the main ConfigMap, which both charts have.
const configMap = "kyverno"

func (s *state) checkSettings(ctx context.Context) {
	at := Object{Kind: "ConfigMap", Namespace: s.Namespace, Name: configMap}
	stored := &corev1.ConfigMap{}
	switch err := s.Reader.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: configMap}, stored); {
	case apierrors.IsNotFound(err):
		return
	case err != nil:
		s.unread(at, err)
		return
	}
	var diags diag.List
	s.settings, diags = settings.Parse(stored.Data)
	for _, d := range diags {
		s.add(Finding{Code: "setting-unread", Severity: Note, Object: at, Message: d.String()})
	}
}
