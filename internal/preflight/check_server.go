package preflight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"ephor.invalid/ephor/internal/kubeversion"
)

// oldest is the oldest Kubernetes that the chart accepts.
const oldest = "1.30.0"

// server returns the version of the API server; the newest known one if it cannot be read.
func (s *state) server() kubeversion.Minor {
	v, _ := kubeversion.Parse(s.Version) // checkVersion reports the error
	return v
}

func (s *state) checkVersion(context.Context) {
	at := Object{Kind: "APIServer"}
	v, err := version.ParseGeneric(s.Version)
	if err != nil {
		s.unread(at, fmt.Errorf("its version: %w", err))
		return
	}
	if v.LessThan(version.MustParseGeneric(oldest)) {
		s.add(Finding{
			Code: "kubernetes-version", Severity: Stops, Object: at,
			Message: fmt.Sprintf("Kubernetes is %s; Ephor needs %s or later, and its chart refuses an older one", s.Version, oldest),
		})
	}
	if s.server() >= staticSince {
		s.add(staticNote(at))
	}
}
