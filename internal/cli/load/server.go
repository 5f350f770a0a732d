package load

import (
	"fmt"

	"github.com/spf13/pflag"
	clientdiscovery "k8s.io/client-go/discovery"

	"ephor.invalid/ephor/internal/kubeversion"
)

// ServerFlag selects the version of Kubernetes whose functions, standards and fields policies use.
type ServerFlag struct{ text string }

// AddFlag adds the flag --kubernetes-version.
func (s *ServerFlag) AddFlag(f *pflag.FlagSet, otherwise string) {
	f.StringVar(&s.text, "kubernetes-version", "", fmt.Sprintf("version of Kubernetes whose CEL functions, Pod Security Standards and fields count, such as 1.36; without it %s", otherwise))
}

// Version returns the given version, or that of the API server; the newest known one without either. cluster is nil without a cluster.
func (s *ServerFlag) Version(cluster clientdiscovery.ServerVersionInterface) (kubeversion.Minor, error) {
	if s.text != "" {
		v, err := kubeversion.Parse(s.text)
		switch {
		case err != nil:
			return 0, fmt.Errorf("--kubernetes-version: %w", err)
		case v > kubeversion.Newest:
			return 0, fmt.Errorf("--kubernetes-version: this version of Ephor knows Kubernetes up to %s", kubeversion.Newest)
		case v < kubeversion.Oldest:
			return 0, fmt.Errorf("--kubernetes-version: Ephor supports Kubernetes since %s", kubeversion.Oldest)
		}
		return v, nil
	}
	if cluster == nil {
		return 0, nil
	}
	info, err := cluster.ServerVersion()
	if err != nil {
		return 0, fmt.Errorf("ask the API server for its version: %w", err)
	}
	v, ok := kubeversion.Of(info.Major, info.Minor)
	if !ok {
		return 0, fmt.Errorf("the API server has an unknown version %s: name one with --kubernetes-version", info.GitVersion)
	}
	return v, nil
}
