package preflight

import (
	"cmp"
	"slices"
	"strings"
)

// Severity is the effect of a finding on the cluster.
type Severity string

// The severities, the most urgent first.
const (
	Lost    Severity = "lost"    // objects, or the enforcement of a policy, would be lost
	Stops   Severity = "stops"   // something would stop working, or the switch itself would fail
	Unknown Severity = "unknown" // a part of the cluster could not be read
	Note    Severity = "note"    // nothing is lost; the operator should know it before the switch
)

var urgency = []Severity{Lost, Stops, Unknown, Note}

// Object identifies an object in the cluster; a kind alone stands for all of its objects.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

func (o Object) String() string {
	return strings.Join(slices.DeleteFunc([]string{o.Kind, o.Namespace, o.Name}, func(s string) bool { return s == "" }), "/")
}

// Finding is one thing that the switch would break, or that the operator should know.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Object   Object   `json:"object"`
	// Message says what happens.
	Message string `json:"message"`
	// Commands correct it, in this order; empty if no action is necessary.
	Commands []string `json:"commands,omitempty"`

	// keep are the annotations that correct it (see Keep); empty for other findings.
	keep map[string]string
}

// Report holds the findings of Run, the most urgent first.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Count returns the number of findings with a severity.
func (r *Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Safe reports whether everything could be read and nothing would be lost or stop.
func (r *Report) Safe() bool { return r.Count(Note) == len(r.Findings) }

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(slices.Index(urgency, a.Severity)-slices.Index(urgency, b.Severity), strings.Compare(a.Code, b.Code), strings.Compare(a.Object.String(), b.Object.String()))
	})
}

// Kind describes a kind of findings, for the documentation.
type Kind struct{ Code, Doc string }

// Kinds lists all kinds of findings of Run, and UpgradeKinds those that only Upgrade has.
func Kinds() []Kind        { return slices.Clone(findingKinds) }
func UpgradeKinds() []Kind { return slices.Clone(upgradeKinds) }

var upgradeKinds = []Kind{
	{"meaning-changes", "a policy whose expressions or standards change with the version of Kubernetes"},
	{"kind-removed", "a policy that names a kind in a version that is no longer served"},
	{"requests-stop", "a policy for requests that the API server no longer sends to webhooks"},
	staticPolicies,
}

var staticPolicies = Kind{"static-policies", "the API server can load policies from files, which protect Ephor"}

var findingKinds = []Kind{
	staticPolicies,
	{"definition-not-kept", "a CustomResourceDefinition that its tool may delete, and with it all its objects"},
	{"definition-unmanaged", "a CustomResourceDefinition without marks of Helm, Argo CD or Flux: no tool deletes it, a person may"},
	{"definition-stored-version", "objects are stored in a version that Ephor's definition no longer has"},
	{"helm-release", "the Helm release that owns the installation"},
	{"helm-release-pending", "the Helm release is in the middle of an operation, so that Helm refuses the next one"},
	{"values-refused", "values of the release that the chart of Ephor refuses"},
	{"values-without-effect", "values of the release that the chart of Ephor accepts without effect"},
	{"field-manager", "fields of the installation's objects that someone else than its tool wrote: a server-side apply conflicts"},
	{"init-container", "an init container of Kyverno that a plain apply would leave in Ephor's Pods"},
	{"webhook-unanswered", "webhooks that fail closed and that no server answers: the API server refuses every request that they select"},
	{"webhook-left-over", "a webhook configuration that Ephor does not have: no server answers it once Kyverno is gone"},
	{"secret-paths", "webhook paths with a secret segment, which Kyverno does not know: turn off these segments before you return to Kyverno"},
	{"lease-held", "a controller of Kyverno that leads: the same controller of Ephor waits until it is gone"},
	{"request-unfinished", "UpdateRequests that are not carried out yet"},
	{"right-missing", "rights that a policy's work needs and that the controllers of Ephor would not have"},
	{"policy-not-enforced", "a policy that Ephor would not enforce"},
	{"policy-without-login", "a namespaced policy that reads image registries: the installation's pull secrets and cloud identity are for cluster-wide policies only"},
	{"policy-differs", "a policy that Ephor evaluates differently"},
	{"policy-sees-more", "a policy that Ephor also evaluates on requests or images of Pods that Kyverno does not show it"},
	{"policy-inert", "a policy that Kyverno 1.20 stores without executing it, and that Ephor would execute"},
	{"writes-denied", "policies of kyverno.io cannot be created or changed while Kyverno 1.20 runs"},
	{"helm-hook", "an object of a hook of Kyverno's chart that refuses upgrades; Helm does not delete it with the release"},
	{"exception-not-applied", "a PolicyException that Ephor would not apply"},
	{"entry-not-loaded", "a GlobalContextEntry that Ephor would not load"},
	{"setting-unread", "a key of the ConfigMap that Ephor does not read"},
	{"certificate-unusable", "a certificate that Ephor could not serve with"},
	{"reports-adopted", "policy reports that Ephor goes on writing"},
	{"kubernetes-version", "the API server is older than Ephor supports; with --target-version: how much Ephor knows about that version"},
	{"not-checked", "a part of the cluster that could not be read"},
}
