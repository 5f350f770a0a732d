package remote

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Config returns the configuration for the cluster that kubectl would use.
func Config(kubeconfig, context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, noConfig(rules)
	case err != nil:
		return nil, fmt.Errorf("%w%s", err, contextHint(rules, context))
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return explained{next, config.Host} })
	return config, nil
}

// explained says what to do when no program answers at the address of the API server.
type explained struct {
	next http.RoundTripper
	host string
}

func (e explained) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := e.next.RoundTrip(r)
	if utilnet.IsConnectionRefused(err) {
		err = fmt.Errorf("%w (no API server answers at %s: start the cluster, or choose another one with --kubeconfig or --context)", err, e.host)
	}
	return response, err
}

// noConfig returns the error for a machine without a cluster: no file is named, or the files that are named do not exist.
func noConfig(rules *clientcmd.ClientConfigLoadingRules) error {
	named := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if named == "" {
		return errors.New("no cluster is configured: name a kubeconfig file with --kubeconfig, or in the environment variable KUBECONFIG")
	}
	for _, file := range rules.Precedence {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("the environment variable KUBECONFIG names a file that cannot be read: %w (correct the path, or name another file with --kubeconfig)", err)
		}
	}
	return fmt.Errorf("no cluster is configured in %s, which the environment variable KUBECONFIG names", named)
}

// contextHint says which contexts there are if the named one does not exist; how to correct a kubeconfig that cannot be read; empty for other errors.
func contextHint(rules *clientcmd.ClientConfigLoadingRules, context string) string {
	config, err := rules.Load()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return " (correct the path, or name another file with --kubeconfig)"
	case err != nil:
		return " (correct the file, or name another one with --kubeconfig; kubectl config view reads the same file)"
	case config.Contexts[cmp.Or(context, config.CurrentContext)] != nil:
		return ""
	case len(config.Contexts) == 0:
		return " (the kubeconfig has no contexts)"
	}
	return " (the contexts of the kubeconfig are " + strings.Join(slices.Sorted(maps.Keys(config.Contexts)), ", ") + ")"
}

// PageSize is the number of objects in a page of a list.
const PageSize = 100
