package dashboard

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/browser"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/dashboard"
)

// open starts a browser and opens the page. Without a browser it skips the test, unless EPHOR_UI is set.
func open(t *testing.T, url string) *browser.Browser {
	t.Helper()
	if err := browser.Available(); err != nil && os.Getenv("EPHOR_UI") == "" {
		t.Skip(err)
	}
	b := browser.Start(t)
	b.Size(1360, 1250)
	b.Open(url)
	return b
}

// loaded reports whether the page shows the result of its last request.
const loaded = `return document.querySelector("#main").getAttribute("aria-busy") === "false" && !document.querySelector("#content").hidden`

// calm fails the test if the browser logged errors: of scripts, or of resources that the Content-Security-Policy blocks.
func calm(t *testing.T, b *browser.Browser, expected ...string) {
	t.Helper()
entries:
	for _, e := range b.Console() {
		for _, text := range expected {
			if strings.Contains(e.Message, text) {
				continue entries
			}
		}
		t.Errorf("the console says %s: %s", e.Level, e.Message)
	}
}

// small compresses the picture as much as PNG allows.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// picture writes a picture of the page for the documentation, if requested.
func picture(t *testing.T, b *browser.Browser, name string, height int) {
	t.Helper()
	path := os.Getenv("EPHOR_SCREENSHOT")
	if path == "" {
		return
	}
	b.Size(1360, height)
	if err := os.WriteFile(strings.TrimSuffix(path, ".png")+name+".png", small(t, b.Screenshot()), 0o644); err != nil {
		t.Fatal(err)
	}
	b.Size(1360, 1250)
}

// texts returns the texts of all elements of a selector.
func texts(b *browser.Browser, selector string) (all []string) {
	b.Script(&all, `return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText.replace(/\s+/g, " ").trim())`, selector)
	return all
}

// row returns the text of the table row that begins with a name.
func row(t *testing.T, b *browser.Browser, table, name string) string {
	t.Helper()
	for _, text := range texts(b, table+" tbody tr") {
		if strings.HasPrefix(text, name+" ") {
			return text
		}
	}
	t.Errorf("%s has no row %s", table, name)
	return ""
}

// press clicks the button with the text.
func press(t *testing.T, b *browser.Browser, selector, text string) {
	t.Helper()
	var found bool
	b.Script(&found, `const one = [...document.querySelectorAll(arguments[0])].find((e) => e.innerText.trim() === arguments[1]); one?.click(); return !!one`, selector, text)
	if !found {
		t.Fatalf("no %s says %q", selector, text)
	}
	b.Until(loaded)
}

// The page from its first view to the message of one resource.
func TestPage(t *testing.T) {
	namespaces(t, teams...)
	before, after := shop()
	apply(t, before...)
	// The clock runs faster, so that there is a trend.
	const speed = 600
	started := time.Now()
	s := serve(t, false, func(o *dashboard.Options) {
		o.Sample = 200 * time.Millisecond
		o.Now = func() time.Time {
			return started.Add(speed*time.Since(started) - 2*time.Hour)
		}
	})
	ready(t, s.url, "", func(n int) bool { return n >= len(before) })
	// trend waits until the trend has further samples with the current number of failures, and returns that number, which f accepts.
	trend := func(f func(fail int) bool) (fail int) {
		seen := 0
		suite.Until(t, "the trend has further samples", func() error {
			var got struct{ Samples []struct{ Fail int } }
			if status := get(t, s.url, "/api/v1/trend", "", &got); status != http.StatusOK || len(got.Samples) == 0 {
				return fmt.Errorf("%d, %d samples", status, len(got.Samples))
			}
			n := len(got.Samples)
			seen = min(seen, n) // a long trend loses every second sample
			if fail = got.Samples[n-1].Fail; !f(fail) || seen == 0 {
				seen = n
				return fmt.Errorf("%d failures", fail)
			}
			if n < seen+5 {
				return fmt.Errorf("%d samples, the last of %d failures", n, fail)
			}
			return nil
		})
		return fail
	}
	failures := trend(func(int) bool { return true })
	third := len(after) / 3
	for _, part := range [][]any{after[:third], after[third : 2*third]} {
		cluster.Must(t, manifest(t, part...), "apply", "-f", "-")
		failures = trend(func(fail int) bool { return fail < failures })
	}
	cluster.Must(t, manifest(t, after[2*third:]...), "apply", "-f", "-")
	trend(func(fail int) bool { return fail == 67 })
	b := open(t, s.url)
	b.Until(loaded)
	picture(t, b, "", 1120)

	// The first view has all counts, the worst first, and the failing results below.
	if got := texts(b, "#tiles .tile"); fmt.Sprint(got) != "[83.4 % compliance 67 failures 5 errors 21 warnings 28 skipped 469 passes]" {
		t.Errorf("totals: %q", got)
	}
	if got := row(t, b, "#policies", "require-labels"); got != "require-labels low 66.6 % 56 7 21 0 0" {
		t.Errorf("a policy: %q", got)
	}
	if got := row(t, b, "#namespaces", "(cluster)"); got != "(cluster) 50.0 % 1 1 0 0 0" {
		t.Errorf("what lies in no namespace: %q", got)
	}
	if got := b.Text("#results-hint"); !strings.HasSuffix(got, "of 93 results: fail, error, warn.") {
		t.Error(got)
	}
	// The trend has two charts with four lines. The line of failures falls.
	var lines [][]float64
	b.Script(&lines, `return [...document.querySelectorAll("#trend polyline")].map((l) => l.getAttribute("points").split(" ").map((p) => Number(p.split(",")[1])))`)
	if len(lines) != 4 || len(lines[1]) < 10 || lines[1][len(lines[1])-1] <= lines[1][0] || lines[0][len(lines[0])-1] >= lines[0][0] {
		t.Errorf("the trend: %v", lines)
	}
	if got := texts(b, "#trend-table tbody tr"); len(got) < 5 || !strings.Contains(got[0], "83.4 % 469 67 21 5 28") {
		b.Script(nil, `document.querySelector("details.data").open = true`)
		if got = texts(b, "#trend-table tbody tr"); len(got) < 5 || !strings.Contains(got[0], "83.4 % 469 67 21 5 28") {
			t.Errorf("the trend as a table: %q", got)
		}
	}
	// Loading more results.
	n := len(texts(b, "#results tbody tr"))
	b.Click("#more")
	b.Until(`return document.querySelectorAll("#results tbody tr").length > arguments[0]`, n)

	// Selecting a namespace, a policy in it, a resource, and its message.
	press(t, b, "#namespaces .choose", "billing")
	if got := b.Text("#tiles"); !strings.Contains(got, "82.5 %") {
		t.Errorf("the totals of a namespace: %q", got)
	}
	if got := row(t, b, "#policies", "require-labels"); got != "require-labels low 50.0 % 6 3 3 0 0" {
		t.Errorf("a policy in a namespace: %q", got)
	}
	if got := row(t, b, "#namespaces", "checkout"); got != "checkout 80.0 % 64 12 3 1 4" {
		t.Errorf("the other namespaces can still be chosen: %q", got)
	}
	press(t, b, "#policies .choose", "disallow-privileged-containers")
	press(t, b, "#results .choose", "Deployment/web")
	if got := texts(b, "#results tbody tr"); len(got) != 1 || !strings.Contains(got[0], "Privileged mode is disallowed") {
		t.Errorf("one resource: %q", got)
	}
	b.Click("#results details summary")
	if got := b.Text("#results .whole"); !strings.HasSuffix(got, "failed at path /spec/containers/0/securityContext/privileged/") {
		t.Errorf("the whole message: %q", got)
	}
	if got := b.Text("#results .properties"); !strings.Contains(got, "background scan") {
		t.Errorf("the properties: %q", got)
	}
	var hash string
	if b.Script(&hash, `return location.hash`); hash != "#namespace=billing&policy=disallow-privileged-containers&resource=billing%2FDeployment%2Fweb" {
		t.Errorf("the address: %s", hash)
	}
	b.Script(nil, `history.back()`)
	b.Until(`return !location.hash.includes("resource")`)
	b.Until(loaded)
	b.Click("#clear")
	b.Until(`return location.hash === "" || location.hash === "#"`)
	b.Until(loaded)

	// Passing results are listed on request. Severities filter all views.
	press(t, b, "#tiles .tile", "469\npasses")
	if got := b.Text("#results-hint"); !strings.HasSuffix(got, "of 469 results: pass.") {
		t.Error(got)
	}
	b.Open(s.url + "#severity=critical&result=error")
	b.Until(loaded)
	if got := texts(b, "#results tbody tr"); len(got) != 5 {
		t.Errorf("errors of critical policies: %q", got)
	}
	b.Type("#filter-resource", "checkout/deploy")
	b.Until(`return location.hash.includes("resource=checkout")`)
	b.Until(loaded)
	for _, text := range texts(b, "#results tbody tr") {
		if !strings.Contains(text, "checkout") {
			t.Errorf("a part of a resource's name finds %q", text)
		}
	}
	var focus string
	if b.Script(&focus, `return document.activeElement.id`); focus != "filter-resource" {
		t.Errorf("who types loses the focus to %q", focus)
	}

	// Changes of the reports are shown.
	b.Open(s.url + "#")
	b.Until(loaded)
	cluster.Must(t, "", "delete", "policyreport", "-n", "billing", "--all")
	b.Until(`document.querySelector("#refresh").click(); return !document.querySelector("#namespaces").innerText.includes("billing")`)
	calm(t, b)
}
