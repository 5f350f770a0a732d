package celpolicy

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/policy"
)

// Common are the settings that all kinds share. A kind that lacks one of the fields leaves it empty.
type Common struct {
	FailurePolicy         *admissionregistrationv1.FailurePolicyType
	Webhook               *policiesv1beta1.WebhookConfiguration
	Admission, Background *policiesv1beta1.SwitchOn
}

// Outline returns a Program of the policy without its rules. Its Diags hold the mistakes in the settings.
func Outline(kind metav1.TypeMeta, meta metav1.ObjectMeta, c Common) *policy.Program {
	out := &policy.Program{
		APIVersion: kind.APIVersion, Kind: kind.Kind, Name: meta.Name, UID: string(meta.UID),
		Generation: meta.Generation, ResourceVersion: meta.ResourceVersion, Labels: meta.Labels, Annotations: meta.Annotations,
		Settings: policy.Settings{Admission: On(c.Admission), Background: On(c.Background)},
	}
	if strings.HasPrefix(kind.Kind, NamespacedPrefix) {
		if out.Namespace = meta.Namespace; out.Namespace == "" {
			out.Namespace = "default" // the default of kubectl
		}
	} else if meta.Namespace != "" {
		out.Names.Policy = meta.Namespace + "/" + meta.Name
	}
	out.Settings.Annotate(meta.Annotations)
	if f := c.FailurePolicy; f != nil {
		switch *f {
		case admissionregistrationv1.Ignore:
			out.Settings.FailurePolicy = policy.Ignore
		case admissionregistrationv1.Fail:
		default:
			out.Diags.Unsupported("spec.failurePolicy", string(*f), []string{string(admissionregistrationv1.Ignore), string(admissionregistrationv1.Fail)})
		}
	}
	if w := c.Webhook; w != nil && w.TimeoutSeconds != nil {
		out.Settings.TimeoutSeconds = *w.TimeoutSeconds
	}
	return out
}

// On reports whether a switch is on. The default is on.
func On(s *policiesv1beta1.SwitchOn) bool { return s == nil || s.Enabled == nil || *s.Enabled }
