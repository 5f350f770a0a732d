package reports

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/rollout"
)

// hostile are texts in results that attack users who look at them.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</td></table><iframe src="https://example.com">`,
	`javascript:alert(1)`, `<style>@import "https://example.com/x.css"</style>`, `<meta http-equiv="refresh" content="0;https://example.com">`,
	"\x1b[2J\x1b]0;owned\a", "\x1b]8;;https://example.com\x1b\\click\x1b]8;;\x1b\\", "\u009b31m", "a\rb", "a\x00b", "\u202egnp.exe", "\xff\xfe",
	`=cmd|'/c calc'!A1`, `+1+1`, `-2+3`, `@SUM(1)`, "\t=1+1", " =1+1", "\r=1+1", "＝1+1", "|calc", "%0a=1", "a\n=1",
}

// hostileSummary has each of the texts in each of its fields.
func hostileSummary() compliance.Summary {
	c := compliance.New(compliance.Options{Keep: 1000})
	for _, text := range hostile {
		c.Add(compliance.Report{Results: []compliance.Result{{
			Policy: text, Rule: text, Result: compliance.Fail, Severity: "high", Category: text, Source: text, Message: text,
			Properties: map[string]string{text: text},
			Resource:   compliance.Resource{APIVersion: text, Kind: text, Namespace: text, Name: text, UID: text},
		}}})
	}
	return c.Summary(nil)
}

// Row S26 of docs/security/threat-model.md (CVE-2026-44245): results, including their properties, only appear as text in the page.
func TestS26HTMLHoldsNothingOfTheResults(t *testing.T) {
	var page bytes.Buffer
	if err := reportHTML(&page, hostileSummary(), true); err != nil {
		t.Fatal(err)
	}
	elements := strings.Fields("html head meta title style body h1 h2 p table tr th td")
	texts := map[string]bool{}
	for z := html.NewTokenizer(&page); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		switch kind {
		case html.TextToken:
			texts[token.Data] = true
			if strings.Contains(token.Data, "@import") && !strings.Contains(token.Data, "<style>") {
				t.Errorf("a style sheet of the results: %q", token.Data)
			}
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			if !slices.Contains(elements, token.Data) {
				t.Errorf("an element of the results: %s", token)
			}
			for _, a := range token.Attr {
				switch {
				case a.Key == "class" && slices.Contains([]string{"n", "fail", "error", "warn"}, a.Val):
				case token.Data == "meta" && !strings.Contains(a.Val, "example.com"), token.Data == "html":
				default:
					t.Errorf("an attribute of the results: %s", token)
				}
			}
		}
	}
	for _, text := range hostile {
		if !texts[terminal.Plain(text)] {
			t.Errorf("%q is not shown as text", text)
		}
	}
}

// Spreadsheets treat cells that begin with certain characters as formulas.
func TestCSVHoldsNoFormulas(t *testing.T) {
	for _, list := range []bool{false, true} {
		var page bytes.Buffer
		if err := reportCSV(&page, hostileSummary(), list); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&page).ReadAll()
		if err != nil || len(rows) != len(hostile)+1 {
			t.Fatalf("%d rows for %d: %v", len(rows), len(hostile), err)
		}
		for _, row := range rows {
			for _, cell := range row {
				if c := strings.TrimSpace(cell); c != "" && strings.ContainsRune("=+-@|%＝＋－＠", []rune(c)[0]) {
					t.Errorf("a formula: %q", cell)
				}
			}
		}
	}
}

// Control characters control a terminal, and characters that change the direction of text hide what is there.
func TestNoOutputReachesTheTerminal(t *testing.T) {
	for format, write := range reportFormats {
		var page bytes.Buffer
		if err := write(&page, hostileSummary(), true); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.String() {
			if r != '\n' && terminal.IsControl(r) {
				t.Errorf("%s: %q", format, r)
			}
		}
	}
}

// The same for rollout, whose reasons and groups contain names.
func TestNoRolloutReachesTheTerminal(t *testing.T) {
	for _, text := range hostile {
		resource := compliance.Resource{APIVersion: text, Kind: text, Namespace: text, Name: text}
		c := rollout.New(rollout.Options{Policy: text, Keep: 10})
		c.Add(compliance.Report{Results: []compliance.Result{{Policy: text, Rule: text, Result: compliance.Fail, Message: text, Resource: resource}}})
		c.Count(rollout.Requests{Window: time.Hour, Samples: []rollout.Sample{{Labels: map[string]string{"resource_namespace": text, "rule_result": "fail"}, Value: 1}}})
		c.Violating(resource, rollout.Meta{}, text, []rollout.Violation{{Rule: text, Message: text}})
		p := c.Plan(t.Context())
		p.Own(t.Context(), &rollout.Owners{Label: text, Limit: 10, Read: func(context.Context, compliance.Resource) (rollout.Meta, bool, error) {
			return rollout.Meta{Namespace: text, Labels: map[string]string{text: text}}, true, nil
		}})
		p.Evaluate(rollout.Facts{NotReady: text, NotScanned: []string{text}, NotRead: []string{text}})
		var page bytes.Buffer
		if err := errors.Join(rolloutTable(&page, p), rolloutJSON(&page, p)); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.String() {
			if r != '\n' && terminal.IsControl(r) {
				t.Errorf("%q: %q", text, r)
			}
		}
	}
}

// In JSON the texts are complete, as in the reports.
func TestJSONIsWhole(t *testing.T) {
	var page bytes.Buffer
	if err := reportJSON(&page, hostileSummary(), true); err != nil {
		t.Fatal(err)
	}
	var back compliance.Summary
	if err := json.Unmarshal(page.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	for _, text := range hostile {
		text = strings.ToValidUTF8(text, "\ufffd\ufffd")
		if !slices.ContainsFunc(back.Results, func(r compliance.Result) bool { return r.Message == text && r.Properties[text] == text }) {
			t.Errorf("%q is not there", text)
		}
	}
}
