package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/wildcard"
	"github.com/ephor-dev/ephor/internal/world"
)

// Accounts are the full names (system:serviceaccount:namespace:name) of those who carry out what policies ask for; empty
// for those that do not exist, whose rights are not looked at.
type Accounts struct{ Background, Reports, Cleanup string }

// These texts are Kyverno's, verbatim, except those about the author.
const (
	textRequires     = "%s requires permissions %s for resource %s"
	textMutateRights = "path: %s.: auth check fails, additional privileges are required for the service account '%s': %s"
	textDelegates    = "a namespaced policy cannot generate or change a %s"
	textAuthorRights = "path: %s.: auth check fails, additional privileges are required for the author of the policy '%s': %s"
)

// rights asks the API server what users may do; each question once for one review, and for some seconds not again when the
// answer was yes.
type rights struct {
	access  world.Access
	cluster Cluster
	granted *granted
	now     func() time.Time
	refused map[string]bool
}

func (s *Server) newRights() *rights {
	r := &rights{cluster: s.cluster, granted: &s.granted, now: s.Now, refused: map[string]bool{}}
	if s.root != nil {
		r.access = s.root.For(world.Cluster()).Access
	}
	return r
}

// checkRights finds the rights that the work of a policy needs and an account lacks: the background controller, who does
// the work, and for a namespaced policy also its author, who must not get done what he may not do himself (S7 in
// docs/threat-model.md).
func (s *Server) checkRights(ctx context.Context, p *policy.Program, author *policy.User) diag.List {
	if !slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return len(r.Grants) > 0 }) {
		return nil
	}
	var diags diag.List
	if s.Accounts.Background != "" {
		diags.Add(s.controllerRights(ctx, p)...)
	}
	if p.Namespace != "" {
		ask := s.newRights()
		for _, r := range p.Rules {
			if len(r.Grants) > 0 {
				ask.author(ctx, &diags, p, r, author)
			}
		}
	}
	return diags
}

// Rights that are granted together with a policy, in one file, get to the controller's aggregated role a moment after the
// policy gets here: so long they are waited for, and so often asked about.
const (
	grantPatience = 2 * time.Second
	grantEvery    = 200 * time.Millisecond
)

// controllerRights checks the background controller's rights on everything.
func (s *Server) controllerRights(ctx context.Context, p *policy.Program) diag.List {
	for waited := time.Duration(0); ; waited += grantEvery {
		var diags diag.List
		ask := s.newRights()
		for _, r := range p.Rules {
			if len(r.Grants) > 0 {
				ask.controller(ctx, &diags, p, r, s.Accounts.Background)
			}
		}
		if !diags.HasErrors() || waited >= s.patience || !wait(ctx, grantEvery) {
			return diags
		}
	}
}

// wait is false when ctx is done first, or would be soon after.
func wait(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 4*d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// controller checks the rights of the one who does the work. What it copies is not looked at, as in Kyverno, nor are
// kinds that only variables or a later definition tell.
func (a *rights) controller(ctx context.Context, diags *diag.List, p *policy.Program, r *policy.Rule, account string) {
	user := serviceAccount(account)
	var missing []string
	for _, g := range r.Grants {
		if g.Source {
			continue
		}
		resources, err := a.resources(g)
		if err != nil {
			diags.Errorf(g.Path, "the kind %s cannot be looked up: %v", kindOf(g), err)
			continue
		}
		for _, resource := range resources {
			text, err := a.lacks(ctx, user, p, g, resource)
			switch {
			case err != nil:
				diags.Errorf(g.Path, "the rights of %s cannot be looked up: %v", account, err)
				diags.Code(diag.UnknownRights, account)
			case text == "":
			case r.Stage.Has(policy.StageMutateExisting):
				missing = append(missing, text)
			default:
				// Kyverno writes an empty field name for the pattern of the rule itself.
				diags.Errorf(g.Path, "path: %s.: %s", fieldBelow(g.Path, r.Path+".generate"), text)
				diags.Code(diag.MissingRights, account)
				diags.Hint(hintAggregate)
			}
		}
	}
	if len(missing) > 0 {
		diags.Errorf(r.Grants[0].Path, textMutateRights, r.Grants[0].Path, account, strings.Join(missing, "; "))
		diags.Code(diag.MissingRights, account)
		diags.Hint(hintAggregate)
	}
}

const hintAggregate = `grant them by a ClusterRole with the label rbac.kyverno.io/aggregate-to-background-controller: "true"`

func fieldBelow(path, rule string) string {
	if path == rule {
		return rule + "."
	}
	return path
}

// author checks the rights of the one who wrote a namespaced policy, in its namespace. A kind that only variables or a
// later definition tell takes the rights on all kinds that it may be.
func (a *rights) author(ctx context.Context, diags *diag.List, p *policy.Program, r *policy.Rule, author *policy.User) {
	var missing []string
	for _, g := range r.Grants {
		if kind := apischema.FromAPIVersionAndKind(g.APIVersion, g.Kind); !g.Source && compile.Kinds.Delegates(kind.GroupKind()) {
			diags.Errorf(g.Path, textDelegates, kind.Kind)
			diags.Hint("it would be written by the background controller, whose rights are not those of %s; use a ClusterPolicy", author.Username)
			continue
		}
		g.Namespace = p.Namespace
		resources, err := a.resources(g)
		if err != nil {
			diags.Errorf(g.Path, "the kind %s cannot be looked up: %v", kindOf(g), err)
			continue
		}
		if len(resources) == 0 {
			resources = []served{anyOf(g)}
		}
		for _, resource := range resources {
			for _, needed := range append([]needed{{g, resource}}, escalations(g, resource)...) {
				text, err := a.lacks(ctx, author, p, needed.grant, needed.resource)
				switch {
				case err != nil:
					diags.Errorf(g.Path, "the rights of %s cannot be looked up: %v", author.Username, err)
					diags.Code(diag.UnknownRights, author.Username)
				case text != "" && !slices.Contains(missing, text):
					missing = append(missing, text)
				}
			}
		}
	}
	if len(missing) > 0 {
		diags.Errorf(r.Grants[0].Path, textAuthorRights, r.Grants[0].Path, author.Username, strings.Join(missing, "; "))
		diags.Code(diag.MissingRights, author.Username)
		diags.Hint("a policy of a namespace does nothing that its author may not do; a ClusterPolicy is for those who may do everything")
	}
}

type needed struct {
	grant    policy.Grant
	resource served
}

// escalations are the rights beyond those on the object itself without which the API server would not let the author
// write it: an author of roles and bindings gives rights away. What may turn out to be one of them counts as both.
func escalations(g policy.Grant, resource served) (out []needed) {
	if resource.Group != rbacGroup && resource.Group != "*" || g.Source {
		return nil
	}
	add := func(resource, kind, verb string) {
		out = append(out, needed{
			policy.Grant{APIVersion: rbacGroup + "/v1", Kind: kind, Namespace: g.Namespace, Verbs: []string{verb}},
			served{Group: rbacGroup, Version: "v1", Resource: resource},
		})
	}
	if resource.Resource == "roles" || resource.Resource == "*" {
		add("roles", "Role", "escalate")
	}
	if resource.Resource == "rolebindings" || resource.Resource == "*" {
		add("roles", "Role", "bind")
		add("clusterroles", "ClusterRole", "bind")
	}
	return out
}

const rbacGroup = "rbac.authorization.k8s.io"

// served is a resource as a SubjectAccessReview names it.
type served struct{ Group, Version, Resource, Subresource string }

// resources are what the API server serves for the kind of a grant; none when it serves no such kind, or when the kind
// is not written out.
func (a *rights) resources(g policy.Grant) ([]served, error) {
	if !isLiteral(g.APIVersion) || !isLiteral(g.Kind) {
		return nil, nil
	}
	gv, err := apischema.ParseGroupVersion(g.APIVersion)
	if err != nil {
		return nil, nil
	}
	kind, sub, _ := strings.Cut(strings.TrimSpace(g.Kind), "/")
	// A subresource that is not served yet can be granted all the same.
	found, err := a.cluster.Resources(policy.Target{Group: gv.Group, Version: gv.Version, Kind: kind})
	if err != nil {
		return nil, err
	}
	out := make([]served, len(found))
	for i, r := range found {
		out[i] = served{r.Group, r.Version, r.Resource, sub}
	}
	return out, nil
}

// anyOf stands for all resources of the group, as far as that is written out.
func anyOf(g policy.Grant) served {
	out := served{Group: "*", Version: "*", Resource: "*"}
	if gv, err := apischema.ParseGroupVersion(g.APIVersion); err == nil && isLiteral(g.APIVersion) {
		out.Group = gv.Group
	}
	return out
}

// lacks words what the user lacks of a grant; empty when nothing.
func (a *rights) lacks(ctx context.Context, user *policy.User, p *policy.Program, g policy.Grant, r served) (string, error) {
	shown := g.Namespace
	if shown == "" && p.Namespace != "" {
		shown = p.Namespace
	}
	namespace := shown
	if !isLiteral(namespace) {
		namespace = "" // it may become any
	}
	name := g.Name
	if !isLiteral(name) || wildcard.Has(name) {
		name = ""
	}
	var missing []string
	for _, verb := range g.Verbs {
		q := world.AccessRequest{
			Username: user.Username, UID: user.UID, Groups: user.Groups, Extra: user.Extra, Verb: verb,
			Group: r.Group, Version: r.Version, Resource: r.Resource, Subresource: r.Subresource, Namespace: namespace, Name: name,
		}
		if verb == "create" || verb == "list" {
			q.Name = "" // such requests have none
		}
		allowed, err := a.allowed(ctx, q)
		if err != nil {
			return "", err
		}
		if !allowed {
			missing = append(missing, verb)
		}
	}
	if len(missing) == 0 {
		return "", nil
	}
	text := fmt.Sprintf(textRequires, user.Username, strings.Join(missing, ","), kindOf(g))
	if shown != "" {
		text += " in namespace " + shown
	}
	return text, nil
}

func (a *rights) allowed(ctx context.Context, q world.AccessRequest) (bool, error) {
	if a.access == nil {
		return false, world.ErrUnavailable
	}
	key := questionKey(q)
	switch {
	case a.refused[key]:
		return false, nil
	case a.granted.holds(key, a.now()):
		return true, nil
	}
	allowed, _, err := a.access.Allowed(ctx, q)
	switch {
	case err != nil:
	case allowed:
		a.granted.note(key, a.now())
	default:
		a.refused[key] = true
	}
	return allowed, err
}

// kindOf is the kind of a grant as messages show it.
func kindOf(g policy.Grant) string { return g.APIVersion + "/" + strings.TrimSpace(g.Kind) }

func isLiteral(text string) bool { return !strings.Contains(text, "{{") }

// serviceAccount is the user of a service account, with the groups that every service account has.
func serviceAccount(name string) *policy.User {
	u := &policy.User{Username: name, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	if parts := strings.Split(name, ":"); len(parts) == 4 {
		u.Groups = append(u.Groups, "system:serviceaccounts:"+parts[2])
	}
	return u
}

// warnReports warns of the matched kinds that the reports controller may not read: they will be missing in reports of
// background scans. One kind for each rule will do.
func (s *Server) warnReports(ctx context.Context, p *policy.Program) diag.List {
	var diags diag.List
	if s.Accounts.Reports == "" || !p.Settings.Background {
		return nil
	}
	ask, user := s.newRights(), serviceAccount(s.Accounts.Reports)
	for _, r := range p.Rules {
		if r.Origin.IsAutogen() {
			continue
		}
		if text := ask.unreadable(ctx, s, user, p, r); text != "" {
			diags.Warnf(r.Path, "%s", text)
		}
	}
	return diags
}

func (a *rights) unreadable(ctx context.Context, s *Server, user *policy.User, p *policy.Program, r *policy.Rule) string {
	for _, t := range r.Targets {
		if wildcard.Has(t.Kind) || t.Subresource != "" {
			continue
		}
		found, err := a.cluster.Resources(t)
		if err != nil {
			continue // said by checkKinds
		}
		for _, resource := range found {
			gv := apischema.GroupVersion{Group: resource.Group, Version: resource.Version}.String()
			g := policy.Grant{APIVersion: gv, Kind: t.Kind, Verbs: []string{"get", "list", "watch"}}
			text, err := a.lacks(ctx, user, p, g, served{Group: resource.Group, Version: resource.Version, Resource: resource.Resource})
			if err != nil {
				s.Log.Warn("the rights of the reports controller cannot be looked up", "policy", p.Key(), "error", err)
				return ""
			}
			if text != "" {
				return text
			}
		}
	}
	return ""
}
