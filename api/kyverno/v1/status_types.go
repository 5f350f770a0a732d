package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyStatus says what the controllers made of a policy.
type PolicyStatus struct {
	// Whether the policy is served (older form; read the condition Ready).
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// The condition Ready says whether the policy is served.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The rules that were derived for controllers of Pods.
	// +optional
	Autogen AutogenStatus `json:"autogen,omitempty"`
	// How many rules of each sort the policy has, without derived ones.
	// +optional
	RuleCount RuleCountStatus `json:"rulecount,omitempty"`
	// The ValidatingAdmissionPolicy made from the policy.
	// +optional
	ValidatingAdmissionPolicy ValidatingAdmissionPolicyStatus `json:"validatingadmissionpolicy,omitempty"`
	// What scans of existing resources leave out, written by the reports controller.
	// +optional
	BackgroundScan *BackgroundScanStatus `json:"backgroundScan,omitempty"`
	// The last time that the policy used up what it may take for one request, and was an error from there on.
	// +optional
	Budget *BudgetStatus `json:"budget,omitempty"`
}

// BudgetStatus says when and where a policy used up its budget.
type BudgetStatus struct {
	// When that was; it is not renewed within five minutes.
	ExceededAt metav1.Time `json:"exceededAt"`
	// The generation of the policy that was evaluated.
	ObservedGeneration int64 `json:"observedGeneration"`
	// The rule at which it happened, or the first one that was no longer evaluated.
	Rule string `json:"rule"`
	// Which budget, and what can be done.
	Message string `json:"message"`
}

// BackgroundScanStatus says what scans of existing resources leave out.
type BackgroundScanStatus struct {
	// Rules that scans do not evaluate, and kinds that they cannot read.
	// +optional
	NotScanned []NotScanned `json:"notScanned,omitempty"`
}

// NotScanned is a rule that scans do not evaluate, or a kind that they cannot read.
type NotScanned struct {
	// The rule; empty where the kind is meant.
	// +optional
	Rule string `json:"rule,omitempty"`
	// The kind, as in v1/Secret; empty where the rule is meant.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Why.
	Reason string `json:"reason"`
}

// The condition type and reasons of a policy's status.
const (
	PolicyConditionReady  = "Ready"
	PolicyReasonSucceeded = "Succeeded"
	PolicyReasonFailed    = "Failed"
)

// AutogenStatus lists derived rules.
type AutogenStatus struct {
	// The derived rules.
	// +optional
	Rules []Rule `json:"rules,omitempty"`
}

// RuleCountStatus counts rules by sort.
type RuleCountStatus struct {
	// Rules with validate.
	Validate int `json:"validate"`
	// Rules with generate.
	Generate int `json:"generate"`
	// Rules with mutate.
	Mutate int `json:"mutate"`
	// Rules with verifyImages.
	VerifyImages int `json:"verifyimages"`
}

// ValidatingAdmissionPolicyStatus says whether a ValidatingAdmissionPolicy was made from the policy.
type ValidatingAdmissionPolicyStatus struct {
	// Whether it was made.
	Generated bool `json:"generated"`
	// Why not, or what is noteworthy.
	Message string `json:"message"`
}
