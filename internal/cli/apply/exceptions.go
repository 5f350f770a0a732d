package apply

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/source"
)

func (o *options) addExceptionFlags(f *pflag.FlagSet) {
	paths := terminal.Paths(&o.exceptions)
	f.VarP(paths, "exception", "e", "exceptions: files, directories, globs (repeat it, or separate by commas)")
	f.Var(paths, "exceptions", "the same as --exception")
	f.BoolVar(&o.exceptionsWithinResources, "exceptions-within-resources", false, "use the exceptions among the resources instead of those of --exception")
	f.BoolVar(&o.exceptionsWithinResources, "exceptions-with-resources", false, "the same as --exceptions-within-resources")
	f.BoolVar(&o.exceptionsWithinPolicies, "exceptions-within-policies", false, "also use the exceptions among the policies")
	f.BoolVar(&o.generateExceptions, "generate-exceptions", false, "print exceptions for the failures instead of the failures")
	f.DurationVar(&o.exceptionTTL, "generated-exception-ttl", defaultExceptionTTL, "lifetime of the exceptions that are printed")
}

// inputs lists the resources, and reads the exceptions from the sources that the flags select. If both are read from
// standard input, it keeps the text for the second use.
func (o *options) inputs(ctx context.Context, set load.PolicySet, c *remote.Cluster, stdin io.Reader) ([]source.Input, diag.List, load.ExceptionSet, error) {
	var exceptions load.ExceptionSet
	if o.exceptionsWithinResources && c != nil {
		exceptions = exceptionsIn(ctx, c, o.cluster.namespace)
	} else if o.exceptionsWithinResources {
		if stdin != nil && slices.Contains(o.resources, "-") {
			b, err := io.ReadAll(stdin)
			if err != nil {
				return nil, nil, exceptions, fmt.Errorf("read standard input: %w", err)
			}
			again, _ := source.Find(o.resources, source.Options{Stdin: bytes.NewReader(b)})
			exceptions = load.ExceptionsWithin(again)
			stdin = bytes.NewReader(b)
		} else {
			again, _ := source.Find(o.resources, source.Options{})
			exceptions = load.ExceptionsWithin(again)
		}
	} else {
		exceptions = load.Exceptions(o.exceptions, stdin)
	}
	if o.exceptionsWithinPolicies {
		for _, e := range set.Within {
			exceptions.Add(e)
		}
	} else {
		exceptions.Diags.Add(exceptions.NotApplied(set, "add --exceptions-within-policies to apply it")...)
	}
	if c != nil {
		return nil, nil, exceptions, nil // with a cluster, the resources are names of objects
	}
	inputs, mistakes := source.Find(o.resources, source.Options{Stdin: stdin})
	return inputs, mistakes, exceptions, nil
}

// exceptionsIn reads the exceptions of all kinds from the cluster: those in the namespace, or all if the namespace is empty.
func exceptionsIn(ctx context.Context, c *remote.Cluster, namespace string) load.ExceptionSet {
	var set load.ExceptionSet
	found := c.Exceptions(ctx, namespace, func(o source.Object) { set.Add(o) })
	set.Diags.Add(found...)
	return set
}
