package family

import (
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Status describes the status of policies of a family.
type Status struct {
	// Conditions is the path of the list of conditions below the status.
	Conditions []string
	// Extended: the status has the fields budget and backgroundScan, which report parts that were not evaluated.
	Extended bool
	// Rights: Make uses State.Missing. Listable: State.Missing holds only rights on resources that can be listed, not on subresources.
	Rights, Listable bool
	// Make returns the status that a policy should have. It preserves the fields that other controllers write. It returns an error if the
	// object cannot be read.
	Make func(object map[string]any, s State) (map[string]any, error)
}

// State is the information of the controllers about a policy.
type State struct {
	// Program is the compiled policy; nil if it cannot be used.
	Program *policy.Program
	// NotReady is the reason why the policy does not evaluate requests; nil if it does.
	NotReady error
	// Missing are the rights that the reports controller lacks to scan the resources of the policy.
	Missing []MissingRight
	// Withheld: the policy reads registries, and may not use the login of the installation because it is namespaced.
	Withheld bool
	// Lacking are the rights that the background controller lacks for the work of the policy.
	Lacking []LackingRights
	Now     time.Time
}

// ConditionLogin is the type of the condition of policies in CEL about the login of the installation. It does not decide whether a policy is ready.
const ConditionLogin = "OperatorLogin"

// TextLogin tells that a policy may not use the login of the installation (State.Withheld).
const TextLogin = "The policy reads image registries with Secrets of its namespace and of the object only. Private images that need the installation's pull secrets or " +
	"cloud identity cannot be read: name pull secrets in the policy, or let an administrator set --namespacedPoliciesUseOperatorLogin."

// SetLogin adds the condition about the login of the installation to a policy that may not use it, and removes it from others.
func (s *State) SetLogin(conditions *[]metav1.Condition) {
	if !s.Withheld {
		meta.RemoveStatusCondition(conditions, ConditionLogin)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: ConditionLogin, Status: metav1.ConditionFalse, Reason: "Namespaced", LastTransitionTime: metav1.NewTime(s.Now), Message: TextLogin,
	})
}

// ConditionKubernetes is the type of the condition about what another version of the API server changed. It does not decide whether a policy
// is ready.
const ConditionKubernetes = "KubernetesVersion"

// SetKubernetes adds the condition about what the last change of the API server's version changed about the policy. It stays until the policy
// itself is changed.
func (s *State) SetKubernetes(conditions *[]metav1.Condition, generation int64) {
	if old := meta.FindStatusCondition(*conditions, ConditionKubernetes); old != nil && old.ObservedGeneration != generation {
		meta.RemoveStatusCondition(conditions, ConditionKubernetes)
	}
	if s.Program == nil || s.Program.Changed == nil {
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: ConditionKubernetes, Status: metav1.ConditionTrue, Reason: "MeaningChanged", ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(s.Now),
		Message: value.Message(s.Program.Changed.String()),
	})
}

// LackingRights are rights on objects of one kind that an account lacks.
type LackingRights struct {
	// Text names the account, the verbs and the kind.
	Text   string
	Rights []MissingRight
}

// Texts joins the texts of all elements.
func Texts(lacking []LackingRights) string {
	texts := make([]string, len(lacking))
	for i, l := range lacking {
		texts[i] = l.Text
	}
	return strings.Join(texts, "; ")
}

// MissingRight is a right that an account lacks.
type MissingRight struct {
	Verb     string
	Resource schema.GroupVersionResource // Resource may name a subresource: pods/exec
	Reason   string                      // the reason given by the authorizer; usually empty
	// Generated: only a rule that was generated for a custom controller of Pods needs the right.
	Generated bool
}

// Tree returns a typed status as an unstructured value.
func Tree(status any) (map[string]any, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	v, err := value.DecodeJSON(text)
	tree, _ := v.(map[string]any)
	return tree, err
}
