package policy

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Endpoint is the place where webhooks for the policies of a family are served. A family has one for each kind of webhooks.
type Endpoint struct {
	// Kinds are the kinds of the policies that it evaluates.
	Kinds []string
	// Stages are the stages that it evaluates.
	Stages Stage
	// Words is the wording of answers; the zero Wording is that of the classic policies.
	Words Wording
	// Mutating: its webhooks are in the mutating configuration, and change objects.
	Mutating bool
	// Name is the prefix of the names of its webhooks, and Path that of their paths.
	Name, Path string
	// ByName: a path names the policies to evaluate (Path/a/b). Otherwise it names their failure policy (Path/fail), and may name one
	// policy with a webhook of its own (Path/fail/finegrained/a).
	ByName bool
	// Once: the API server calls the webhook once for a request, even if later webhooks change the object.
	Once bool
}

// Webhook is the webhook of a policy at an endpoint: a share of one, or one of its own.
type Webhook struct {
	*Endpoint
	// Own is the reason why the policy has a webhook of its own; empty for a share.
	Own OwnReason
	// Conditions are the match conditions of a webhook of its own.
	Conditions []MatchCondition
	// Brings are the stages of rules whose targets add resources, with Operations for targets without operations.
	Brings     Stage
	Operations []Operation
	// Selection holds resources as the author wrote them; nil if the targets of the rules define them.
	Selection *WebhookSelection
}

// WebhookSelection is a policy's selection with the fields of a webhook.
type WebhookSelection struct {
	Rules []admissionv1.RuleWithOperations
	// NamespaceSelector and ObjectSelector are nil if all are selected.
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	// Exact: requests for other versions of the resources are not converted.
	Exact bool
	// TimeoutSeconds is the timeout of the policy; 0 for none.
	TimeoutSeconds int32
}

// OwnReason is the reason why a policy has a webhook of its own.
type OwnReason string

// The reasons.
const (
	OwnConditions  OwnReason = "conditions"   // it has match conditions
	OwnTimeout     OwnReason = "timeout"      // it has a timeout, which may not slow requests for others
	OwnMatchPolicy OwnReason = "match policy" // requests for other versions are not converted
)
