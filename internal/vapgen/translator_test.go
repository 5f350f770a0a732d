package vapgen

import "testing"

// The message of a policy of policies.kyverno.io is written after its conditions, whichever client writes those. The message of a
// ClusterPolicy has its own object, and does not wait.
func TestWaits(t *testing.T) {
	status := func(s map[string]any) map[string]any {
		return map[string]any{"status": map[string]any{"conditionStatus": s}}
	}
	for name, c := range map[string]struct {
		apiVersion, kind string
		object           map[string]any
		want             bool
	}{
		"no status":         {"policies.kyverno.io/v1", "MutatingPolicy", map[string]any{}, true},
		"no conditions":     {"policies.kyverno.io/v1", "MutatingPolicy", status(map[string]any{"message": ""}), true},
		"not one condition": {"policies.kyverno.io/v1", "ValidatingPolicy", status(map[string]any{"conditions": []any{}}), true},
		"conditions":        {"policies.kyverno.io/v1", "ValidatingPolicy", status(map[string]any{"conditions": []any{map[string]any{"type": "WebhookConfigured"}}}), false},
		"classic":           {"kyverno.io/v1", "ClusterPolicy", map[string]any{}, false},
	} {
		if got := Of(c.apiVersion, c.kind).Waits(c.object); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
