package apply

import (
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/policy"
)

// clusterOptions are the flags of apply that concern clusters.
type clusterOptions struct {
	use             bool
	namespace       string
	wide            bool
	kubeconfig      string
	context         string
	continueOnError bool
	concurrent      int
	batchSize       int64
	performance     bool
}

func (o *clusterOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVarP(&o.use, "cluster", "c", false, "evaluate the objects of a cluster; --resource then selects objects by name")
	f.StringVarP(&o.namespace, "namespace", "n", "", "evaluate only the objects in this namespace of the cluster")
	f.BoolVar(&o.wide, "cluster-wide-resources", false, "evaluate cluster-scoped objects; with --namespace, also evaluate the objects in that namespace")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig to use")
	f.BoolVar(&o.continueOnError, "continue-on-error", true, "continue with a warning when a kind cannot be listed")
	f.IntVar(&o.concurrent, "concurrent", 1, "number of kinds that are listed in parallel")
	f.Int64Var(&o.batchSize, "batch-size", remote.PageSize, "number of objects per list request")
	f.BoolVar(&o.performance, "show-performance", false, "report on standard error how long listing each kind took")
}

// check reports invalid combinations of flags.
func (o *clusterOptions) check(f *pflag.FlagSet) error {
	if !o.use {
		for _, name := range []string{"namespace", "cluster-wide-resources", "context"} {
			if f.Changed(name) {
				return fmt.Errorf("the flag --%s is about a cluster: add --cluster", name)
			}
		}
	}
	if o.concurrent < 1 || o.batchSize < 1 {
		return errors.New("--concurrent and --batch-size must be positive")
	}
	if f.Changed("crd-paths") && f.Changed("kubeconfig") || f.Changed("crd-path") && f.Changed("kubeconfig") {
		return errors.New("crd-paths and kubeconfig flags are mutually exclusive, please use only one of them")
	}
	return nil
}

// query returns the query for the objects of the cluster on which the policies are evaluated. names are the values of --resource.
func (o *clusterOptions) query(c *remote.Cluster, programs []*policy.Program, names []string) remote.Query {
	if c == nil {
		return remote.Query{}
	}
	kinds, unlisted := c.Kinds.All(programs)
	return remote.Query{
		Kinds: remote.InScope(kinds, o.namespace, o.wide), Unlisted: unlisted, Namespace: o.namespace, Names: names,
		Page: o.batchSize, Parallel: o.concurrent, Strict: !o.continueOnError,
	}
}

// printMissing reports the names of --resource that no object of the cluster has. seen are the names that were found.
func (o *options) printMissing(w io.Writer, seen map[string]bool) error {
	var errs []error
	for _, name := range o.resources {
		if !o.cluster.use || seen[path.Base(name)] {
			continue
		}
		if !o.report {
			fmt.Fprintf(w, "%s\nresource %s not found in cluster\n%s\n", ruleLine, name, ruleLine)
		}
		errs = append(errs, fmt.Errorf("%s not found in cluster", name))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("failed to load resources (%w)", errors.Join(errs...))
}

// timing returns a function that writes how long listing took, or nil if the user did not request it.
func (o *clusterOptions) timing(w io.Writer) func(remote.Page) {
	if !o.performance {
		return nil
	}
	return func(p remote.Page) {
		fmt.Fprintf(w, "listed %d %s in %s\n", len(p.Objects), p.Kind.GVR().GroupResource(), p.Took.Round(time.Millisecond))
	}
}

// open connects to the cluster if the flags ask for one. registries means that rules may query image registries.
func (o *clusterOptions) open(registries bool) (*remote.Cluster, error) {
	if !o.use {
		return nil, nil
	}
	c, err := remote.Open(o.kubeconfig, o.context, registries)
	if err != nil {
		return nil, fmt.Errorf("failed to reach the cluster (%w)", err)
	}
	return c, nil
}
