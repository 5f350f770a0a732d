package site

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/browser"
	"ephor.invalid/ephor/internal/devcluster"
)

// written writes the site and returns its folder.
func written(t *testing.T) string {
	t.Helper()
	if os.Getenv("EPHOR_UI") == "" {
		t.Skip("EPHOR_UI=chromium tries the guide in a browser")
	}
	if err := browser.Available(); err != nil {
		t.Fatal(err)
	}
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "site")
	if out, err := exec.Command("go", "run", "-C", filepath.Join(root, "hack", "tools", "site"), ".", "-source", root, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func address(dir, page string) string { return "file://" + filepath.ToSlash(filepath.Join(dir, page)) }

// The search finds common queries, and its hits link to the sections, from every depth of the site.
func TestSearch(t *testing.T) {
	dir := written(t)
	b := browser.Start(t)
	b.Size(1200, 900)
	for _, c := range []struct{ from, words, page string }{
		{"index.html", "anchor", "policies/patterns.html#anchors"},
		{"index.html", "failurePolicy", "start/concepts.html#failurepolicy"},
		{"policies/match.html", "AdmissionReport", "migrating/old-names.html#kinds"},
		{"reference/commands/ephor_apply.html", "exclude namespace", "policies/match.html#how-do-i-exclude-a-namespace"},
		{"index.html", "GenerateRequest", "migrating/old-names.html#kinds"},
		{"index.html", "BackgroundScanReport", "migrating/old-names.html#kinds"},
		{"index.html", "validationFailureAction", "migrating/old-names.html#fields-and-flags"},
		{"index.html", "kyverno_policy_rule_results_total", "migrating/old-names.html#metrics"},
		{"index.html", "roll back", "operating/upgrade.html#roll-back"},
		{"index.html", "why was my pod refused?", "operating/troubleshooting.html#why-was-my-pod-refused"},
		{"index.html", "how do I test a policy locally", "start/command-line.html#test"},
		{"index.html", "unlock", "operating/availability.html#unlock-the-way-out-by-hand"},
		{"index.html", "How do I block the latest tag?", "start/questions.html#how-do-i-block-the-tag-latest-require-labels-allow-only-some-registries"},
		{"index.html", "How do I copy a secret into every namespace?", "start/questions.html#how-do-i-copy-a-secret-or-a-configmap-into-every-namespace"},
		{"index.html", "How do I give one team an exemption?", "start/questions.html#how-do-i-give-a-team-or-a-workload-an-exemption"},
		{"index.html", "What happens when the webhook is down?", "start/questions.html#what-happens-when-the-webhook-is-down"},
		{"index.html", "Which Kubernetes versions are supported?", "start/questions.html#which-versions-of-kubernetes-are-supported"},
		{"index.html", "How much memory and CPU does it need?", "operating/sizing.html#memory-and-cpu-requests-and-limits"},
		{"index.html", "How do I delete old pods automatically?", "policies/cleanup.html#delete-old-pods-an-example"},
		{"index.html", "How do I change the log level?", "operating/tracing.html#logs"},
	} {
		b.Open(address(dir, c.from))
		b.Type("#ui-query", c.words)
		b.Until(`return document.querySelectorAll("#ui-found li").length > 0`)
		var hits []string
		b.Script(&hits, `return [...document.querySelectorAll("#ui-found a")].map(a => a.href)`)
		want := address(dir, c.page)
		at := -1
		for i, hit := range hits {
			if hit == want && at < 0 {
				at = i
			}
		}
		if at < 0 || at > 4 {
			t.Errorf("%q finds %s at place %d of %s", c.words, c.page, at+1, strings.Join(hits, "\n"))
			continue
		}
		b.Click(fmt.Sprintf("#ui-found li:nth-child(%d) a", at+1))
		b.Until(`return location.href === arguments[0] && document.getElementById(location.hash.slice(1)) !== null`, want)
	}
	b.Open(address(dir, "index.html"))
	b.Type("#ui-query", "<b>xyzzy")
	b.Until(`return document.getElementById("ui-count").textContent === "0 sections"`)
	for _, e := range b.Console() {
		t.Errorf("the console: %s %s", e.Level, e.Message)
	}
}

// Each question of testdata/questions.tsv, in the words of a newcomer, finds one of the pages behind it first.
func TestQuestions(t *testing.T) {
	dir := written(t)
	text, err := os.ReadFile(filepath.Join("testdata", "questions.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	b := browser.Start(t)
	b.Open(address(dir, "index.html"))
	asked := 0
	for line := range strings.Lines(string(text)) {
		question, pages, _ := strings.Cut(strings.TrimSpace(line), "\t")
		asked++
		first := ""
		for _, hit := range hits(b, question) {
			first, _, _ = strings.Cut(strings.TrimPrefix(hit, address(dir, "")+"/"), "#")
			break
		}
		if !slices.Contains(strings.Fields(pages), first) {
			t.Errorf("%q finds %q first, want one of %s", question, first, pages)
		}
	}
	if asked < 25 {
		t.Errorf("only %d questions", asked)
	}
}

// hits returns the addresses that a search finds.
func hits(b *browser.Browser, words string) (out []string) {
	b.Script(nil, `document.getElementById("ui-count").textContent = ""; const q = document.getElementById("ui-query"); q.value = arguments[0]; q.dispatchEvent(new Event("input"))`, words)
	b.Until(`return document.getElementById("ui-count").textContent !== ""`)
	b.Script(&out, `return [...document.querySelectorAll("#ui-found a")].map(a => a.href)`)
	return out
}

// A search for names of Kyverno finds their descriptions: kinds and their short names, and every metric, with and without the suffixes of
// Prometheus and OTLP.
func TestNamesOfKyverno(t *testing.T) {
	dir := written(t)
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "operating", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	const kinds, metrics = "migrating/old-names.html#kinds", "operating/metrics.html#all-metrics"
	want := map[string]string{}
	for name := range strings.FieldsSeq("AdmissionReport ClusterAdmissionReport BackgroundScanReport ClusterBackgroundScanReport EphemeralReport ClusterEphemeralReport " +
		"ReportChangeRequest ClusterReportChangeRequest PolicyReport ClusterPolicyReport GenerateRequest PolicyViolation ClusterPolicyViolation " +
		"polr cpolr ephr cephr admr cadmr bgscanr cbgscanr rcr crcr reps creps gr " +
		"admissionreports.kyverno.io backgroundscanreports.kyverno.io clusteradmissionreports.kyverno.io policyreports.wgpolicyk8s.io clusterpolicyreports admissionreports") {
		want[name] = kinds
	}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.HasPrefix(cells[1], " `kyverno_") {
			for name := range strings.SplitSeq(cells[1], ",") {
				name = strings.Trim(name, " `")
				want[name], want[strings.TrimSuffix(name, "_total")] = metrics, metrics
				if strings.Contains(cells[2], "histogram") {
					want[name+"_bucket"], want[name+"_sum"], want[name+"_count"] = metrics, metrics, metrics
				}
			}
		}
	}
	if len(want) < 90 {
		t.Fatalf("only %d names", len(want))
	}
	b := browser.Start(t)
	b.Open(address(dir, "index.html"))
	for name, page := range want {
		if found := hits(b, name); !slices.Contains(found, address(dir, page)) {
			t.Errorf("%q does not find %s, but %d others: %q", name, page, len(found), found)
		}
	}
}

// Every page fits a small screen, and its text is large enough. Wide tables and code scroll by themselves.
func TestSmallScreen(t *testing.T) {
	dir := written(t)
	b := browser.Start(t)
	b.Size(400, 800)
	pages := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		pages++
		b.Open("file://" + filepath.ToSlash(path))
		var page struct {
			Width, Size float64
			Title, H1   string
			Wide        []string
		}
		b.Script(&page, `return {
			Width: document.documentElement.scrollWidth, Size: parseFloat(getComputedStyle(document.querySelector("main p, main li") || document.body).fontSize),
			Title: document.title, H1: (document.querySelector("main h1, main h2") || {}).textContent || "",
			Wide: [...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > 401 && !e.closest("pre, .table")).map(e => e.outerHTML.slice(0, 120)).slice(0, 3)}`)
		if page.Width > 400 || page.Size < 15 || page.Title == "" || page.H1 == "" {
			rel, _ := filepath.Rel(dir, path)
			t.Errorf("%s: %+v", rel, page)
		}
		return nil
	})
	if err != nil || pages < 60 {
		t.Errorf("%d pages: %v", pages, err)
	}
}

// Without scripts the text is shown, the list of pages opens, and the search, which needs scripts, is hidden.
func TestWithoutScripts(t *testing.T) {
	dir := written(t)
	b := browser.Start(t)
	b.Size(400, 800)
	b.Scripts(false)
	b.Open(address(dir, "policies/patterns.html"))
	if got := b.Text("main"); !strings.Contains(got, "Patterns and anchors") || !strings.Contains(got, "imagePullPolicy: Always") {
		t.Errorf("the text: %.300s", got)
	}
	var form string
	b.Script(&form, `return getComputedStyle(document.getElementById("ui-search")).display`)
	if form != "none" {
		t.Errorf("the search is shown: %s", form)
	}
	b.Click("#ui-menu summary")
	b.Click(`nav a[href="../policies/match.html"]`)
	b.Until(`return location.pathname.endsWith("/policies/match.html") && document.querySelector("main h1").textContent === "Which resources a policy is for"`)
	b.Click("a[rel=next]")
	b.Until(`return location.pathname.endsWith("/policies/patterns.html")`)
}

// Every link of every page leads to an existing file and element. All pictures exist.
func TestLinks(t *testing.T) {
	dir := written(t)
	b := browser.Start(t)
	ids := map[string]map[string]bool{}
	type link struct{ from, to string }
	var links []link
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		url := "file://" + filepath.ToSlash(path)
		b.Open(url)
		var page struct{ IDs, Links, Broken []string }
		b.Script(&page, `return {IDs: [...document.querySelectorAll("[id]")].map(e => e.id), Links: [...document.querySelectorAll("a[href]")].map(a => a.href),
			Broken: [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)}`)
		ids[url] = map[string]bool{}
		for _, id := range page.IDs {
			if ids[url][id] {
				t.Errorf("%s: two elements %s", url, id)
			}
			ids[url][id] = true
		}
		for _, to := range page.Links {
			links = append(links, link{url, to})
		}
		if len(page.Broken) > 0 {
			t.Errorf("%s: pictures %s", url, page.Broken)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, l := range links {
		if !strings.HasPrefix(l.to, "file://") {
			continue
		}
		checked++
		file, id, _ := strings.Cut(l.to, "#")
		if ids[file] == nil || id != "" && !ids[file][id] {
			t.Errorf("%s: %s", l.from, l.to)
		}
	}
	if checked < 3000 {
		t.Errorf("only %d links", checked)
	}
}
