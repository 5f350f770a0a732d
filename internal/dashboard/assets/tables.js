// The tables of policies and namespaces, and the totals above them.

import { bar } from "./charts.js";
import { byName, compliance, worse } from "./counts.js";
import { el, keyed } from "./dom.js";
import { statuses } from "./filter.js";

// short is how many rows a table has before somebody wants all.
const short = 10;

const columns = ["pass", "fail", "warn", "error", "skip"];

const orders = {
  name: byName,
  worst: worse,
  compliance: (a, b) => (compliance(a.counts) ?? 101) - (compliance(b.counts) ?? 101) || worse(a, b),
};
for (const column of columns) orders[column] = (a, b) => b.counts[column] - a.counts[column] || byName(a, b);

export const percent = (counts) => {
  const share = compliance(counts);
  return share === null ? "–" : `${share.toLocaleString(undefined, { minimumFractionDigits: 1 })} %`;
};

// grade is the class of a share, which colours it.
function grade(counts) {
  const share = compliance(counts);
  return share === null ? "none" : share === 100 ? "good" : share >= 90 ? "fair" : "bad";
}

export class Table {
  // title names the first column, plain is what a name is shown as, choose is told of a chosen name ("" for none).
  constructor({ title, plain, choose, redraw, severity }) {
    Object.assign(this, { title, plain, choose, redraw, severity, order: "worst", all: false });
  }

  // draw is the table of lines {name, severity, counts}; chosen is the name that is filtered by, or "".
  draw(lines, chosen) {
    if (lines.length === 0) return [el("p", { class: "empty" }, "Nothing to show.")];
    const sorted = [...lines].sort(orders[this.order]);
    const visible = this.all ? sorted : sorted.filter((line, i) => i < short || this.plain(line.name) === chosen);
    const table = el("table", { class: "counts" },
      el("thead", {}, el("tr", {}, this.head("name", this.title, "first"), this.head("compliance", "Compliance", "number"),
        el("th", { scope: "col", class: "bar-column" }, el("span", { class: "visually-hidden" }, "Share")), columns.map((column) => this.head(column, column, "number")))),
      el("tbody", {}, visible.map((line) => this.row(line, chosen))));
    return [table, this.rest(sorted.length)];
  }

  head(order, name, kind) {
    const sorted = this.order === order;
    const button = el("button", {
      type: "button", class: "sort", onclick: () => { this.order = sorted ? "worst" : order; this.redraw(); },
    }, name, el("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (order === "name" || order === "compliance" ? " ▲" : " ▼") : ""));
    return el("th", { scope: "col", class: kind, "aria-sort": sorted ? (order === "name" || order === "compliance" ? "ascending" : "descending") : undefined },
      keyed(button, `sort ${order}`));
  }

  row(line, chosen) {
    const name = this.plain(line.name);
    const on = name === chosen;
    const button = keyed(el("button", {
      type: "button", class: "choose", "aria-pressed": String(on), title: on ? "Show all again" : `Show only ${name}`,
      onclick: () => this.choose(on ? "" : name),
    }, name), `choose ${name}`);
    const severity = this.severity && line.severity ? el("span", { class: `severity severity-${line.severity}` }, line.severity) : null;
    return el("tr", { class: on ? "chosen" : undefined },
      el("th", { scope: "row", class: "first" }, button, " ", severity), el("td", { class: `number grade-${grade(line.counts)}` }, percent(line.counts)),
      el("td", { class: "bar-column" }, bar(line.counts)),
      columns.map((column) => el("td", { class: line.counts[column] === 0 ? "number zero" : `number text-${column}` }, line.counts[column].toLocaleString())));
  }

  rest(count) {
    if (count <= short) return null;
    return keyed(el("button", { type: "button", class: "quiet", onclick: () => { this.all = !this.all; this.redraw(); } },
      this.all ? `Show the first ${short}` : `Show all ${count.toLocaleString()}`), "rest");
  }
}

const words = { fail: "failures", error: "errors", warn: "warnings", skip: "skipped", pass: "passes" };

// tiles are the totals. Each one but the first chooses the results that are listed below.
export function tiles(totals, chosen, choose) {
  return [
    el("div", { class: `tile grade-${grade(totals)}` }, el("span", { class: "big" }, percent(totals)), el("span", { class: "tile-name" }, "compliance"), bar(totals)),
    statuses.map((status) => {
      const on = chosen.includes(status);
      return keyed(el("button", {
        type: "button", class: `tile tile-${status}`, "aria-pressed": String(on), title: on ? `Do not list ${words[status]}` : `List ${words[status]}`,
        onclick: () => choose(on ? chosen.filter((s) => s !== status) : [...chosen, status]),
      }, el("span", { class: "big" }, totals[status].toLocaleString()), el("span", { class: "tile-name" }, words[status])), `tile ${status}`);
    }),
  ];
}
