// Bars and lines, as SVG.

import { el, svg } from "./dom.js";
import { compliance, judged } from "./counts.js";

// The order of a bar's parts, from what is in order to what is not.
const parts = ["pass", "skip", "warn", "error", "fail"];

// bar shows how results are shared out. The counts stand beside it in the table, so it says nothing to who cannot see it.
export function bar(counts) {
  const all = judged(counts) + counts.skip;
  const node = svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
  let x = 0;
  for (const part of parts) {
    if (counts[part] === 0) continue;
    const width = (100 * counts[part]) / all;
    node.append(svg("rect", { class: `fill-${part}`, x: x.toFixed(3), y: 0, width: Math.max(width, 0.6).toFixed(3), height: 8 }));
    x += width;
  }
  return node;
}

const width = 600;
const height = 150;
const frame = { left: 46, right: 10, top: 10, bottom: 22 };

const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const day = (time) => new Date(time).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

// nice is the end of an axis for counts up to n, such that its middle is a whole number, too.
function nice(n) {
  if (n <= 2) return 2;
  const power = 10 ** Math.floor(Math.log10(n));
  for (const factor of [1, 2, 4, 6, 10]) if (n <= factor * power) return factor * power;
  return 10 * power;
}

// chart draws lines over time. lines are {name, style, of(sample) → number or null}.
function chart({ title, text, samples, lines, top, unit }) {
  const start = Date.parse(samples[0].time);
  const end = Math.max(Date.parse(samples[samples.length - 1].time), start + 1000);
  const x = (time) => frame.left + ((Date.parse(time) - start) / (end - start)) * (width - frame.left - frame.right);
  const y = (n) => height - frame.bottom - (n / top) * (height - frame.top - frame.bottom);
  const label = end - start > 20 * 3600 * 1000 ? day : clock;
  const node = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text });
  for (const n of [0, top / 2, top]) {
    node.append(svg("line", { class: "grid", x1: frame.left, x2: width - frame.right, y1: y(n), y2: y(n) }));
    node.append(svg("text", { class: "axis", x: frame.left - 6, y: y(n) + 4, "text-anchor": "end" }, `${n.toLocaleString()}${unit}`));
  }
  node.append(svg("text", { class: "axis", x: frame.left, y: height - 5 }, label(start)));
  node.append(svg("text", { class: "axis", x: width - frame.right, y: height - 5, "text-anchor": "end" }, label(end)));
  for (const line of lines) {
    const points = samples.map((s) => [x(s.time), line.of(s)]).filter(([, n]) => n !== null).map(([at, n]) => [at, y(n)]);
    if (points.length === 0) continue;
    const path = points.map(([at, n]) => `${at.toFixed(1)},${n.toFixed(1)}`);
    if (line.area) {
      const base = y(0).toFixed(1);
      node.append(svg("polygon", { class: `area-${line.style}`, points: [`${points[0][0].toFixed(1)},${base}`, ...path, `${points[points.length - 1][0].toFixed(1)},${base}`].join(" ") }));
    }
    node.append(svg("polyline", { class: `line line-${line.style}`, points: path.join(" ") }));
    const [at, n] = points[points.length - 1];
    node.append(svg("circle", { class: `fill-${line.style}`, cx: at.toFixed(1), cy: n.toFixed(1), r: 3.5 }));
  }
  const legend = el("ul", { class: "legend" }, lines.map((line) => el("li", {}, el("span", { class: `swatch swatch-${line.style}`, "aria-hidden": "true" }), line.name)));
  return el("figure", {}, el("figcaption", {}, el("span", { class: "chart-title" }, title), lines.length > 1 ? legend : null), node);
}

// trend is the two charts of the trend: how much is in order, and what is not.
export function trend(samples) {
  const first = samples[0];
  const last = samples[samples.length - 1];
  const share = (s) => { const c = compliance(s); return c === null ? "–" : `${c} %`; };
  return [
    chart({
      title: "Compliance", text: `Compliance, from ${share(first)} to ${share(last)}`, samples, top: 100, unit: " %",
      lines: [{ name: "compliance", style: "pass", area: true, of: compliance }],
    }),
    chart({
      title: "Not in order", samples, unit: "",
      text: `Not in order: failures from ${first.fail} to ${last.fail}, errors from ${first.error} to ${last.error}, warnings from ${first.warn} to ${last.warn}`,
      top: nice(Math.max(...samples.map((s) => Math.max(s.fail, s.error, s.warn)))),
      lines: ["fail", "error", "warn"].map((s) => ({ name: s, style: s, of: (sample) => sample[s] })),
    }),
  ];
}

// rows of the trend's table at most: more of them nobody reads.
const rows = 24;

// trendTable is the trend for who cannot see the charts.
export function trendTable(samples) {
  const step = Math.max(1, Math.ceil(samples.length / rows));
  const some = samples.filter((_, i) => (samples.length - 1 - i) % step === 0).reverse();
  const head = ["Time", "Compliance", "Pass", "Fail", "Warn", "Error", "Skip"].map((name) => el("th", { scope: "col" }, name));
  return el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, some.map((s) => el("tr", {},
    el("th", { scope: "row" }, day(s.time)), el("td", {}, compliance(s) === null ? "–" : `${compliance(s)} %`),
    ["pass", "fail", "warn", "error", "skip"].map((status) => el("td", {}, s[status].toLocaleString()))))));
}

// timeline draws moments {name, at, style} on a line around now. The table beside it has the same dates.
export function timeline(moments, now) {
  const start = Math.min(now, ...moments.map((m) => m.at));
  const end = Math.max(now, start + 1000, ...moments.map((m) => m.at));
  const x = (at) => frame.left + ((at - start) / (end - start)) * (width - frame.left - frame.right);
  const base = height - frame.bottom;
  const node = svg("svg", { class: "chart timeline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${moments.length} ends, from ${day(start)} to ${day(end)}` });
  node.append(svg("line", { class: "grid", x1: frame.left, x2: width - frame.right, y1: base, y2: base }));
  node.append(svg("line", { class: "line line-pass", x1: x(now), x2: x(now), y1: frame.top, y2: base }));
  node.append(svg("text", { class: "axis", x: frame.left, y: height - 5 }, day(start)));
  node.append(svg("text", { class: "axis", x: width - frame.right, y: height - 5, "text-anchor": "end" }, day(end)));
  const heights = new Map(); // moments that lie on each other are stacked
  for (const m of moments) {
    const column = Math.round(x(m.at) / 9);
    const n = heights.get(column) ?? 0;
    heights.set(column, n + 1);
    node.append(svg("circle", { class: `fill-${m.style}`, cx: x(m.at).toFixed(1), cy: Math.max(base - 6 - 9 * n, frame.top).toFixed(1), r: 4 }, svg("title", {}, `${m.name} ends at ${day(m.at)}`)));
  }
  return el("figure", {}, el("figcaption", {}, el("span", { class: "chart-title" }, "The ends of exceptions; the line is now")), node);
}
