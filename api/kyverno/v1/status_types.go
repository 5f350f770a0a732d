package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyStatus is the state of a policy in the cluster.
type PolicyStatus struct {
	// Whether the policy is in force (older form; read the condition Ready).
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// The condition Ready reports whether the policy is in force.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The rules that are generated for controllers of Pods.
	// +optional
	Autogen AutogenStatus `json:"autogen,omitempty"`
	// Number of rules of each type, without generated rules.
	// +optional
	RuleCount RuleCountStatus `json:"rulecount,omitempty"`
	// The ValidatingAdmissionPolicy that is generated from the policy.
	// +optional
	ValidatingAdmissionPolicy ValidatingAdmissionPolicyStatus `json:"validatingadmissionpolicy,omitempty"`
	// Rules and kinds that background scans leave out. The reports controller writes it.
	// +optional
	BackgroundScan *BackgroundScanStatus `json:"backgroundScan,omitempty"`
	// The last request for which the policy exceeded its budget of time or size, so that its remaining rules were errors.
	// +optional
	Budget *BudgetStatus `json:"budget,omitempty"`
}

// BudgetStatus reports when, and at which rule, a policy exceeded its budget.
type BudgetStatus struct {
	// Time of the request. It is updated at most every five minutes.
	ExceededAt metav1.Time `json:"exceededAt"`
	// The generation of the policy that was evaluated.
	ObservedGeneration int64 `json:"observedGeneration"`
	// The rule that exceeded the budget, or the first rule that was no longer evaluated.
	Rule string `json:"rule"`
	// The budget that was exceeded, and how to correct the policy.
	Message string `json:"message"`
}

// PolicyExceptionStatus reports whether an exception can be evaluated.
type PolicyExceptionStatus struct {
	// The last request for which the exception could not be evaluated, so that it exempted nothing.
	// +optional
	NotEvaluated *NotEvaluatedStatus `json:"notEvaluated,omitempty"`
	// Who approved the exception, where the installation requires an approval.
	// +optional
	Approval *ApprovalStatus `json:"approval,omitempty"`
	// The requests that the exception exempted.
	// +optional
	Use *ExceptionUseStatus `json:"use,omitempty"`
	// The existing objects that the exception exempts, by their reports.
	// +optional
	Objects *ExceptionObjectsStatus `json:"objects,omitempty"`
}

// ExceptionUseStatus reports how an exception is used by requests. It is written at most every twenty minutes.
type ExceptionUseStatus struct {
	// Time of this status.
	At metav1.Time `json:"at"`
	// Time of the last exempt request.
	Last metav1.Time `json:"last"`
	// Exempt requests on each of the last days with any, at most fourteen.
	// +optional
	Days []ExceptionDay `json:"days,omitempty"`
	// The rules from which requests were exempt, as policy/rule.
	// +optional
	Rules []string `json:"rules,omitempty"`
}

// ExceptionDay counts the exempt requests of a day.
type ExceptionDay struct {
	// The day in UTC, such as 2026-01-31.
	Day string `json:"day"`
	// Number of exempt requests.
	Requests int64 `json:"requests"`
}

// ExceptionObjectsStatus counts the objects that an exception exempts. It is written at most every twenty minutes.
type ExceptionObjectsStatus struct {
	// Time of this status.
	At metav1.Time `json:"at"`
	// Number of exempt objects.
	Exempt int64 `json:"exempt"`
	// Those that would not pass without the exception, and those that would. Neither is known unless scans evaluate both (compare).
	Needed   int64 `json:"needed"`
	Unneeded int64 `json:"unneeded"`
	// The rules from which objects are exempt, as policy/rule.
	// +optional
	Rules []string `json:"rules,omitempty"`
}

// ApprovalStatus proves who approved an exception. A change of the exception ends the approval.
type ApprovalStatus struct {
	// The user who approved the exception.
	By string `json:"by"`
	// Time of the approval.
	At metav1.Time `json:"at"`
	// The proof, over the UID and the content of the exception and the user.
	Seal string `json:"seal"`
}

// NotEvaluatedStatus reports when, and for which rule, an exception could not be evaluated.
type NotEvaluatedStatus struct {
	// Time of the request. It is updated at most every five minutes.
	At metav1.Time `json:"at"`
	// The generation of the exception that was evaluated.
	ObservedGeneration int64 `json:"observedGeneration"`
	// The policy, as its kind and name.
	Policy string `json:"policy"`
	// The rule of the policy.
	Rule string `json:"rule"`
	// Why the exception could not be evaluated.
	Message string `json:"message"`
}

// BackgroundScanStatus lists rules and kinds that background scans leave out.
type BackgroundScanStatus struct {
	// Rules that scans do not evaluate, and kinds that they cannot read.
	// +optional
	NotScanned []NotScanned `json:"notScanned,omitempty"`
}

// NotScanned is a rule that scans do not evaluate, or a kind that they cannot read.
type NotScanned struct {
	// Name of the rule. Empty for an entry about a kind.
	// +optional
	Rule string `json:"rule,omitempty"`
	// The kind, such as v1/Secret. Empty for an entry about a rule.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Why scans leave out the rule or kind.
	Reason string `json:"reason"`
}

// The condition type and reasons of a policy's status.
const (
	PolicyConditionReady  = "Ready"
	PolicyReasonSucceeded = "Succeeded"
	PolicyReasonFailed    = "Failed"
)

// AutogenStatus lists generated rules.
type AutogenStatus struct {
	// The generated rules.
	// +optional
	Rules []Rule `json:"rules,omitempty"`
}

// RuleCountStatus counts rules by type.
type RuleCountStatus struct {
	// Number of validate rules.
	Validate int `json:"validate"`
	// Number of generate rules.
	Generate int `json:"generate"`
	// Number of mutate rules.
	Mutate int `json:"mutate"`
	// Number of verifyImages rules.
	VerifyImages int `json:"verifyimages"`
}

// ValidatingAdmissionPolicyStatus reports whether a ValidatingAdmissionPolicy was generated from the policy.
type ValidatingAdmissionPolicyStatus struct {
	// Whether it was generated.
	Generated bool `json:"generated"`
	// The reason why it was not generated.
	Message string `json:"message"`
}
