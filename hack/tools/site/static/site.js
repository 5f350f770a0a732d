// The search, and the menu beside wide pages. Pages read as well without it.
"use strict";
(() => {
  const root = document.currentScript.dataset.root;
  const byID = (id) => document.getElementById(id);
  const form = byID("ui-search"), query = byID("ui-query"), results = byID("ui-results"), count = byID("ui-count"), found = byID("ui-found");
  const wide = matchMedia("(min-width: 60rem)");
  const menu = () => { byID("ui-menu").open = wide.matches; };
  menu();
  wide.addEventListener("change", menu);
  form.hidden = false;

  let loading;
  // A script, not a request: pages that were opened from files may not read files.
  const load = () => loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = root + "search-index.js";
    script.onload = () => done(window.guide);
    script.onerror = failed;
    document.head.append(script);
  });

  // Words of questions that say nothing about the subject.
  const fillers = new Set("a an and are as be by can cannot do does for from get how i in is it me my of on or our should the there to was we what when where which who why will with you".split(" "));

  // Prometheus adds these to the names of metrics, and OTLP leaves them out.
  const bare = (word) => word.replace(/_(bucket|sum|count|total)$/, "");

  // score returns how well an entry fits: a hit in a name counts more than one in a text, and a whole word more than a part of one. Words
  // of two letters have to stand alone. With every, each word has to be found; else those that are found count.
  const score = (entry, words, every) => {
    let sum = 0;
    for (const word of words) {
      let best = 0;
      for (const [text, weight] of [[entry.t, 12], [entry.p, 6], [entry.x, 2]]) {
        const at = text.toLowerCase().indexOf(word);
        if (at < 0) continue;
        const whole = new RegExp("(^|[^\\p{L}\\p{N}])" + word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "s?($|[^\\p{L}\\p{N}])", "iu").test(text);
        if (whole || word.length > 2) best = Math.max(best, weight * (whole ? 2 : 1));
      }
      if (!best && every) return 0;
      sum += best;
    }
    return /^(reference\/definitions|contributing)\//.test(entry.u) ? sum / 2 : sum;
  };

  const marked = (text, words) => {
    const out = document.createElement("p");
    const lower = text.toLowerCase();
    const first = Math.max(0, Math.min(...words.map((w) => lower.indexOf(w)).filter((at) => at >= 0), text.length) - 60);
    let rest = (first > 0 ? "… " : "") + text.slice(first, first + 220) + (first + 220 < text.length ? " …" : "");
    while (rest) {
      let at = -1, length = 0;
      for (const word of words) {
        const here = rest.toLowerCase().indexOf(word);
        if (here >= 0 && (at < 0 || here < at)) [at, length] = [here, word.length];
      }
      if (at < 0) break;
      const mark = document.createElement("mark");
      mark.textContent = rest.slice(at, at + length);
      out.append(rest.slice(0, at), mark);
      rest = rest.slice(at + length);
    }
    out.append(rest);
    return out;
  };

  const search = async () => {
    const asked = query.value;
    const typed = asked.toLowerCase().split(/[\s?!,]+/).filter(Boolean);
    const telling = typed.filter((word) => !fillers.has(word));
    const words = telling.length ? telling : typed;
    if (!words.length) {
      results.hidden = true;
      return;
    }
    const index = await load();
    if (query.value !== asked) return;
    const hitsFor = (every, words) => index.map((entry) => [score(entry, words, every), entry]).filter(([points]) => points).sort((a, b) => b[0] - a[0]);
    let hits = hitsFor(true, words);
    const more = hitsFor(true, words.map(bare)).filter(([, entry]) => !hits.some(([, other]) => other === entry));
    hits = [...hits, ...more];
    if (!hits.length) hits = hitsFor(false, words);
    count.textContent = hits.length > 20 ? "20 of " + hits.length + " sections" : hits.length + (hits.length === 1 ? " section" : " sections");
    found.replaceChildren(...hits.slice(0, 20).map(([, entry]) => {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = root + entry.u;
      link.textContent = entry.t === entry.p ? entry.p : entry.p + ": " + entry.t;
      item.append(link, marked(entry.x, words));
      return item;
    }));
    results.hidden = false;
  };

  query.addEventListener("input", search);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    found.querySelector("a")?.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      query.value = "";
      results.hidden = true;
    } else if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      query.focus();
    }
  });
})();
