package live

import (
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/discovery"
)

// Reviews returns a client for TokenReviews and SubjectAccessReviews. mapper is that of the process.
func Reviews(cfg *rest.Config, mapper meta.RESTMapper) (client.Client, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	c, err := discovery.NewClient(cfg, client.Options{Scheme: s, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for reviews of tokens: %w", err)
	}
	return c, nil
}
