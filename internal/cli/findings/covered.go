package findings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/exception"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/lint"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// live counts the objects of a cluster that exceptions select.
type live struct {
	on                  bool
	kubeconfig, context string

	cluster *remote.Cluster
}

func (l *live) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&l.on, "cluster", false, "also count the objects of the cluster that each wide exception selects")
	f.StringVar(&l.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster")
	f.StringVar(&l.context, "context", "", "context of the kubeconfig to use")
}

func (l *live) open() (err error) {
	if !l.on {
		return nil
	}
	if l.cluster, err = remote.Open(l.kubeconfig, l.context, false); err != nil {
		return fmt.Errorf("failed to reach the cluster (%w)", err)
	}
	return nil
}

// exception adds the number of live objects to the findings about a wide exception. programs are the given policies; those that the
// exception names besides are read from the cluster.
func (l *live) exception(ctx context.Context, o compile.Object, programs []*policy.Program, findings []lint.Finding) error {
	if l.cluster == nil || !slices.ContainsFunc(findings, func(f lint.Finding) bool { return f.Check == lint.WideException }) {
		return nil
	}
	n, err := l.count(ctx, o, programs)
	if err != nil {
		return err
	}
	for i := range findings {
		if findings[i].Check == lint.WideException {
			findings[i].Summary += " (" + n.String() + ")"
		}
	}
	return nil
}

// covered are numbers of objects.
type covered struct {
	selected, unknown int
	reason            error // why it is not known whether the exception selects the last of the unknown ones
}

// String returns the clause of a finding.
func (c covered) String() string {
	text := fmt.Sprintf("it selects %s of the cluster", terminal.Counted(c.selected, "object", "objects"))
	if c.unknown > 0 {
		text += fmt.Sprintf("; of %s this is not known: %s", terminal.Counted(c.unknown, "other", "others"), c.reason)
	}
	return text
}

// add counts an object.
func (c *covered) add(selected bool, err error) {
	switch {
	case err != nil:
		c.unknown++
		c.reason = err
	case selected:
		c.selected++
	}
}

// count returns the numbers of objects that the exception selects.
func (l *live) count(ctx context.Context, o compile.Object, programs []*policy.Program) (n covered, err error) {
	e, _ := compile.OneException(o)
	classic := e.ID().Group == exception.Exceptions.Group
	var targets []policy.Target
	var rules []*policy.Rule
	of := map[*policy.Rule]*policy.Program{}
	if classic {
		x, _ := exception.Decode(o.Value)
		for _, f := range slices.Concat(x.Spec.Match.Any, x.Spec.Match.All) {
			for _, kind := range f.ResourceDescription.Kinds {
				if t, err := match.ParseKind(kind); err == nil {
					targets = append(targets, t)
				}
			}
		}
	} else {
		if programs, err = l.named(ctx, e, programs); err != nil {
			return n, err
		}
		for _, p := range programs {
			for _, r := range p.Rules {
				rules, targets = append(rules, r), append(targets, r.Targets...)
				of[r] = p
			}
		}
	}
	q := remote.Query{Page: remote.PageSize}
	for _, t := range targets {
		found, err := l.cluster.Kinds.Wanted(t)
		q.Add(discovery.Main(found), err)
	}
	var errs []error
	l.cluster.List(ctx, q, func(p remote.Page) {
		errs = append(errs, p.Err)
		for _, object := range p.Objects {
			req := impact.Existing(p.Kind, object.Value).Object
			req.ResolveNamespace = func(ctx context.Context) (map[string]string, error) {
				return l.cluster.NamespaceLabels(ctx, req.Namespace)
			}
			if classic && e.Match != nil {
				n.add(e.Match(ctx, req))
			} else {
				n.add(selects(ctx, e, rules, of, req))
			}
		}
	})
	return n, errors.Join(errs...)
}

// named returns the policies that the exception names: the given ones, or those of the cluster.
func (l *live) named(ctx context.Context, e *policy.Exception, programs []*policy.Program) (out []*policy.Program, err error) {
	var names []string
	for _, ref := range e.Rules {
		is := func(p *policy.Program) bool { return p.Name == ref.Policy && (ref.Kind == "" || p.Kind == ref.Kind) }
		if i := slices.IndexFunc(programs, is); i >= 0 {
			out = append(out, programs[i])
		} else {
			names = append(names, ref.Policy)
		}
	}
	set, err := load.FromCluster(ctx, nil, l.cluster, names)
	for _, p := range set.Programs {
		if e.From(p.Key()) && slices.ContainsFunc(e.Rules, func(r policy.ExceptionRules) bool { return r.Kind == "" || r.Kind == p.Kind }) {
			out = append(out, p)
		}
	}
	return out, err
}

// selects reports whether an exception of policies.kyverno.io selects the object from one of the rules. The error says why this is not known.
func selects(ctx context.Context, e *policy.Exception, rules []*policy.Rule, of map[*policy.Rule]*policy.Program, req *policy.Request) (bool, error) {
	var unknown error
	for _, r := range rules {
		ok, err := r.Match(ctx, req)
		if ok && err == nil && e.Conditions != nil {
			env := &evalenv.Env{Meter: budget.New(ctx, budget.ExceptionSteps, budget.ExceptionBytes), World: world.World{}}
			ok, err = e.Conditions(&policy.Call{Env: env, Request: req, Program: of[r], Rule: r}, nil)
		}
		if ok && err == nil {
			return true, nil
		}
		unknown = cmp.Or(unknown, err)
	}
	return false, unknown
}
