package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// A webhook that is called for all namespaces is logged when this state begins and when it ends, not in each round.
func TestT4UnconfinedWebhooksAreLogged(t *testing.T) {
	var out bytes.Buffer
	f := &webhookReconciler{log: slog.New(slog.NewTextHandler(&out, nil))}
	for _, c := range []struct {
		webhooks []string
		want     string // empty for no line
	}{
		{nil, ""},
		{[]string{"validate.kyverno.svc-fail"}, "level=WARN"},
		{[]string{"validate.kyverno.svc-fail"}, ""},
		{[]string{"mutate.kyverno.svc-fail", "validate.kyverno.svc-fail"}, "mutate.kyverno.svc-fail"},
		{nil, "level=INFO"},
		{nil, ""},
	} {
		out.Reset()
		f.warnUnconfined(c.webhooks)
		if got := out.String(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: logged %q, want %q", c.webhooks, got, c.want)
		}
	}
}
