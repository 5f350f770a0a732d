package celpolicy

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Conditions of policies, their reasons and messages. These texts are Kyverno's, verbatim, except textNoWork. The reason why a policy is not
// ready follows textNoWebhook on further lines.
const (
	ConditionWebhook = "WebhookConfigured"
	ConditionRights  = "RBACPermissionsGranted"

	reasonSucceeded = "Succeeded"
	reasonFailed    = "Failed"

	textWebhook      = "Webhook configured."
	textNoWebhook    = "Policy is not configured in the webhook."
	textRights       = "Policy is ready for reporting."
	textNoBackground = "Background scanning disabled; reporting permissions not required."
	textNoRights     = "Policy is not ready for reporting, missing permissions: "
	textNoWork       = "The background controller cannot carry out the policy, missing permissions: "
	textGrant        = " If this is for an autogen'd custom workload CRD, grant it via reportsController.rbac.clusterRole.extraResources in the Helm values" +
		" (or an equivalent ClusterRole labeled rbac.kyverno.io/aggregate-to-reports-controller)."
)

// ConditionsPath is the path of the conditions in the status. ReadyPath is the path of the field that reports whether all conditions are
// true.
var (
	ConditionsPath = []string{"conditionStatus", "conditions"}
	ReadyPath      = []string{"conditionStatus", "ready"}
)

// RightsCondition returns the condition about missing rights. Its message is granted if no right is missing, and otherwise lacking with the
// list of missing rights.
func RightsCondition(missing []family.MissingRight, granted, lacking string) metav1.Condition {
	if len(missing) == 0 {
		return metav1.Condition{Type: ConditionRights, Status: metav1.ConditionTrue, Reason: reasonSucceeded, Message: granted}
	}
	return metav1.Condition{Type: ConditionRights, Status: metav1.ConditionFalse, Reason: reasonFailed, Message: value.Message(missingText(lacking, missing))}
}

// lacking adds the rights that the background controller lacks to the condition about the rights for reports.
func lacking(condition metav1.Condition, work []family.LackingRights) metav1.Condition {
	if len(work) == 0 {
		return condition
	}
	var missing []family.MissingRight
	for _, l := range work {
		missing = append(missing, l.Rights...)
	}
	text := missingText(textNoWork, missing)
	if condition.Status == metav1.ConditionFalse {
		text = condition.Message + " " + text
	}
	condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reasonFailed, value.Message(text)
	return condition
}

// asked reports whether the policy evaluates requests: in a webhook, or in the API server itself.
func asked(p *policy.Program) bool {
	return p != nil && p.Settings.Admission && (len(p.Webhooks) > 0 || p.HandedOver)
}

// Status returns the status of a policy. webhook reports whether the policy should have a webhook, scanned whether scans read its
// resources for reports. autogen holds the generated policies by key; it is nil for a kind without them. Other fields of the stored
// status stay unchanged.
func Status(object map[string]any, s family.State, webhook, scanned bool, autogen any) (map[string]any, error) {
	var stored struct {
		Status struct {
			ConditionStatus *policiesv1beta1.ConditionStatus `json:"conditionStatus,omitempty"`
		} `json:"status"`
	}
	if err := json.Unmarshal(value.AppendJSON(nil, map[string]any{"status": object["status"]}), &stored); err != nil {
		stored.Status.ConditionStatus = nil // an unreadable status is overwritten
	}
	c := stored.Status.ConditionStatus
	if c == nil {
		c = &policiesv1beta1.ConditionStatus{}
	}
	set := func(kind, good, bad string) {
		condition := metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: reasonSucceeded, Message: good, LastTransitionTime: metav1.NewTime(s.Now),
		}
		if bad != "" {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reasonFailed, value.Message(bad)
		}
		meta.SetStatusCondition(&c.Conditions, condition)
	}
	bad := ""
	if s.NotReady != nil || webhook && !asked(s.Program) {
		bad = textNoWebhook
		if s.NotReady != nil {
			bad += "\n" + s.NotReady.Error()
		}
	}
	if webhook || bad != "" {
		set(ConditionWebhook, textWebhook, bad)
	} else {
		meta.RemoveStatusCondition(&c.Conditions, ConditionWebhook)
	}
	condition := metav1.Condition{Type: ConditionRights, Status: metav1.ConditionTrue, Reason: reasonSucceeded, Message: textNoBackground}
	if scanned {
		condition = RightsCondition(s.Missing, textRights, textNoRights)
	}
	condition = lacking(condition, s.Lacking)
	condition.LastTransitionTime = metav1.NewTime(s.Now)
	meta.SetStatusCondition(&c.Conditions, condition)
	s.SetLogin(&c.Conditions)
	s.SetKubernetes(&c.Conditions, generationOf(object))
	ready := !slices.ContainsFunc(c.Conditions, func(x metav1.Condition) bool {
		return x.Status != metav1.ConditionTrue && x.Type != family.ConditionLogin
	})
	c.Ready = &ready
	tree, err := family.Tree(struct {
		ConditionStatus *policiesv1beta1.ConditionStatus `json:"conditionStatus"`
	}{c})
	if err != nil {
		return nil, err
	}
	if autogen != nil {
		configs, err := family.Tree(struct {
			Configs any `json:"configs"`
		}{autogen})
		if err != nil {
			return nil, err
		}
		if all, _ := configs["configs"].(map[string]any); len(all) == 0 {
			configs = map[string]any{} // Kyverno's clients expect an empty object for none
		}
		tree["autogen"] = configs
	}
	have, _ := object["status"].(map[string]any)
	for _, key := range []string{"generated", "lastExecutionTime"} {
		if v, ok := have[key]; ok {
			tree[key] = v
		}
	}
	return tree, nil
}

// missingText appends a list of rights to lacking.
func missingText(lacking string, missing []family.MissingRight) string {
	texts, hint := make([]string, len(missing)), ""
	for i, m := range missing {
		texts[i] = m.Verb + " " + m.Resource.String() + ": " + m.Reason
		if m.Generated {
			hint = textGrant
		}
	}
	return lacking + strings.Join(texts, "; ") + "." + hint
}

// generationOf returns the generation of an object; 0 if it has none.
func generationOf(object map[string]any) int64 {
	meta, _ := object["metadata"].(map[string]any)
	n, _ := meta["generation"].(int64)
	return n
}
