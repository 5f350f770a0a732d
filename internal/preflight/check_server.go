package preflight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// oldest is the oldest Kubernetes that the chart accepts.
const oldest = "1.30.0"

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
}
