package webhookconf

import (
	"encoding/json"
	"fmt"

	"ephor.invalid/ephor/internal/policy"
)

// The policies of one namespace have a quota in the webhook configurations, so that they cannot fill an object, or make the API server
// slow, for others. Shared webhooks limit what a namespace adds to them in another way (confine.go).
const (
	maxQuotaWebhooks   = 64
	maxQuotaConditions = 256
	maxQuotaBytes      = 128 << 10
)

// maxWebhookBytes is the maximum size of the rules and conditions of one policy. The API server stores objects of up to 1.5 MiB.
const maxWebhookBytes = 768 << 10

// quota is what the policies of a namespace use.
type quota struct{ webhooks, conditions, bytes int }

// webhookBytes is the size of a webhook without its rules and conditions.
const webhookBytes = 1 << 10

// charge adds what a webhook of the policy uses to the quota of its namespace. fresh means that it is a further webhook, otherwise the policy joins
// one. If the quota is not large enough, charge adds nothing, and returns the reason.
func (b *builder) charge(p *policy.Program, w *policy.Webhook, fresh bool) error {
	var need quota
	if fresh {
		need.webhooks, need.bytes = 1, webhookBytes
	}
	if w.Own != "" {
		need.conditions = len(w.Conditions)
		for _, c := range w.Conditions {
			need.bytes += len(c.Name) + len(c.Expression)
		}
	}
	if w.Selection != nil {
		text, err := json.Marshal(w.Selection)
		if err != nil {
			return err
		}
		need.bytes += len(text) + len(p.Name)
	}
	if need.bytes > maxWebhookBytes {
		return fmt.Errorf("the webhook of the policy cannot be written: its rules, selectors and match conditions have %d KiB; at most %d KiB are possible", need.bytes>>10, maxWebhookBytes>>10)
	}
	return b.reserve(p, need)
}

// reserve adds to the quota of the policy's namespace, or returns the reason why that is not possible. Cluster-wide policies have no limit.
func (b *builder) reserve(p *policy.Program, need quota) error {
	if p.Namespace == "" {
		return nil
	}
	sum := b.used[p.Namespace]
	sum.webhooks += need.webhooks
	sum.conditions += need.conditions
	sum.bytes += need.bytes
	for _, limit := range []struct {
		have, most int
		what       string
	}{
		{sum.webhooks, maxQuotaWebhooks, "webhooks"}, {sum.conditions, maxQuotaConditions, "match conditions"},
		{sum.bytes, maxQuotaBytes, "bytes of rules, selectors and match conditions"},
	} {
		if limit.have > limit.most {
			return fmt.Errorf("the webhook of the policy is not written: the policies of the namespace %s may have %d %s together", p.Namespace, limit.most, limit.what)
		}
	}
	if b.used == nil {
		b.used = map[string]quota{}
	}
	b.used[p.Namespace] = sum
	return nil
}
