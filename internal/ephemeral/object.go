package ephemeral

import (
	"cmp"
	"encoding/hex"
	"hash/fnv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/internal/report"
)

// Source is the process that found results.
type Source string

// The sources, as values of the label.
const (
	Admission  Source = "admission"
	Background Source = "background-scan"
)

// Labels and annotations of the objects.
const (
	SourceLabel = "audit.kyverno.io/source"

	resource  = "audit.kyverno.io/resource."
	uidKey    = resource + "uid"
	groupKey  = resource + "group"
	verKey    = resource + "version"
	kindKey   = resource + "kind"
	gvrKey    = resource + "gvr"
	nameKey   = resource + "name"
	namespKey = resource + "namespace"
)

// newObject returns an object for the report. Its name is derived from the resource and the source, so each resource has
// at most one.
func newObject(r *Report, source Source) (client.Object, *reportsv1.EphemeralReportSpec) {
	res := &r.Resource
	group, version := "", res.APIVersion
	if i := strings.IndexByte(version, '/'); i >= 0 {
		group, version = version[:i], version[i+1:]
	}
	meta := metav1.ObjectMeta{
		Name: stem(res) + "-" + string(source), Namespace: res.Namespace,
		Labels: map[string]string{report.ManagedLabel: report.ManagedValue, SourceLabel: string(source)},
		Annotations: map[string]string{
			namespKey: res.Namespace, nameKey: res.Name,
		},
	}
	for key, value := range r.Policies {
		meta.Labels[key] = value
	}
	for key, value := range map[string]string{uidKey: res.UID, groupKey: group, verKey: version, kindKey: res.Kind} {
		if len(value) > validation.LabelValueMaxLength {
			meta.Annotations[key] = value // it is too long for a label
			continue
		}
		meta.Labels[key] = value
	}
	if res.UID == "" {
		delete(meta.Labels, uidKey)
	}
	switch gvr := strings.TrimSuffix(r.GVR.Resource+"."+r.GVR.Version+"."+r.GVR.Group, "."); {
	case r.GVR.Resource == "":
	case len(gvr) <= validation.LabelValueMaxLength:
		meta.Labels[gvrKey] = gvr
	default:
		meta.Labels[nameKey] = r.GVR.Resource
	}
	if res.Name != "" && res.UID != "" {
		// It is deleted together with the resource, whether or not it was merged.
		meta.OwnerReferences = []metav1.OwnerReference{res.Owner()}
	}
	if res.Namespace == "" {
		o := &reportsv1.ClusterEphemeralReport{ObjectMeta: meta}
		return o, &o.Spec
	}
	o := &reportsv1.EphemeralReport{ObjectMeta: meta}
	return o, &o.Spec
}

// stem returns the beginning of the names of objects about the resource.
func stem(r *report.Resource) string {
	if r.UID != "" {
		return r.UID
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(key(r)))
	return hex.EncodeToString(h.Sum(nil))
}

// fill stores the results in the object, replacing older ones of the same rule, and reports whether that changed anything
// but times.
func fill(spec *reportsv1.EphemeralReportSpec, r *Report) bool {
	all := report.Together(spec.Results, r.Results)
	report.Bound(all)
	readable(all)
	if len(all) == len(spec.Results) && saying(all) == saying(spec.Results) {
		return false
	}
	spec.Results, spec.Summary = all, report.Summarize(all)
	return true
}

const exceptionPrefix = "polex.kyverno.io/"

// label adds the labels for the policy of an entry and for the exceptions that were applied. It omits names that are not
// valid labels.
func label(labels map[string]string, e *report.Entry) {
	set := func(prefix, name, version string) {
		if prefix != "" && len(validation.IsQualifiedName(prefix+name)) == 0 {
			labels[prefix+name] = version
		}
	}
	set(e.Program.Names.LabelPrefix, e.Program.Name, e.Program.ResourceVersion)
	for _, x := range e.Exceptions {
		set(exceptionPrefix, x.Name, x.ResourceVersion)
	}
}

// Subject returns the resource of the results in an object, as far as the object identifies it, and the resource's name in
// API paths with group and version.
func Subject(m metav1.Object) (report.Resource, string) {
	labels, notes := m.GetLabels(), m.GetAnnotations()
	get := func(key string) string { return cmp.Or(labels[key], notes[key]) }
	r := report.Resource{
		APIVersion: get(verKey), Kind: get(kindKey), Namespace: m.GetNamespace(), Name: notes[nameKey], UID: get(uidKey),
	}
	if group := get(groupKey); group != "" {
		r.APIVersion = group + "/" + r.APIVersion
	}
	plural, _, _ := strings.Cut(cmp.Or(labels[gvrKey], labels[nameKey]), ".")
	return r, plural
}
