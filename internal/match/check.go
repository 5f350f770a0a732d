package match

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/diag"
)

// These texts are copied verbatim from Kyverno.
const (
	textAnyAndAll        = "Can't specify any and all together"
	textMixedMatch       = "can't specify any/all together with match resources"
	textMixedExclude     = "can't specify any/all together with exclude resources"
	textEmptySet         = "%s is matching an empty set"
	textNameAndNames     = "Both name and names can not be specified together"
	textEmptySelector    = "The requirements are not specified in selector"
	textNamespacedPolicy = "Filtering namespaces not allowed in namespaced policies"
	textSubjectKind      = "kind must be 'User', 'Group', or 'ServiceAccount'"
	textSubjectNamespace = "namespace is required when Kind is ServiceAccount"
	textRoleFormat       = "Role is expected to be in namespace:name format"
	textManyWildcards    = "wildcard policy can not deal with more than one kind"
	textUnknownKind      = "the kind defined in the all match resource is invalid: unable to convert GVK to GVR for kinds %s"
)

// check finds the mistakes in a rule's match and exclude blocks that do not depend on the rest of the rule.
func check(m kyvernov1.MatchResources, ex *kyvernov1.MatchResources, policyNamespace, path, subject string) diag.List {
	var l diag.List
	c := checker{list: &l, namespaced: policyNamespace != ""}
	c.block(m, path+".match", textMixedMatch)
	if ex != nil {
		c.block(*ex, path+".exclude", textMixedExclude)
		if !l.HasErrors() && matchesNothing(m, *ex) {
			l.Errorf(path+".exclude", textEmptySet, cmp.Or(subject, "Rule"))
			l.Hint("exclude covers everything that match selects: narrow exclude, or remove the rule")
		}
	}
	return l
}

type checker struct {
	list       *diag.List
	namespaced bool
}

func (c *checker) block(m kyvernov1.MatchResources, path, mixed string) {
	bare := kyvernov1.ResourceFilter{UserInfo: m.UserInfo, ResourceDescription: m.ResourceDescription}
	hasBare := asksUser(bare.UserInfo) || !bare.ResourceDescription.IsZero()
	if len(m.Any) > 0 && len(m.All) > 0 {
		c.list.Errorf(path, "%s", textAnyAndAll)
		c.list.Hint("keep one of them: any selects what fits at least one filter, all what fits every filter")
	}
	if hasBare && len(m.Any)+len(m.All) > 0 {
		c.list.Errorf(path, "%s", mixed)
		c.list.Hint("move resources, subjects, roles and clusterRoles into a filter of any or all")
	}
	for i, f := range m.Any {
		c.filter(f, fmt.Sprintf("%s.any[%d]", path, i))
	}
	for i, f := range m.All {
		c.filter(f, fmt.Sprintf("%s.all[%d]", path, i))
	}
	if hasBare {
		c.filter(bare, path)
	}
}

func (c *checker) filter(f kyvernov1.ResourceFilter, path string) {
	c.resources(f.ResourceDescription, path+".resources")
	for i, s := range f.Subjects {
		at := fmt.Sprintf("%s.subjects[%d]", path, i)
		switch s.Kind {
		case "":
			c.list.Required(at+".kind", "")
			c.list.Hint("write User, Group or ServiceAccount")
		case "User", "Group":
		case "ServiceAccount":
			if s.Namespace == "" {
				c.list.Errorf(at+".namespace", "%s", textSubjectNamespace)
				c.list.Hint("add the namespace of the ServiceAccount %s; `*` stands for every namespace", s.Name)
			}
		default:
			c.list.Errorf(at+".kind", "%s", textSubjectKind)
			c.list.Hint("found %q", s.Kind)
		}
		if s.Name == "" {
			c.list.Required(at+".name", "")
			c.list.Hint("add the name of the user, group or ServiceAccount; `*` stands for any")
		}
	}
	for i, role := range f.Roles {
		if ns, name, ok := strings.Cut(role, ":"); !ok || ns == "" || name == "" || strings.Contains(name, ":") {
			c.list.Errorf(fmt.Sprintf("%s.roles[%d]", path, i), "%s", textRoleFormat)
			c.list.Hint("found %q", role)
		}
	}
}

func (c *checker) resources(d kyvernov1.ResourceDescription, path string) {
	if d.Name != "" && len(d.Names) > 0 {
		c.list.Errorf(path, "%s", textNameAndNames)
		c.list.Hint("move %q into names", d.Name)
	}
	if c.namespaced && len(d.Namespaces) > 0 {
		c.list.Errorf(path+".namespaces", "%s", textNamespacedPolicy)
		c.list.Hint("a Policy sees the resources of its own namespace only: remove namespaces, or write a ClusterPolicy")
	}
	for i, k := range d.Kinds {
		if _, err := ParseKind(k); err != nil {
			// Kyverno accepts the policy with a warning, as for a kind that the cluster does not know.
			c.list.Warnf(fmt.Sprintf("%s.kinds[%d]", path, i), textUnknownKind, k)
			c.list.Hint("write Kind, version/Kind or group/version/Kind, each with /subresource behind it if wanted; %v", err)
		}
	}
	if len(d.Kinds) > 1 && slices.Contains(d.Kinds, "*") {
		c.list.Errorf(path+".kinds", "%s", textManyWildcards)
		c.list.Hint("`*` is every kind already: remove the others, or remove `*`")
	}
	if s := d.Selector; s != nil && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		c.list.Errorf(path+".selector", "%s", textEmptySelector)
		c.list.Hint("add matchLabels or matchExpressions, or remove the selector")
	}
	c.selector(d.Selector, path+".selector")
	c.selector(d.NamespaceSelector, path+".namespaceSelector")
}

func (c *checker) selector(s *metav1.LabelSelector, path string) {
	if s == nil {
		return
	}
	if err := compileSelector(s).err; err != nil {
		c.list.Errorf(path, "%s", err)
	}
}
