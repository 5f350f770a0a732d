package dashboard

import "testing"

// unlabelled lists controls, tables and pictures without an accessible name.
const unlabelled = `
const bad = [];
const visible = (e) => e.checkVisibility();
for (const e of document.querySelectorAll("input, select")) if (visible(e) && !e.labels.length && !e.ariaLabel) bad.push(e.outerHTML);
for (const e of document.querySelectorAll("button")) if (visible(e) && !e.innerText.trim()) bad.push(e.outerHTML);
for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) bad.push(e.outerHTML);
for (const e of document.querySelectorAll("svg")) if (e.getAttribute("aria-hidden") !== "true" && !e.getAttribute("aria-label")) bad.push(e.outerHTML.slice(0, 80));
for (const e of document.querySelectorAll("thead th")) if (e.scope !== "col" || !e.textContent.trim()) bad.push(e.outerHTML);
for (const e of document.querySelectorAll("section")) if (!e.ariaLabel && !document.getElementById(e.getAttribute("aria-labelledby"))) bad.push(e.outerHTML.slice(0, 80));
const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) bad.push("twice: " + id);
if (!document.documentElement.lang || !document.title) bad.push("no language or title");
return bad`

// pale lists texts whose contrast to their background is below 4.5:1 (WCAG 2.2, 1.4.3), except disabled ones.
const pale = `
const parse = (c) => (c.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
const over = (top, below) => { const a = top[3] ?? 1; return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a)); };
const behind = (e) => { const layers = []; for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); layers.push(c); if ((c[3] ?? 1) === 1) break; }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]); };
const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const bad = new Map();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walker.nextNode());) {
  const e = node.parentElement;
  if (!node.data.trim() || !e.checkVisibility() || e.closest("button:disabled, .visually-hidden, .skip-link, select, noscript")) continue;
  const style = getComputedStyle(e);
  let opacity = 1;
  for (let p = e; p; p = p.parentElement) opacity *= Number(getComputedStyle(p).opacity);
  const back = behind(e);
  const text = parse(e.closest("svg") ? style.fill : style.color);
  const a = light(over([text[0], text[1], text[2], (text[3] ?? 1) * opacity], back)), b = light(back);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) bad.set(e.className.baseVal ?? e.className, node.data.trim().slice(0, 30) + ": " + ratio.toFixed(2));
}
return [...bad].map(String)`

// narrow lists elements that make a small page scroll sideways.
const narrow = `return document.documentElement.scrollWidth > document.documentElement.clientWidth ?
  [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll")).map((e) => e.tagName + "." + e.className + "#" + e.id) : []`

// The page has labels, contrast in light and dark mode, works on small screens and with the keyboard.
func TestAccessible(t *testing.T) {
	namespaces(t, "accessible", "accessible-too")
	apply(t,
		newReport("accessible", "Deployment", "web", result("p", "r", "fail", "critical", "no"), result("q", "r", "warn", "medium", "hm"), result("s", "r", "skip", "low", "not this one")),
		newReport("accessible-too", "Pod", "a-pod-with-a-very-long-name-that-has-no-place-where-it-could-be-broken-6f7c9d5b8-x2x4z",
			result("p", "r", "pass", "critical", "yes"), result("q", "r", "error", "medium", "failed at path /spec/template/spec/containers/0/securityContext/capabilities/drop/0/and/on/and/on/and/on")),
		newReport("", "Namespace", "accessible", result("ns", "owner", "pass", "info", "yes")))
	s := serve(t, false, nil)
	ready(t, s.url, "", func(n int) bool { return n >= 3 })
	b := open(t, s.url+"#result=pass&result=fail&result=warn&result=error&result=skip")
	b.Until(loaded)
	b.Script(nil, `document.querySelectorAll("details").forEach((d) => { d.open = true })`)
	none := func(what, script string) {
		t.Helper()
		var bad []string
		if b.Script(&bad, script); len(bad) > 0 {
			t.Errorf("%s: %q", what, bad)
		}
	}
	none("without a label", unlabelled)
	none("pale", pale)
	b.Dark(true)
	none("pale in the dark", pale)
	b.Dark(false)
	for _, width := range []int{1100, 768, 360} {
		b.Size(width, 900)
		none("wider than the screen", narrow)
	}

	// With the keyboard alone: Tab from the top of the page to a policy, Enter to select it, and the focus stays there.
	b.Size(1360, 1250)
	b.Script(nil, `document.activeElement.blur(); document.querySelector("#policies .choose").focus()`)
	b.Type("#policies .choose", "\ue007")
	b.Until(`return location.hash.includes("policy=")`)
	b.Until(loaded)
	var focus, pressed string
	b.Script(&focus, `return document.activeElement.innerText`)
	b.Script(&pressed, `return document.activeElement.getAttribute("aria-pressed")`)
	if focus == "" || pressed != "true" {
		t.Errorf("the focus is on %q, pressed %q", focus, pressed)
	}
	calm(t, b)
}
