package impact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/rollout"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/world/fixed"
)

// options has the flags of impact.
type options struct {
	families   *compile.Registry // the families of the policies; nil for those of Ephor
	policies   []string
	current    []string
	exceptions []string
	requests   []string
	auditLogs  []string
	decisions  []string
	server     remote.DecisionServer
	pages      decision.Pages // reads pages from the server; nil without a server
	unasked    int            // the number of namespaces that the server leaves out
	only       []string       // the namespaces whose decisions are read from stores and the server; all if empty
	since      terminal.Span
	valuesFile string
	registry   bool
	ownerLabel string
	ownerReads int
	examples   int
	failOn     []string
	format     string

	cluster             bool
	kubeconfig, context string
	namespace           string
}

// exceeded is the exit code when a threshold of --fail-on is reached.
const exceeded = 2

// New returns the command `ephor impact` for policies of the given families; nil means those of Ephor.
func New(families *compile.Registry) *cobra.Command {
	o := &options{families: families}
	cmd := &cobra.Command{
		Use:   "impact POLICY... (--decisions FILE... | --server URL | --requests FILE... | --audit-log FILE... | --cluster)",
		Short: "Show what policies would have done to recorded requests and existing objects",
		Long: "Impact evaluates policies on recorded requests, and shows which of them the policies would have refused, warned about,\n" +
			"changed or ended with an error: by rule, namespace, owner and user, with the first examples in full. With --current it\n" +
			"compares the policies with those in force, so that the effect of a change is known before it is made. Requests pass\n" +
			"through the webhooks that the policies would have, and through the code that answers the API server.\n\n" +
			"It lists what the records do not show. The exit code is 2 when a threshold of --fail-on is reached, and 1 when\n" +
			"something could not be read.",
		Example: "  ephor impact policy.yaml --decisions decisions.jsonl --since 7d\n" +
			"  ephor impact policy.yaml --server https://127.0.0.1:8443 --certificate-authority ca.crt --since 7d\n" +
			"  ephor impact policy.yaml --requests requests.jsonl\n" +
			"  ephor impact new/ --current old/ --audit-log audit.log --fail-on newly-refused\n" +
			"  ephor impact policy.yaml --cluster --owner-label team -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.policies = append(o.policies, args...)
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.VarP(terminal.Paths(&o.policies), "policy", "p", "more policies: files, directories, globs, or - for standard input (repeat it, or separate by commas)")
	f.Var(terminal.Paths(&o.current), "current", "policies in force to compare with: files or directories; with --cluster by default the policies with the same names in the cluster")
	f.VarP(terminal.Paths(&o.exceptions), "exception", "e", "policy exceptions: files or directories; with --cluster those in the cluster apply, too (repeat it, or separate by commas)")
	f.Var(terminal.Paths(&o.requests), "requests", "recorded AdmissionReviews: files with a sequence of JSON documents, or YAML; - for standard input (repeat it, or separate by commas)")
	f.Var(terminal.Paths(&o.auditLogs), "audit-log", auditUsage)
	f.Var(terminal.Paths(&o.decisions), "decisions", "records of the admission controller that include the requests (flags --decisions and --decisionsRequests): files of JSON lines, - for standard input, or stores: "+store.ReadForms()+" (repeat it, or separate by commas)")
	o.server.AddFlags(f)
	f.Var(&o.since, "since", "only recorded decisions and audit log events within this time before now, such as 7d or 24h; by default all")
	f.BoolVarP(&o.cluster, "cluster", "c", false, "use a cluster for lookups and, without recorded requests, evaluate its objects")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig to use")
	f.StringVarP(&o.namespace, "namespace", "n", "", "evaluate only the objects in this namespace of the cluster")
	f.StringVarP(&o.valuesFile, "values-file", "f", "", "file of kind Values with the labels of namespaces")
	f.StringVar(&o.ownerLabel, "owner-label", "", "label that names the owner of an object; the first one found on the topmost owner, the owners in between, the object itself, or its namespace applies")
	f.IntVar(&o.ownerReads, "owner-reads", 2000, "maximum number of objects of the cluster that are read to find owners")
	f.IntVar(&o.examples, "examples", 5, "number of examples of each sort that are shown in full")
	f.StringSliceVar(&o.failOn, "fail-on", nil, "exit with 2 when this many requests are "+strings.Join(impact.Classes, ", ")+"; for example refused, or warned=10")
	f.StringVarP(&o.format, "output", "o", "table", "table or json")
	terminal.Choices(cmd, "output", "table", "json")
	remote.AddRegistryFlag(f, &o.registry)
	return cmd
}

// openServer sets pages if the user names a server.
func (o *options) openServer() (err error) {
	if o.server.Address != "" {
		o.server.Kubeconfig, o.server.Context = o.kubeconfig, o.context
		o.pages, err = o.server.Pages(func(namespaces int) { o.unasked = namespaces })
	}
	return err
}

func (o *options) run(cmd *cobra.Command) error {
	if err := errors.Join(o.check(), o.openServer()); err != nil {
		return err
	}
	limits, err := thresholds(o.failOn)
	if err != nil {
		return err
	}
	stdin := terminal.Stdin(cmd.InOrStdin())
	set := load.InForce(o.families, o.policies, source.Options{Stdin: stdin, Git: &source.Git{}, Context: cmd.Context()})
	current := load.InForce(o.families, o.current, source.Options{Git: &source.Git{}, Context: cmd.Context()})
	exceptions := load.Exceptions(o.exceptions, nil)
	joined := exceptions.InForce(offline.Now())
	diags := slices.Concat(set.Diags, current.Diags, exceptions.Diags, exceptions.NotApplied(set, "put it into a file of its own, for --exception"))
	if len(set.Programs) == 0 {
		terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
		return errors.New("there is no policy to evaluate")
	}
	given, facts := impact.Options{Families: o.families}, impact.Facts{Label: o.ownerLabel, Cluster: o.cluster, Deferred: impact.Deferred(set.Programs)}
	var at *live
	if o.cluster {
		if at, err = o.open(); err != nil {
			return err
		}
		at.attach(&given)
		facts.Owners = &rollout.Owners{Read: at.policies.Meta, Label: o.ownerLabel, Limit: o.ownerReads}
		inForce, found := at.exceptions(cmd.Context())
		joined = append(joined, inForce...)
		diags.Add(found...)
		if len(o.current) == 0 {
			programs, found, err := at.inForce(cmd.Context(), set.Programs)
			if err != nil {
				return err
			}
			current.Programs = programs
			diags.Add(found...)
		}
	} else if err := o.offline(&given, &facts); err != nil {
		return err
	}
	after := impact.NewReplica(catalog.Join(set.Programs, joined), given)
	var before *impact.Replica
	if len(current.Programs) > 0 {
		before = impact.NewReplica(catalog.Join(current.Programs, joined), given)
	}
	records := o.records(cmd.Context(), stdin)
	if at != nil && !o.recorded() {
		facts.Objects = true
		records = at.objects(cmd.Context(), slices.Concat(set.Programs, current.Programs), o.namespace)
	}
	counted := impact.NewCollector(after, before, o.examples)
	if err := impact.Run(cmd.Context(), records, after, before, counted); err != nil {
		return err
	}
	if o.unasked > 0 {
		facts.Lacks = append(facts.Lacks, impact.Lack{What: fmt.Sprintf("the requests in %d namespaces: the server leaves them out, since there are too many to check your rights for each", o.unasked)})
	}
	report := counted.Report(cmd.Context(), facts)
	checked := terminal.Checked{Policies: len(set.Programs), Inputs: report.Records, Input: "requests", Results: report.Matched}
	if facts.Objects {
		checked.Input = "objects"
	}
	if len(report.Unreadable) == 0 {
		diags.Add(checked.Unchecked(diags)...)
	} else if report.Requests == 0 {
		diags.Add(terminal.NothingChecked("no record could be read", "the output says why"))
	}
	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
	terminal.PrintNote(cmd.ErrOrStderr(), set.Passed)
	out := terminal.Buffered(cmd.OutOrStdout())
	if o.format == "json" {
		err = terminal.WriteJSON(out, report)
	} else {
		err = table(terminal.LegibleWriter(out), report)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		return err
	}
	switch {
	case diags.HasErrors() || len(report.Unreadable) > 0:
		return terminal.End(cmd, 1)
	case slices.ContainsFunc(limits, func(l threshold) bool { return l.reached(report) }):
		return terminal.End(cmd, exceeded)
	}
	return nil
}

// recorded reports whether the user gave recorded requests.
func (o *options) recorded() bool {
	return len(o.requests)+len(o.auditLogs)+len(o.decisions) > 0 || o.server.Address != ""
}

func (o *options) check() error {
	switch {
	case len(o.policies) == 0:
		return errors.New("require policy: name files or directories before the flags, or with --policy")
	case !o.recorded() && !o.cluster:
		return errors.New("require requests: give them with --decisions, --server, --requests or --audit-log, or --cluster for the objects that exist")
	case !slices.Contains([]string{"table", "json"}, o.format):
		return fmt.Errorf("--output: %q is not one of table, json", o.format)
	case o.examples < 0 || o.ownerReads < 0:
		return errors.New("--examples and --owner-reads must not be negative")
	case !o.cluster && (o.kubeconfig != "" || o.context != "" || o.namespace != ""):
		return errors.New("--kubeconfig, --context and --namespace are about a cluster: add --cluster")
	case o.since > 0 && len(o.decisions)+len(o.auditLogs) == 0 && o.server.Address == "":
		return errors.New("--since is about records with a time: add --decisions, --server or --audit-log")
	case o.cluster && o.valuesFile != "":
		return errors.New("--values-file gives what a cluster knows: leave it out, or --cluster")
	}
	stdins := 0
	for _, list := range [][]string{o.policies, o.decisions, o.requests, o.auditLogs} {
		if slices.Contains(list, "-") {
			stdins++
		}
	}
	if stdins > 1 {
		return errors.New("only one of the inputs can be standard input")
	}
	return nil
}

// offline sets the data that is available without a cluster.
func (o *options) offline(given *impact.Options, facts *impact.Facts) error {
	set := clivalues.New(nil, nil)
	if o.valuesFile != "" {
		spec, diags := clivalues.ReadValues(o.valuesFile)
		if diags.HasErrors() {
			return terminal.Mistaken("failed to load the values", diags)
		}
		set = clivalues.New(spec, nil)
	}
	images, err := remote.Images(o.registry)
	if err != nil {
		return err
	}
	signatures, err := remote.Signatures()
	if err != nil {
		return err
	}
	given.Root = fixed.New(fixed.Values{NamespaceLabels: set.Namespaces(), Images: images, Signatures: signatures})
	given.Kinds = impact.NewKinds(nil)
	labels := set.Namespaces()
	given.Labels = labelsFrom(labels)
	facts.Labels = given.Labels
	return nil
}

// stored reads the decisions of a store.
func stored(ctx context.Context, address string, q decision.Query) iter.Seq[impact.Decided] {
	name := store.Name(address)
	return func(yield func(impact.Decided) bool) {
		s, err := store.OpenReader(address)
		if err != nil {
			yield(impact.Decided{At: name, Err: err})
			return
		}
		defer func() { _ = s.Close() }() // it was only read
		for d := range impact.StoredDecisions(ctx, name, s.Page, q) {
			if !yield(d) {
				return
			}
		}
	}
}

// records returns the records of all files, in the order of the flags. Recorded decisions come first, in the order of their times.
func (o *options) records(ctx context.Context, stdin io.Reader) iter.Seq[impact.Record] {
	since := o.since.Before(time.Now())
	query := decision.Query{Since: since, Namespaces: o.only}
	var sources []iter.Seq[impact.Decided]
	for _, path := range o.decisions {
		if store.CanRead(path) {
			sources = append(sources, stored(ctx, path, query))
			continue
		}
		sources = append(sources, func(yield func(impact.Decided) bool) {
			readFrom(path, stdin, impact.DecisionFile, func(err error) impact.Decided { return impact.Decided{At: path, Err: err} }, yield)
		})
	}
	if o.pages != nil {
		sources = append(sources, impact.StoredDecisions(ctx, "the server", o.pages, query))
	}
	return func(yield func(impact.Record) bool) {
		if len(sources) > 0 {
			for r := range impact.Decisions(since, sources...) {
				if !yield(r) {
					return
				}
			}
		}
		failed := func(path string) func(error) impact.Record {
			return func(err error) impact.Record { return impact.Record{At: path, Err: err} }
		}
		for _, path := range o.requests {
			if !readFrom(path, stdin, impact.Reviews, failed(path), yield) {
				return
			}
		}
		for _, path := range o.auditLogs {
			if !readFrom(path, stdin, func(name string, r io.Reader) iter.Seq[impact.Record] { return impact.AuditLog(name, r, since) }, failed(path), yield) {
				return
			}
		}
	}
}

// readFrom yields the contents of a file until yield returns false.
func readFrom[T any](path string, stdin io.Reader, of func(string, io.Reader) iter.Seq[T], failed func(error) T, yield func(T) bool) bool {
	in, err := terminal.Open(path, stdin)
	if err != nil {
		return yield(failed(err))
	}
	defer func() { _ = in.Close() }() // it was only read
	for r := range of(path, in) {
		if !yield(r) {
			return false
		}
	}
	return true
}

// threshold is one condition of --fail-on.
type threshold struct {
	class string
	n     int
}

func (t threshold) reached(r *impact.Report) bool {
	reached, _ := r.Reached(t.class, t.n)
	return reached
}

// thresholds parses the values of --fail-on.
func thresholds(in []string) (out []threshold, err error) {
	for _, text := range in {
		class, number, given := strings.Cut(text, "=")
		n := 1
		if given {
			if n, err = strconv.Atoi(number); err != nil || n < 1 {
				return nil, fmt.Errorf("--fail-on: %q is not a number of requests, such as refused=10", text)
			}
		}
		if !slices.Contains(impact.Classes, class) {
			return nil, fmt.Errorf("--fail-on: %q is not one of %s", class, strings.Join(impact.Classes, ", "))
		}
		out = append(out, threshold{class, n})
	}
	return out, nil
}
