package remote

import (
	"context"
	"fmt"

	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/cluster"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/live"
)

// Cluster is a cluster whose objects are evaluated. Rules look things up in it with the rights of the kubeconfig.
type Cluster struct {
	Dynamic dynamic.Interface
	Kinds   *Served
	Root    *live.Root
	// Client is the client of Reader, which reads policies, owners and namespaces.
	Client rest.Interface
	Reader *cluster.Reader

	server clientdiscovery.ServerVersionInterface
}

// Limits of requests to the API server. Listing waits for each page anyway, but rules may send many requests.
const (
	QPS   = 100
	Burst = 200
)

// Open connects to the cluster that kubectl would use, and lists the resources that it serves.
func Open(kubeconfig, context string, registries bool) (*Cluster, error) {
	config, err := Config(kubeconfig, context)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst, config.UserAgent = QPS, Burst, "ephor-cli"
	config.WarningHandler = rest.NoWarnings{} // policies may match deprecated versions, which is not a mistake of the user
	c := &Cluster{}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	resources, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	if c.Kinds, err = servedBy(resources); err != nil {
		return nil, fmt.Errorf("list what the cluster serves: %w", err)
	}
	c.server = resources
	if c.Client, err = cluster.Client(config); err != nil {
		return nil, err
	}
	c.Reader = cluster.New(c.Client, cluster.Options{Kinds: c.Kinds})
	reader, err := discovery.NewClient(config, client.Options{})
	if err != nil {
		return nil, err
	}
	o := live.Options{
		Config: config, Reader: reader, Creator: reader, Labels: c.NamespaceLabels, Kinds: c.Kinds.lookups(),
		Services:   apicall.ServiceOptions{Block: apicall.DefaultBlocklist},
		Signatures: c.signatures,
		Globals: func(r *live.Root) error {
			r.Globals = (&globals{objects: r.For(world.Cluster()).Objects, api: r.API, services: r.Services}).read
			return nil
		},
	}
	if registries {
		o.Registries = c.registries
	}
	if c.Root, err = live.Open(o); err != nil {
		return nil, err
	}
	return c, nil
}

// Server answers which version the API server has; nil without a cluster.
func (c *Cluster) Server() clientdiscovery.ServerVersionInterface {
	if c == nil {
		return nil
	}
	return c.server
}

// NamespaceLabels reads the labels of a namespace once.
func (c *Cluster) NamespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	labels, err := c.Reader.NamespaceLabels(ctx, namespace)
	if err != nil {
		err = fmt.Errorf("failed to get the resource's namespace (%w)", err)
	}
	return labels, err
}
