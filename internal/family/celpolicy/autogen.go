package celpolicy

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/policy"
)

// Keys of the generated policies for Pod controllers in the status of a policy.
const (
	ConfigDefaults = "defaults"
	ConfigCronJobs = "cronjobs"
	ConfigExtract  = "extract"
)

// controller is a resource that gets a generated policy.
type controller struct {
	config string
	target policiesv1beta1.Target
}

// controllers are the resources that get generated policies.
var controllers = map[string]controller{
	"daemonsets":   {ConfigDefaults, policiesv1beta1.Target{Group: "apps", Version: "v1", Resource: "daemonsets", Kind: "DaemonSet"}},
	"deployments":  {ConfigDefaults, policiesv1beta1.Target{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment"}},
	"jobs":         {ConfigDefaults, policiesv1beta1.Target{Group: "batch", Version: "v1", Resource: "jobs", Kind: "Job"}},
	"replicasets":  {ConfigDefaults, policiesv1beta1.Target{Group: "apps", Version: "v1", Resource: "replicasets", Kind: "ReplicaSet"}},
	"statefulsets": {ConfigDefaults, policiesv1beta1.Target{Group: "apps", Version: "v1", Resource: "statefulsets", Kind: "StatefulSet"}},
	"cronjobs":     {ConfigCronJobs, policiesv1beta1.Target{Group: "batch", Version: "v1", Resource: "cronjobs", Kind: "CronJob"}},
}

// requested are the resources that get generated policies only if the policy names them.
var requested = map[string]policiesv1beta1.Target{
	"replicationcontrollers": {Version: "v1", Resource: "replicationcontrollers", Kind: "ReplicationController"},
}

// templatePaths are the paths of Pod templates, by configuration.
var templatePaths = map[string]string{ConfigDefaults: "spec.template", ConfigCronJobs: "spec.jobTemplate.spec.template"}

// Config is a generated policy for Pod controllers.
type Config struct {
	// Key is its name in the status.
	Key string
	// Targets are its resources, in the order of group, version and resource.
	Targets []policiesv1beta1.Target
	// Constraints select them.
	Constraints *admissionregistrationv1.MatchResources
	// Template is the path of their Pod template; empty if the evaluation must search the object for Pod templates.
	Template string
}

// Configs returns the policies that Ephor generates from a policy with these constraints. The constraints must select only Pods; for others
// it returns none.
func Configs(m *admissionregistrationv1.MatchResources, settings *policiesv1beta1.PodControllers) []Config {
	if !aboutPods(m) {
		return nil
	}
	wanted := slices.Sorted(maps.Keys(controllers))
	if settings != nil && settings.Controllers != nil {
		wanted = settings.Controllers
	}
	targets := map[string][]policiesv1beta1.Target{}
	for _, name := range wanted {
		if c, ok := controllerNamed(name); ok && !slices.Contains(targets[c.config], c.target) {
			targets[c.config] = append(targets[c.config], c.target)
		}
	}
	var out []Config
	for _, key := range []string{ConfigDefaults, ConfigCronJobs, ConfigExtract} {
		if list := targets[key]; len(list) > 0 {
			slices.SortFunc(list, func(a, b policiesv1beta1.Target) int {
				return slices.Compare([]string{a.Group, a.Version, a.Resource}, []string{b.Group, b.Version, b.Resource})
			})
			out = append(out, Config{Key: key, Targets: list, Constraints: constraintsFor(m, list), Template: templatePaths[key]})
		}
	}
	return out
}

// Origin returns the origin of a rule that was generated for a Config, by its key; the key is empty for an authored rule.
func Origin(key string) policy.Origin {
	return policy.Origin{Controllers: key, Custom: key == ConfigExtract}
}

// aboutPods reports whether the constraints select Pods by one rule without further conditions, except a namespaceSelector.
func aboutPods(m *admissionregistrationv1.MatchResources) bool {
	if m == nil || len(m.ResourceRules) != 1 || len(m.ExcludeResourceRules) > 0 {
		return false
	}
	if s := m.ObjectSelector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		return false
	}
	r := m.ResourceRules[0]
	return len(r.ResourceNames) == 0 && slices.Equal(r.APIGroups, []string{""}) && slices.Equal(r.APIVersions, []string{"v1"}) &&
		slices.Equal(r.Resources, []string{"pods"})
}

// controllerNamed returns the controller that a policy names; ok is false if nothing is generated for the name.
func controllerNamed(name string) (_ controller, ok bool) {
	if known, ok := controllers[name]; ok {
		return known, true
	}
	if also, ok := requested[name]; ok {
		return controller{ConfigDefaults, also}, true
	}
	other, ok := otherController(name)
	return controller{ConfigExtract, other}, ok
}

// otherController parses resource.version.group, where the group may have dots.
func otherController(name string) (policiesv1beta1.Target, bool) {
	parts := strings.SplitN(name, ".", 3)
	if len(parts) != 3 || slices.Contains(parts, "") {
		return policiesv1beta1.Target{}, false
	}
	return policiesv1beta1.Target{Group: parts[2], Version: parts[1], Resource: parts[0]}, true
}

// constraintsFor returns the constraints of a policy for Pods, rewritten for other resources: one rule for each group and version.
func constraintsFor(m *admissionregistrationv1.MatchResources, targets []policiesv1beta1.Target) *admissionregistrationv1.MatchResources {
	out := m.DeepCopy()
	pods := m.ResourceRules[0]
	out.ResourceRules = nil
	for _, t := range targets {
		if last := len(out.ResourceRules) - 1; last >= 0 && out.ResourceRules[last].APIGroups[0] == t.Group && out.ResourceRules[last].APIVersions[0] == t.Version {
			out.ResourceRules[last].Resources = append(out.ResourceRules[last].Resources, t.Resource)
			continue
		}
		rule := *pods.DeepCopy()
		rule.APIGroups, rule.APIVersions, rule.Resources = []string{t.Group}, []string{t.Version}, []string{t.Resource}
		out.ResourceRules = append(out.ResourceRules, rule)
	}
	return out
}

// podFields finds a field of a Pod, with the member of it that is read, by name or by index.
var podFields = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(object|oldObject)\.(spec|metadata)(\s*\.\s*\??\s*\w+|\s*\[\s*\??\s*(?:'\w*'|"\w*")\s*\])?`)
})

// templateMetadata are the fields that the metadata of Pod templates have. Others, such as the name, are those of the controller.
var templateMetadata = []string{"labels", "annotations", "finalizers"}

// Rewrite returns a copy of a part of the spec, rewritten from Pods to controllers whose Pod template has that path. As in Kyverno, it
// rewrites every text, including messages and literals. References to metadata that templates do not have stay unchanged.
func Rewrite(spec any, template string) any {
	switch x := spec.(type) {
	case string:
		return rewriteText(x, template)
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = Rewrite(e, template)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = Rewrite(e, template)
		}
		return out
	}
	return spec
}

func rewriteText(text, template string) string {
	return podFields().ReplaceAllStringFunc(text, func(found string) string {
		parts := podFields().FindStringSubmatch(found)
		object, field, member := parts[1], parts[2], strings.Trim(parts[3], " \t\r\n.?[]'\"")
		switch {
		case field == "metadata" && member != "" && !slices.Contains(templateMetadata, member):
			return found
		case field == "spec" && strings.HasPrefix(parts[3], ".namespace"):
			return found
		}
		return object + "." + template + "." + field + parts[3]
	})
}
