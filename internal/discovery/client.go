package discovery

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// requestTimeout limits each request of discovery. It is the limit of client-go, which sets it only for clients that make their own connections.
const requestTimeout = 32 * time.Second

// limited returns a client for discovery on the connections of another one. Its requests end after 32 s, since a caller that waits for an answer
// that never comes holds up all others that need the same list.
func limited(c *http.Client) *http.Client {
	out := *c
	out.Timeout = requestTimeout
	return &out
}

// NewResources returns a client that lists what the API server serves, on existing connections. Its requests end after 32 s.
func NewResources(cfg *rest.Config, connections *http.Client) (*discovery.DiscoveryClient, error) {
	return discovery.NewDiscoveryClientForConfigAndClient(cfg, limited(connections))
}

// NewMapper returns what maps kinds to resources for clients, on existing connections. It asks the API server for kinds that it does not know, and
// holds a lock meanwhile, so that all callers of its clients wait; each request ends after 32 s.
func NewMapper(cfg *rest.Config, connections *http.Client) (meta.RESTMapper, error) {
	return apiutil.NewDynamicRESTMapper(cfg, limited(connections))
}

// NewClient returns a client that reads from the API server. Connections and mapper of the options are those of another client; without them the
// client has its own, as NewMapper makes it.
func NewClient(cfg *rest.Config, o client.Options) (client.WithWatch, error) {
	var err error
	if cfg.UserAgent == "" {
		cfg = rest.CopyConfig(cfg)
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if o.HTTPClient == nil {
		if o.HTTPClient, err = rest.HTTPClientFor(cfg); err != nil {
			return nil, fmt.Errorf("connect to the API server: %w", err)
		}
	}
	if o.Mapper == nil {
		if o.Mapper, err = NewMapper(cfg, o.HTTPClient); err != nil {
			return nil, fmt.Errorf("connect to the API server: %w", err)
		}
	}
	return client.NewWithWatch(cfg, o)
}
