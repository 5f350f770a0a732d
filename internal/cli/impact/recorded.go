package impact

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/decision/store"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
)

// Recorded is the set of recorded decisions, for commands that evaluate the recorded requests with a policy from a cluster.
type Recorded struct{ options }

// AddFlags adds the flags that select the decisions.
func (o *Recorded) AddFlags(f *pflag.FlagSet) {
	f.Var(terminal.Paths(&o.decisions), "decisions", "records of the admission controller (flag --decisions): recorded reviews are counted, too, and requests that they include (--decisionsRequests) are evaluated again; files of JSON lines, - for standard input, or stores: "+store.ReadForms()+" (repeat it, or separate by commas)")
	o.server.AddFlags(f)
	f.Var(&o.since, "since", "only recorded decisions within this time before now, such as 7d or 24h; by default all")
}

// AddAuditFlag adds the flag with this name that selects audit logs.
func (o *Recorded) AddAuditFlag(f *pflag.FlagSet, name string) {
	f.Var(terminal.Paths(&o.auditLogs), name, auditUsage)
}

// auditUsage describes the flag of audit logs.
const auditUsage = "audit logs of the API server, at level RequestResponse; - for standard input (repeat it, or separate by commas)"

// Given reports whether the user gave decisions, or audit logs.
func (o *Recorded) Given() bool { return o.recorded() }

// Check reports invalid combinations of flags.
func (o *Recorded) Check() error {
	if o.since > 0 && !o.Given() {
		return errors.New("--since is about recorded decisions: add --decisions or --server")
	}
	return nil
}

// Open sets the kubeconfig of the cluster, whose token is sent to a server, and the namespaces whose decisions are read; none means all.
func (o *Recorded) Open(kubeconfig, kubeContext string, namespaces []string) error {
	o.kubeconfig, o.context, o.only = kubeconfig, kubeContext, namespaces
	return o.openServer()
}

// Unasked returns the number of namespaces that the server left out of the records.
func (o *Recorded) Unasked() int { return o.unasked }

// Since returns the time of --since; the zero time means all records.
func (o *Recorded) Since(now time.Time) time.Time { return o.since.Before(now) }

// Records returns the requests of the decisions, each request once.
func (o *Recorded) Records(ctx context.Context, stdin io.Reader) iter.Seq[impact.Record] {
	return o.records(ctx, stdin)
}

// Compare evaluates the records with two sets of policies, and passes each result to add. Rules look things up in the cluster if live is set, with the
// exceptions in it; otherwise only what is recorded is known.
func (o *Recorded) Compare(ctx context.Context, live bool, stdin io.Reader, before, after []*policy.Program, add func(*impact.Evaluated)) error {
	var given impact.Options
	var exceptions []*policy.Exception
	if live {
		at, err := o.open()
		if err != nil {
			return err
		}
		at.attach(&given)
		exceptions, _ = at.exceptions(ctx) // what cannot be read exempts nothing, in either set
	} else if err := o.offline(&given, &impact.Facts{}); err != nil {
		return err
	}
	return impact.Each(ctx, o.records(ctx, stdin), impact.NewReplica(catalog.Join(after, exceptions), given), impact.NewReplica(catalog.Join(before, exceptions), given), add)
}

// Evaluate evaluates the records with a policy and its exceptions in a cluster, in which rules look things up, and passes each result
// to add. The diagnostics report exceptions that could not be read.
func (o *Recorded) Evaluate(ctx context.Context, p *policy.Program, records iter.Seq[impact.Record], add func(*impact.Evaluated)) (diag.List, error) {
	at, err := o.open()
	if err != nil {
		return nil, err
	}
	var given impact.Options
	at.attach(&given)
	exceptions, diags := at.exceptions(ctx)
	return diags, impact.Each(ctx, records, impact.NewReplica(catalog.Join([]*policy.Program{p}, exceptions), given), nil, add)
}
