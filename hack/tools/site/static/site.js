// The search, and the menu beside wide pages. Pages are readable without it.
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
  // Load a script instead of sending a request: pages that were opened from files may not read files.
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

  // forms returns the spellings under which a word is searched: a question may have the plural where a page has the singular.
  const forms = (word) => [...new Set([word, bare(word), word.length > 3 ? word.replace(/ies$/, "y").replace(/([^s])s$/, "$1") : word])];

  // hit returns 2 if the text contains the word, 1 if it contains the word within a longer one, and 0 otherwise. Words of two letters must match whole words, and so must
  // the other forms of a word.
  const hit = (text, word) => {
    const whole = (form) => text.includes(form) && new RegExp("(^|[^\\p{L}\\p{N}])" + form.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "s?($|[^\\p{L}\\p{N}])", "u").test(text);
    if (forms(word).some(whole)) return 2;
    return word.length > 2 && text.includes(word) ? 1 : 0;
  };

  // about returns the share of a title's words that are asked for.
  const about = (title, words) => {
    const own = title.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter((word) => word && !fillers.has(word));
    return own.filter((word) => words.some((asked) => forms(asked).includes(word))).length / Math.max(1, own.length);
  };

  // ranked returns the matching entries, best first. Words that occur in few sections count more, a hit in a name counts more than one in a text, and one in a
  // short text more than one in a long text. A section that lacks words counts less, and not at all if it lacks most of them. A title
  // with few other words counts a little more.
  const ranked = (index, words) => {
    const usual = index.reduce((sum, entry) => sum + entry.x.length, 0) / index.length;
    const hits = index.map((entry) => {
      const [title, page, text] = [entry.t, entry.p, entry.x].map((t) => t.toLowerCase());
      const short = 1 / (0.6 + 0.4 * text.length / usual);
      return words.map((word) => Math.max(12 * hit(title, word), 6 * hit(page, word), 4 * short * hit(text, word)));
    });
    const telling = words.map((_, i) => {
      const sections = hits.filter((points) => points[i]).length;
      return sections ? Math.log(1 + index.length / sections) : 0; // a word that is nowhere does not keep the others from being found
    });
    const all = telling.reduce((sum, weight) => sum + weight, 0) || 1;
    return index.map((entry, n) => {
      const found = telling.reduce((sum, weight, i) => sum + (hits[n][i] ? weight : 0), 0) / all;
      let points = telling.reduce((sum, weight, i) => sum + weight * hits[n][i], 0) * found * found;
      points *= 1 + 0.1 * about(entry.t, words);
      return [found < 0.4 ? 0 : /^(reference\/definitions|contributing)\//.test(entry.u) ? points / 2 : points, entry];
    }).filter(([points]) => points).sort((a, b) => b[0] - a[0]);
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
    const hits = ranked(index, words);
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
