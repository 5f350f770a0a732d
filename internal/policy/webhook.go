package policy

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Endpoint is where webhooks ask about requests on behalf of the policies of a family. A family has one for each kind of webhooks.
type Endpoint struct {
	// Kinds are the kinds of the policies that are evaluated there.
	Kinds []string
	// Stages are those that are evaluated there.
	Stages Stage
	// Words are the words of answers; the zero Wording for those of the classic policies.
	Words Wording
	// Mutating: its webhooks stand in the mutating configuration, and change objects.
	Mutating bool
	// Name begins the names of its webhooks, and Path their paths.
	Name, Path string
	// ByName: a path names the policies that are evaluated (Path/a/b). Otherwise it names their failure policy (Path/fail), and may name
	// one policy that has a webhook of its own (Path/fail/finegrained/a).
	ByName bool
	// Once: the API server asks once about a request, also where later webhooks changed the object.
	Once bool
}

// Webhook is what a policy asks for at an endpoint: a share of a webhook, or one of its own.
type Webhook struct {
	*Endpoint
	// Own says why the policy has a webhook of its own; empty for a share.
	Own OwnReason
	// Conditions are the match conditions of a webhook of its own.
	Conditions []MatchCondition
	// Brings are the stages of rules whose targets bring resources, with Operations for the targets that name none.
	Brings     Stage
	Operations []Operation
	// Selection holds resources as the author wrote them; nil where the targets of the rules bring them.
	Selection *WebhookSelection
}

// WebhookSelection is what a policy selects with the fields of a webhook.
type WebhookSelection struct {
	Rules []admissionv1.RuleWithOperations
	// NamespaceSelector and ObjectSelector are nil where all are selected.
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	// Exact: requests for other versions of the resources are not converted.
	Exact bool
	// TimeoutSeconds is the timeout that the policy asks for; 0 for none.
	TimeoutSeconds int32
}

// OwnReason says why a policy has a webhook of its own.
type OwnReason string

// The reasons.
const (
	OwnConditions  OwnReason = "conditions"   // it has match conditions
	OwnTimeout     OwnReason = "timeout"      // it has a timeout, which may not slow requests for others
	OwnMatchPolicy OwnReason = "match policy" // requests for other versions are not converted
)
