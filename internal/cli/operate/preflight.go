package operate

import (
	"cmp"
	stdcontext "context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientdiscovery "k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/cli/impact"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/discovery"
	evaluation "ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/preflight"
)

func NewPreflight() *cobra.Command {
	var kubeconfig, context, namespace, output, target string
	var fix bool
	var seen impact.Seen
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Find what would be lost or stop working when Ephor replaces Kyverno, or when Kubernetes is upgraded",
		Long: "Preflight reads a cluster in which Kyverno runs and changes nothing. It lists what would be lost or stop working when Ephor replaces\n" +
			"Kyverno, with the command that fixes each finding: definitions that Helm would delete with their objects, values that the chart rejects,\n" +
			"policies that would not be enforced, missing permissions, webhooks without a server, and more. With --fix it sets the annotations\n" +
			"that keep the definitions, and changes nothing else. The exit code is 1 when something would be lost or stop working, or when\n" +
			"something could not be read.\n\n" +
			"With --target-version it lists instead what an upgrade of Kubernetes to that version changes for the policies of a cluster: kinds and versions\n" +
			"that are no longer served, expressions and Pod Security Standards that change, and requests that no longer arrive.",
		Example: "  ephor preflight\n  ephor preflight --fix\n  ephor preflight -o json\n  ephor preflight --target-version 1.37",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("invalid output format %q, expected json", output)
			}
			if fix && target != "" {
				return errors.New("--fix is for the switch from Kyverno, not for an upgrade of Kubernetes (--target-version)")
			}
			config, err := remote.Config(kubeconfig, context)
			if err != nil {
				return err
			}
			config.QPS, config.Burst, config.UserAgent = remote.QPS, remote.Burst, "ephor-cli"
			c, err := discovery.NewClient(config, client.Options{Scheme: preflight.Scheme()})
			if err != nil {
				return err
			}
			served, err := clientdiscovery.NewDiscoveryClientForConfig(config)
			if err != nil {
				return err
			}
			version, err := served.ServerVersion()
			if err != nil {
				return fmt.Errorf("ask the API server for its version: %w", err)
			}
			cluster := &preflight.Cluster{
				Reader: c, Kinds: discovery.New(served, time.Now), Version: version.GitVersion, Namespace: namespace,
				Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), Now: time.Now,
				Live: func(ctx stdcontext.Context, programs []*policy.Program) (map[policy.ID]*preflight.Impact, error) {
					return impactOf(ctx, kubeconfig, context, programs, seen)
				},
			}
			if target != "" {
				return upgrade(cmd, cluster, target, output)
			}
			report := preflight.Run(cmd.Context(), cluster)
			var annotated []string
			if fix {
				annotated, err = preflight.PreserveDefinitions(cmd.Context(), c, report)
				for _, name := range annotated {
					fmt.Fprintf(cmd.ErrOrStderr(), "annotated the definition %s\n", name)
				}
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "--fix annotated %s and changed nothing else\n", terminal.Counted(len(annotated), "definition", "definitions"))
				report = preflight.Run(cmd.Context(), cluster)
			}
			if output == "json" {
				err = terminal.WriteJSON(cmd.OutOrStdout(), preflightJSON{report.Findings, summary(report), annotated})
			} else {
				err = printPreflight(cmd.OutOrStdout(), report)
			}
			if err == nil && !report.Safe() {
				return terminal.End(cmd, 1)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&fix, "fix", false, "set the annotations that keep the definitions, and change nothing else")
	f.Var(terminal.Paths(&seen.AuditLogs), "audit-log", "audit logs of the API server at level RequestResponse: policies that Kyverno does not execute are also evaluated on these requests (repeat it, or separate by commas)")
	f.Var(terminal.Paths(&seen.Decisions), "decisions", "records of the admission controller that include the requests, for the same purpose: files of JSON lines, or stores (repeat it, or separate by commas)")
	f.StringVarP(&output, "output", "o", "", "json instead of text")
	terminal.Choices(cmd, "output", "json")
	f.StringVarP(&namespace, "namespace", "n", "kyverno", "namespace of the installation")
	f.StringVar(&target, "target-version", "", "list what an upgrade of Kubernetes to this version changes, such as 1.38")
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file")
	f.StringVar(&context, "context", "", "context of the kubeconfig to use")
	return cmd
}

// upgrade prints what an upgrade of Kubernetes changes.
func upgrade(cmd *cobra.Command, cluster *preflight.Cluster, target, output string) error {
	v, err := kubeversion.Parse(target)
	if err != nil {
		return fmt.Errorf("--target-version: %w", err)
	}
	report := preflight.Upgrade(cmd.Context(), cluster, v)
	if output == "json" {
		err = terminal.WriteJSON(cmd.OutOrStdout(), preflightJSON{report.Findings, summary(report), nil})
	} else {
		err = printPreflight(cmd.OutOrStdout(), report)
	}
	if err == nil && !report.Safe() {
		return terminal.End(cmd, 1)
	}
	return err
}

// preflightJSON is the output of --output json.
type preflightJSON struct {
	Findings  []preflight.Finding `json:"findings"`
	Summary   map[string]int      `json:"summary"`
	Annotated []string            `json:"annotated,omitempty"`
}

func summary(r *preflight.Report) map[string]int {
	out := map[string]int{}
	for _, s := range []preflight.Severity{preflight.Lost, preflight.Stops, preflight.Unknown, preflight.Note} {
		out[string(s)] = r.Count(s)
	}
	return out
}

// printPreflight prints the findings, each followed by its message and its commands.
func printPreflight(to io.Writer, r *preflight.Report) error {
	w := terminal.Buffered(to)
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s %s [%s]\n  %s\n", strings.ToUpper(string(f.Severity)), terminal.Plain(f.Object.String()), f.Code, terminal.Plain(f.Message))
		for _, c := range f.Commands {
			fmt.Fprintf(w, "  $ %s\n", terminal.Plain(c))
		}
	}
	if r.Safe() {
		fmt.Fprintln(w, "nothing would be lost or stop working")
	} else {
		fmt.Fprintf(w, "%d would be lost, %d would stop working, %d could not be read\n", r.Count(preflight.Lost), r.Count(preflight.Stops), r.Count(preflight.Unknown))
	}
	return w.Flush()
}

// impactOf evaluates the policies on all objects that they select in the cluster, and on the requests.
func impactOf(ctx stdcontext.Context, kubeconfig, context string, programs []*policy.Program, requests impact.Seen) (map[policy.ID]*preflight.Impact, error) {
	out := map[policy.ID]*preflight.Impact{}
	for _, p := range programs {
		out[p.Identity()] = &preflight.Impact{}
	}
	var failed error
	diags, err := impact.Live(ctx, kubeconfig, context, programs, requests, func(e *evaluation.Evaluated) {
		if errors.Is(e.Err, evaluation.ErrSameRequest) {
			return
		}
		if e.Err != nil {
			failed = cmp.Or(failed, fmt.Errorf("%s: %w", e.Record.At, e.Err))
			return
		}
		seen := map[policy.ID]policy.Status{}
		for i := range e.After.Results {
			r := &e.After.Results[i]
			id := r.Program.Identity()
			status := r.Status
			if r.Object != nil && status == policy.StatusPass && e.Record.Object != nil {
				out[id].Changed.Add(e.Record.At)
			}
			if worse(status, seen[id]) {
				seen[id] = status
			}
		}
		for id, status := range seen {
			i := out[id]
			if e.Record.Object == nil {
				if status != policy.StatusSkip {
					i.Requests++
				}
				if status == policy.StatusFail || status == policy.StatusWarn {
					i.Refused.Add(requestText(e.Request))
				}
				continue
			}
			switch status {
			case policy.StatusFail, policy.StatusWarn:
				i.Objects++
				i.Violating.Add(e.Record.At)
			case policy.StatusError:
				i.Objects++
				i.Errors++
			case policy.StatusPass:
				i.Objects++
			}
		}
	})
	return out, errors.Join(err, failed, diags.Errors().Err())
}

// worse reports whether a status says more against an object than another one.
func worse(a, b policy.Status) bool {
	rank := []policy.Status{0, policy.StatusSkip, policy.StatusPass, policy.StatusError, policy.StatusWarn, policy.StatusFail}
	return slices.Index(rank, a) > slices.Index(rank, b)
}

// requestText returns the operation, the object and the user of a request.
func requestText(r *policy.Request) string {
	object := r.GVK.Kind + "/" + r.Name
	if r.Namespace != "" {
		object = r.Namespace + "/" + object
	}
	text := fmt.Sprintf("%s %s", r.Operation, object)
	if r.User != nil && r.User.Username != "" {
		text += " by " + r.User.Username
	}
	return text
}
