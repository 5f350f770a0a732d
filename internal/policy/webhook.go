package policy

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Endpoint is an HTTP endpoint for webhooks of the policies of a family. A family has one for each kind of webhooks.
type Endpoint struct {
	// Kinds are the kinds of the policies that it evaluates.
	Kinds []string
	// Stages are the stages that it evaluates.
	Stages Stage
	// Words is the wording of answers; the zero Wording means that of the classic policies.
	Words Wording
	// Mutating: the webhooks belong to the mutating configuration, and change objects.
	Mutating bool
	// Name is the prefix of the names of the webhooks, and Path the prefix of their paths.
	Name, Path string
	// ByName: a path names the policies to evaluate (Path/a/b). Otherwise a path names their failure policy (Path/fail), and may name
	// one policy that has its own webhook (Path/fail/finegrained/a).
	ByName bool
	// Once: the API server calls the webhook once for a request, even if later webhooks change the object.
	Once bool
}

// Webhook describes the webhook of a policy at an endpoint: its share in a common webhook, or its own webhook.
type Webhook struct {
	*Endpoint
	// Own is the reason why the policy has its own webhook; empty for a share.
	Own OwnReason
	// Conditions are the match conditions of the policy's own webhook.
	Conditions []MatchCondition
	// Brings are the stages of rules whose targets add resources to the webhook. Operations are used for targets without operations.
	Brings     Stage
	Operations []Operation
	// Extra: the webhook is in one of our own configurations, which Kyverno does not have.
	Extra bool
	// Selection holds the resources as the author wrote them; nil if the targets of the rules define them.
	Selection *WebhookSelection
}

// WebhookSelection is the selection of a policy, in the fields of a webhook.
type WebhookSelection struct {
	Rules []admissionv1.RuleWithOperations
	// NamespaceSelector and ObjectSelector are nil if they select everything.
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	// Exact: requests for other versions of the resources are not converted.
	Exact bool
	// TimeoutSeconds is the timeout of the policy; 0 if it sets none.
	TimeoutSeconds int32
}

// OwnReason is the reason why a policy has its own webhook.
type OwnReason string

// The reasons.
const (
	OwnConditions  OwnReason = "conditions"   // the policy has match conditions
	OwnTimeout     OwnReason = "timeout"      // the policy has a timeout, which must not slow down other requests
	OwnMatchPolicy OwnReason = "match policy" // the policy forbids the conversion of requests for other versions
)
