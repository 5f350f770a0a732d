package decisions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/cli/apply"
	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
	objects "ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/workload"
	"ephor.invalid/ephor/internal/world/fixed"
)

// excepting writes exceptions for a recorded refusal.
type excepting struct {
	apply.Request
	families            *compile.Registry
	on                  bool
	policies            []string
	kubeconfig, context string
}

func (x *excepting) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&x.on, "exception", false, "write the smallest exceptions for the refused object")
	x.AddFlags(f)
	f.VarP(terminal.Paths(&x.policies), "policy", "p", "the policies for --exception: files, directories, globs; by default those of the cluster")
	f.StringVar(&x.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster for --exception")
	f.StringVar(&x.context, "context", "", "context of the kubeconfig to use")
}

func (x *excepting) check() error {
	if !x.on {
		return nil
	}
	x.InCluster(x.kubeconfig, x.context)
	return x.Check()
}

// write writes the exceptions for the rules that refused the object of a record.
func (x *excepting) write(cmd *cobra.Command, r *decision.Record) error {
	if r.Allowed {
		return errors.New("the request was admitted, so no exception is needed")
	}
	set, err := x.read(cmd, r)
	if err != nil {
		return err
	}
	entries, owned, err := x.entries(cmd, r, set.Programs)
	if err != nil {
		return err
	}
	diags, err := x.Write(cmd, x.families, entries, owned)
	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
	return err
}

// read returns the policies of the flags, or those of the cluster that refused the object.
func (x *excepting) read(cmd *cobra.Command, r *decision.Record) (load.PolicySet, error) {
	set := load.PolicySet{}
	if len(x.policies) > 0 {
		set = load.InForce(x.families, x.policies, objects.Options{Git: &objects.Git{}})
	} else {
		c, err := remote.Open(x.kubeconfig, x.context, false)
		if err != nil {
			return set, fmt.Errorf("name the policies with --policy: failed to reach the cluster (%w)", err)
		}
		var names []string
		for _, rule := range r.Rules {
			if rule.Status == policy.StatusFail.String() && !slices.Contains(names, rule.Policy) {
				names = append(names, rule.Policy)
			}
		}
		if set, err = load.FromCluster(cmd.Context(), x.families, c, names); err != nil {
			return set, err
		}
	}
	if mistakes := set.Diags.Errors(); len(mistakes) > 0 {
		return set, terminal.Mistaken("failed to load the policies", mistakes)
	}
	return set, nil
}

// entries returns the failures of a record. If the object is recorded, the policies are evaluated again, for the parts of them that it
// violates; owned reports that the entries name its controller.
func (x *excepting) entries(cmd *cobra.Command, r *decision.Record, programs []*policy.Program) (out []report.Entry, owned bool, err error) {
	about := &report.Resource{APIVersion: strings.TrimPrefix(r.Group+"/"+r.Version, "/"), Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
	var again []report.Entry
	request, err := (&impact.Record{Decision: r}).Request()
	switch {
	case errors.Is(err, decision.ErrNoRequest), errors.Is(err, decision.ErrWithheld), errors.Is(err, decision.ErrNoText):
	case err != nil:
		return nil, false, err
	default:
		object, err := request.Subject()
		if err != nil {
			return nil, false, err
		}
		evaluator := offline.New(programs, fixed.New(fixed.Values{Now: offline.Now, EveryNamespace: true}), clivalues.New(nil, nil))
		answers, err := evaluator.OfRequest(request).Each(cmd.Context(), object, "")
		if err != nil {
			return nil, false, err
		}
		for i := range answers {
			again = append(again, report.Entries(answers[i].Outcome, report.Options{})...)
		}
		if kind, name := controllerOf(object); name != "" {
			about.Kind, about.Name, owned = kind, name, true
		}
	}
	if about.Name == "" {
		return nil, false, errors.New("the API server had not named the object, and its controller is not recorded: use `ephor exceptions request` with the object or its controller")
	}
	for _, rule := range r.Rules {
		if rule.Status != policy.StatusFail.String() {
			continue
		}
		e := entryOf(programs, &rule, autogen.IsController(about.Kind) && !owned)
		if e == nil {
			return nil, false, fmt.Errorf("the policy %s has no rule %q: it was changed since the request", rule.Policy, rule.Rule)
		}
		e.Resource = about
		for i := range again {
			if again[i].Rule == e.Rule && again[i].Program == e.Program {
				e.Properties = again[i].Properties
			}
		}
		out = append(out, *e)
	}
	return out, owned, nil
}

// entryOf returns the failure of a recorded rule; nil if no policy has such a rule. The rules of a policy in CEL have no names: derived is
// whether the one is meant that autogen derived.
func entryOf(programs []*policy.Program, of *decision.Result, derived bool) (out *report.Entry) {
	for _, p := range programs {
		if p.Key() != of.Policy {
			continue
		}
		for _, rule := range p.Rules {
			if rule.Name == of.Rule && (out == nil || (rule.Origin.Controllers != "") == derived && (out.Rule.Origin.Controllers != "") != derived) {
				out = &report.Entry{Program: p, Rule: rule, Status: policy.StatusFail}
			}
		}
	}
	return out
}

// controllerOf returns the controller of an object whose exceptions cover it: for a Pod or ReplicaSet of a Deployment the Deployment; nothing for
// a controller of another kind, such as the operator's object of a StatefulSet.
func controllerOf(object map[string]any) (kind, name string) {
	kind, name = workload.Controller(object)
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	if hash, _ := labels["pod-template-hash"].(string); kind == "ReplicaSet" && hash != "" && strings.HasSuffix(name, "-"+hash) {
		return "Deployment", strings.TrimSuffix(name, "-"+hash)
	}
	return kind, name
}
