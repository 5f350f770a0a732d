package workload

import (
	"maps"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// Gives reports whether the template of a controller gives the content of the object, in the fields that reads has; nil for all fields.
// direct is the controller that the object itself names; it may be the same. placed: the object may have been scheduled already, so the node
// is no part of its content.
func Gives(controller, direct, object map[string]any, reads *value.Fields, placed bool) bool {
	want := expected(controller, direct, object, placed)
	return want != nil && reads.Same(object, want)
}

// expected returns the object that the template gives, with the identity and the known additions of the object; nil if there is no template
// for it.
func expected(controller, direct, object map[string]any, placed bool) map[string]any {
	if !named(object, direct) {
		return nil
	}
	switch kind, of := text(object, "kind"), text(controller, "kind"); {
	case kind == "Pod":
		template := member(controller, "spec", "template")
		if of == "CronJob" {
			template = member(controller, "spec", "jobTemplate", "spec", "template")
		}
		if template == nil {
			return nil
		}
		return pod(template, direct, object, placed)
	case kind == "ReplicaSet" && of == "Deployment":
		return replicaSet(controller, object)
	case kind == "Job" && of == "CronJob":
		return job(controller, object)
	}
	return nil
}

// longestPrefix is the longest name before the random end of a generated name.
const longestPrefix = 58

// named reports whether the object has a name as the controller gives it.
func named(object, direct map[string]any) bool {
	m := member(object, "metadata")
	prefix := text(member(direct, "metadata"), "name") + "-"
	if len(prefix) > longestPrefix {
		prefix = prefix[:longestPrefix]
	}
	if name := text(m, "name"); name != "" {
		return strings.HasPrefix(name, prefix)
	}
	return strings.HasPrefix(text(m, "generateName"), prefix)
}

// identity are the fields of the metadata that no template gives: the API server or the controller sets them.
var identity = []string{
	"name", "generateName", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation", "selfLink", "managedFields",
	"deletionTimestamp", "deletionGracePeriodSeconds",
}

// The labels, annotations and finalizers that controllers add to what they create.
var (
	addedLabels = []string{
		"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
		"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index",
	}
	addedAnnotations = []string{
		"batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/cronjob-scheduled-timestamp",
		"deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas", "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history",
		"kyverno.io/verify-images", // it counts only with a seal
	}
	addedFinalizers = []string{"batch.kubernetes.io/job-tracking"}
)

// frame returns the object with the metadata of a template, and without a spec.
func frame(template, object map[string]any) map[string]any {
	actual, given := member(object, "metadata"), member(template, "metadata")
	m := map[string]any{}
	for _, name := range identity {
		copyMember(m, actual, name)
	}
	if refs, _ := actual["ownerReferences"].([]any); len(refs) == 1 {
		m["ownerReferences"] = refs
	}
	if kept, _ := actual["finalizers"].([]any); len(kept) > 0 && !slices.ContainsFunc(kept, func(f any) bool { s, _ := f.(string); return !slices.Contains(addedFinalizers, s) }) {
		m["finalizers"] = kept
	}
	setTexts(m, "labels", member(given, "labels"), member(actual, "labels"), addedLabels)
	setTexts(m, "annotations", member(given, "annotations"), member(actual, "annotations"), addedAnnotations)
	out := map[string]any{"metadata": m}
	for _, name := range []string{"apiVersion", "kind", "status"} {
		copyMember(out, object, name)
	}
	return out
}

func copyMember(to, from map[string]any, name string) {
	if v, ok := from[name]; ok {
		to[name] = v
	}
}

// setTexts sets labels or annotations: those that are given, and of the actual ones those with the keys.
func setTexts(m map[string]any, name string, given, actual map[string]any, keys []string) {
	all := maps.Clone(given)
	for _, k := range keys {
		if v, ok := actual[k]; ok {
			if all == nil {
				all = map[string]any{}
			}
			all[k] = v
		}
	}
	if len(all) > 0 || actual != nil {
		if all == nil {
			all = map[string]any{}
		}
		m[name] = all
	}
}

// lastApplied is the annotation of kubectl, which controllers do not copy.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

const hashLabel = "pod-template-hash"

// replicaSet returns the ReplicaSet that a Deployment makes.
func replicaSet(deployment, object map[string]any) map[string]any {
	spec := member(deployment, "spec")
	template := member(spec, "template")
	hash := member(object, "metadata", "labels")[hashLabel]
	labels := maps.Clone(member(template, "metadata", "labels"))
	if labels != nil && hash != nil {
		labels[hashLabel] = hash
	}
	annotations := maps.Clone(member(deployment, "metadata", "annotations"))
	delete(annotations, lastApplied)
	out := frame(map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}}, object)
	made := map[string]any{}
	copyMember(made, spec, "minReadySeconds")
	if n, ok := value.Float(member(object, "spec")["replicas"]); ok {
		if most, known := value.Float(spec["replicas"]); known && n <= most || n == 0 || !known && n == 1 {
			copyMember(made, member(object, "spec"), "replicas")
		}
	}
	if selector := member(spec, "selector"); selector != nil {
		selector = maps.Clone(selector)
		selected := maps.Clone(member(selector, "matchLabels"))
		if selected == nil {
			selected = map[string]any{}
		}
		if hash != nil {
			selected[hashLabel] = hash
		}
		selector["matchLabels"] = selected
		made["selector"] = selector
	}
	made["template"] = templateWith(template, member(object, "spec", "template"), labels)
	out["spec"] = made
	return out
}

// templateWith returns the Pod template with other labels. The metadata of the actual one shows how the API server writes it.
func templateWith(template, actual, labels map[string]any) map[string]any {
	out := maps.Clone(template)
	if out == nil {
		return nil
	}
	m := maps.Clone(member(template, "metadata"))
	if m == nil {
		m = map[string]any{}
	}
	delete(m, "creationTimestamp")
	copyMember(m, member(actual, "metadata"), "creationTimestamp") // always null
	if labels != nil {
		m["labels"] = labels
	}
	out["metadata"] = m
	return out
}

// jobDefaults are the defaults of a Job, which the template in a CronJob does not get.
var jobDefaults = map[string]any{
	"backoffLimit": int64(6), "completionMode": "NonIndexed", "completions": int64(1), "parallelism": int64(1), "podReplacementPolicy": "TerminatingOrFailed", "suspend": false,
	"manualSelector": false,
}

// job returns the Job that a CronJob makes.
func job(cronJob, object map[string]any) map[string]any {
	template := member(cronJob, "spec", "jobTemplate")
	if template == nil {
		return nil
	}
	out := frame(template, object)
	spec, actual := maps.Clone(member(template, "spec")), member(object, "spec")
	for name, v := range jobDefaults {
		if _, given := spec[name]; !given && spec != nil && value.Equal(actual[name], v) {
			spec[name] = actual[name]
		}
	}
	if spec == nil {
		return nil
	}
	if _, given := spec["selector"]; !given { // the API server generates it, with the UID of the Job
		copyMember(spec, actual, "selector")
	}
	pods := member(template, "spec", "template")
	labels := maps.Clone(member(pods, "metadata", "labels"))
	for _, k := range addedLabels {
		if v, ok := member(actual, "template", "metadata", "labels")[k]; ok {
			if labels == nil {
				labels = map[string]any{}
			}
			labels[k] = v
		}
	}
	spec["template"] = templateWith(pods, member(actual, "template"), labels)
	out["spec"] = spec
	return out
}
