package cleanup

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/schedule"
)

// These texts are Kyverno's, verbatim.
const (
	textSchedule      = "schedule spec in the cleanupPolicy is not in proper cron format"
	textImageRegistry = "ImageRegistry is not allowed in CleanUp Policy"
	textConfigMap     = "ConfigMap is not allowed in CleanUp Policy"
	textUserInfo      = "Usage of user info is forbidden"
	textClusterWide   = "Cluster wide resource '%s' not allowed in namespaced policy"
	textKindRequired  = "at least one element must be specified in a kind block, the kind attribute is mandatory when working with the resources element"
)

// Check returns all mistakes that concern a policy as a whole. Compile reports mistakes inside a match block, a context entry or a
// condition.
func Check(p *kyvernov2.ClusterCleanupPolicy) diag.List {
	var l diag.List
	spec := &p.Spec
	if p.Name == "" {
		l.Required("metadata.name", "a policy needs a name")
		l.Hint("add metadata.name, such as remove-old-jobs")
	}
	if p.Kind == ClusterCleanupPolicy && p.Namespace != "" {
		l.Errorf("metadata.namespace", "A clustercleanuppolicy should not have the namespace defined")
		l.Hint("remove the namespace, or write a CleanupPolicy")
	}
	if _, err := schedule.Parse(spec.Schedule); err != nil {
		l.Errorf("spec.schedule", "%s", textSchedule)
		l.Hint("%v; */5 * * * * is every five minutes", err)
	}
	for i, e := range spec.Context {
		path := "spec.context[" + strconv.Itoa(i) + "]"
		if e.ImageRegistry != nil {
			l.Errorf(path+".imageRegistry", "%s", textImageRegistry)
			l.Hint("a deletion on a schedule asks no registry: remove the entry")
		}
		if e.ConfigMap != nil {
			l.Errorf(path+".configMap", "%s", textConfigMap)
			l.Hint("read the ConfigMap with apiCall.urlPath")
		}
	}
	switch d := spec.DeletionPropagationPolicy; {
	case d == nil, *d == metav1.DeletePropagationForeground, *d == metav1.DeletePropagationBackground, *d == metav1.DeletePropagationOrphan:
	default:
		l.Unsupported("spec.deletionPropagationPolicy", string(*d), []string{"Background", "Foreground", "Orphan"})
	}
	checkFilters(&l, p)
	return l
}

func checkFilters(l *diag.List, p *kyvernov2.ClusterCleanupPolicy) {
	blocks := []struct {
		path    string
		filters kyvernov1.ResourceFilters
		match   bool
	}{{"spec.match.any", p.Spec.MatchResources.Any, true}, {"spec.match.all", p.Spec.MatchResources.All, true}}
	if ex := p.Spec.ExcludeResources; ex != nil {
		blocks = append(blocks, []struct {
			path    string
			filters kyvernov1.ResourceFilters
			match   bool
		}{{"spec.exclude.any", ex.Any, false}, {"spec.exclude.all", ex.All, false}}...)
	}
	if len(p.Spec.MatchResources.Any)+len(p.Spec.MatchResources.All) == 0 {
		l.Errorf("spec.match", "match resources not specified")
		l.Hint("say which resources are deleted: match.any[0].resources.kinds")
	}
	for _, b := range blocks {
		for i, f := range b.filters {
			path := b.path + "[" + strconv.Itoa(i) + "]"
			if len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) > 0 {
				l.Errorf(path, "%s", textUserInfo)
				l.Hint("a deletion on a schedule has no requester")
			}
			if b.match && len(f.ResourceDescription.Kinds) == 0 {
				l.Errorf(path+".resources.kinds", "%s", textKindRequired)
				l.Hint("add kinds, such as kinds: [Job]")
			}
			if p.Kind != CleanupPolicy {
				continue
			}
			for k, kind := range f.ResourceDescription.Kinds {
				if t, err := match.ParseKind(kind); err == nil && clusterWide(t.Group, t.Version, t.Kind) {
					l.Errorf(path+".resources.kinds["+strconv.Itoa(k)+"]", textClusterWide, t.Kind)
					l.Hint("write a ClusterCleanupPolicy")
				}
			}
		}
	}
}

// clusterWide reports whether a kind is a built-in cluster-scoped kind. A kind without a group matches kinds of any group.
func clusterWide(group, version, kind string) bool {
	groups := []string{group}
	if group == "*" {
		groups = kinds.Groups()
	}
	for _, g := range groups {
		apiVersion := version
		if g != "" {
			apiVersion = g + "/" + version
		}
		if kinds.ClusterScoped(apiVersion, kind) {
			return true
		}
	}
	return false
}
