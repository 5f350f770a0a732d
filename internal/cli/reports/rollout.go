package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/impact"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/rollout"
)

// rolloutOptions are the flags of rollout.
type rolloutOptions struct {
	policy     string
	from       reportSource
	ownerLabel string
	ownerReads int
	prometheus prometheus
	decisions  impact.Recorded
	window     time.Duration
	minAge     time.Duration
	limit      int
	format     string
	audit      auditFirst
	replace    replacement
}

func NewRollout() *cobra.Command {
	o := &rolloutOptions{}
	cmd := &cobra.Command{
		Use:   "rollout POLICY | rollout --audit-first | rollout --replace OLD=FILE",
		Short: "Show whether a policy can be enforced, and which resources it would refuse",
		Long: "Rollout reads the reports about a policy and answers the questions before a switch from Audit to Enforce: which resources\n" +
			"would be refused, in which namespaces, who owns them, and for each namespace whether the switch is safe. It compares with\n" +
			"the figures of the usual guide: all resources compliant, and less than 1% violations. POLICY is the name of a ClusterPolicy,\n" +
			"or NAMESPACE/NAME of a Policy.\n\n" +
			"With recorded decisions it also shows whose requests would have been refused. It evaluates recorded requests with the current\n" +
			"policy; for records without the request it uses the recorded results of the rules.\n\n" +
			"The exit code is 0 when the switch is safe, 2 when it is not safe or when that is unknown, and 1 when something could not be\n" +
			"read. What is unknown is listed, with the input that would answer it.\n\n" +
			"With --audit-first all policies of the kinds ClusterPolicy, Policy, CleanupPolicy and ClusterCleanupPolicy that the cluster stores\n" +
			"report first, and deny and change nothing, until --as-written releases them one by one. The list is in the ConfigMap of the\n" +
			"installation, so it can be written before Ephor replaces Kyverno.\n\n" +
			"With --replace OLD=FILE the policies in FILE, such as those that `ephor convert` writes, run in Audit beside the policy OLD. The same\n" +
			"command then shows where the results in reports, and for recorded requests, differ. When some days passed without a difference, --swap\n" +
			"lets the new policies do what they say, waits until they are ready, and deletes OLD.",
		Example: "  ephor rollout require-team --owner-label team\n" +
			"  ephor rollout require-team -n shop,lab -o json\n" +
			"  ephor rollout require-team --decisions decisions.jsonl --since 24h --owner-label team\n" +
			"  ephor rollout require-team --server https://127.0.0.1:8443 --certificate-authority ca.crt --since 7d\n" +
			"  ephor rollout require-team --metrics-url http://localhost:9090 --min-age 168h\n" +
			"  ephor rollout --audit-first --dry-run\n" +
			"  ephor rollout require-team --as-written\n" +
			"  ephor rollout --replace require-team=require-team-cel.yaml --days 7",
		Args: o.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.policy = args[0]
			}
			if o.replace.pair != "" {
				return o.replace.run(cmd, o)
			}
			if o.audit.given() {
				return o.audit.run(cmd, &o.from, o.policy)
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	o.from.addFlags(f)
	f.VarP(terminal.Paths(&o.from.namespaces), "namespace", "n", "only these namespaces; wildcards are allowed (repeat it, or separate by commas)")
	f.StringVar(&o.ownerLabel, "owner-label", "", "label that names the owner of a resource; the first one found on the topmost owner, the owners in between, the resource itself, or its namespace applies")
	f.IntVar(&o.ownerReads, "owner-reads", 2000, "maximum number of objects that are read to find owners")
	f.StringVar(&o.prometheus.url, "metrics-url", "", "address of a Prometheus server that scrapes the controllers, such as http://localhost:9090; requests are then counted, too")
	f.StringVar(&o.prometheus.tokenFile, "metrics-token-file", "", "file with a bearer token for the Prometheus server")
	o.decisions.AddFlags(f)
	o.audit.addFlags(cmd)
	o.replace.addFlags(cmd)
	f.DurationVar(&o.window, "metrics-window", 24*time.Hour, "period before now in which requests are counted")
	f.DurationVar(&o.minAge, "min-age", 0, "minimum time that the policy must have been in the cluster, such as 168h; by default the week that the guide recommends is only advice")
	f.IntVar(&o.limit, "limit", 1000, "maximum number of listed resources that would be refused")
	f.StringVarP(&o.format, "output", "o", "table", "table or json")
	terminal.Choices(cmd, "output", "table", "json")
	return cmd
}

// args checks which arguments a form of the command has.
func (o *rolloutOptions) args(cmd *cobra.Command, args []string) error {
	if o.replace.pair == "" {
		if o.replace.swap {
			return errors.New("--swap belongs to --replace")
		}
		return o.audit.args(cmd, args)
	}
	switch {
	case o.audit.given():
		return errors.New("--replace excludes --audit-first and --as-written")
	case len(o.from.files) > 0:
		return errors.New("--replace is about a cluster: leave --file out")
	case len(args) > 0:
		return errors.New("--replace names the policy: leave the argument out")
	}
	return nil
}

func (o *rolloutOptions) run(cmd *cobra.Command) error {
	if err := o.check(); err != nil {
		return err
	}
	plan, diags, err := o.plan(cmd)
	if err != nil {
		return err
	}
	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
	write := rolloutTable
	if o.format == "json" {
		write = rolloutJSON
	}
	out := terminal.Buffered(cmd.OutOrStdout())
	if err := write(out, plan); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	switch {
	case diags.HasErrors():
		return terminal.End(cmd, 1)
	case plan.Verdict != rollout.Safe:
		return terminal.End(cmd, noExit)
	}
	return nil
}

func (o *rolloutOptions) check() error {
	switch {
	case !slices.Contains([]string{"table", "json"}, o.format):
		return fmt.Errorf("--output: %q is not one of table, json", o.format)
	case o.limit < 0 || o.ownerReads < 0 || o.minAge < 0:
		return errors.New("--limit, --owner-reads and --min-age must not be negative")
	case o.window < time.Minute:
		return errors.New("--metrics-window must be at least 1m")
	case o.prometheus.url != "" && o.decisions.Given():
		return errors.New("--metrics-url and --decisions or --server both count requests: leave one out")
	}
	return errors.Join(o.decisions.Check(), o.decisions.Open(o.from.kubeconfig, o.from.context, o.from.namespaces))
}

// plan collects all available data.
func (o *rolloutOptions) plan(cmd *cobra.Command) (*rollout.Plan, diag.List, error) {
	ctx := cmd.Context()
	options := rollout.Options{Policy: o.policy, Namespaces: o.from.namespaces, Keep: o.limit}
	facts := rollout.Facts{Now: time.Now(), MinAge: o.minAge}
	var at *rolloutCluster
	if len(o.from.files) == 0 {
		var err error
		if at, err = o.open(ctx); err != nil {
			return nil, nil, err
		}
		options.Program, options.NamespaceLabels = at.program, at.NamespaceLabels
		at.facts(ctx, &facts, o.from.namespaces)
	}
	c := rollout.New(options)
	diags, err := o.readReports(cmd, at, c)
	if err != nil {
		return nil, nil, err
	}
	if o.decisions.Given() {
		found, err := o.countDecisions(cmd, at, c, facts.Now, facts.Created)
		if err != nil {
			return nil, nil, err
		}
		diags.Add(found...)
	} else if err := o.countRequests(ctx, c); err != nil {
		return nil, nil, err
	}
	plan := c.Plan(ctx)
	if at != nil {
		plan.Own(ctx, &rollout.Owners{Read: at.Reader.Meta, Label: o.ownerLabel, Limit: o.ownerReads})
	}
	plan.Evaluate(facts)
	return plan, diags, nil
}

func (o *rolloutOptions) readReports(cmd *cobra.Command, at *rolloutCluster, c *rollout.Collector) (diag.List, error) {
	if at == nil {
		return o.from.read(cmd.Context(), terminal.Stdin(cmd.InOrStdin()), c.Add)
	}
	return o.from.readCluster(cmd.Context(), at.Cluster, c.Add)
}

// countRequests queries Prometheus, if the user names a server.
func (o *rolloutOptions) countRequests(ctx context.Context, c *rollout.Collector) error {
	if o.prometheus.url == "" {
		return nil
	}
	samples, err := o.prometheus.query(ctx, rollout.Query(o.policy, o.window))
	if err != nil {
		return fmt.Errorf("--metrics-url: %w", err)
	}
	c.Count(rollout.Requests{Window: o.window, Samples: samples})
	return nil
}
