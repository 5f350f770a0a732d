// The page of the policy reports: totals, the trend, policies, namespaces, and single results.

import * as api from "./api.js";
import { add, none, sumBy } from "./counts.js";
import { trend, trendTable } from "./charts.js";
import { $, el, keepFocus, show } from "./dom.js";
import * as filters from "./filter.js";
import { rows, table } from "./results.js";
import { Table, tiles } from "./tables.js";

export const title = "Policy reports";

let filter = filters.read();
let summary = null;
let list = null; // the results that are listed: {body, next, pages}

const policies = new Table({ title: "Policy", plain: (name) => name, choose: (policy) => change({ policy }), redraw: draw, severity: true });
const namespaces = new Table({ title: "Namespace", plain: filters.shownNamespace, choose: (namespace) => change({ namespace }), redraw: draw });

// change makes another part of the reports shown.
function change(parts) {
  filters.write({ ...filter, ...parts });
}

// draw shows what is known.
function draw() {
  if (!summary) return;
  const { cells } = summary;
  const chosen = cells.filter((cell) => filters.matches(filter, cell));
  const totals = chosen.reduce(add, none());
  keepFocus($("tiles"), () => tiles(totals, filter.results, (results) => change({ results })));
  keepFocus($("policies"), () => policies.draw(sumBy(cells.filter((cell) => filters.matches(filter, cell, "policy")), (cell) => cell.policy), filter.policy));
  keepFocus($("namespaces"), () => namespaces.draw(sumBy(cells.filter((cell) => filters.matches(filter, cell, "namespace")), (cell) => cell.namespace), filter.namespace));
  options($("filter-namespace"), "all", summary.byNamespace.map((line) => filters.shownNamespace(line.name)), filter.namespace);
  options($("filter-policy"), "all", summary.byPolicy.map((line) => line.name).sort(), filter.policy);
  options($("filter-severity"), "all", [...filters.severities, "none"], filter.severity);
  if (document.activeElement !== $("filter-resource")) $("filter-resource").value = filter.resource;
  $("clear").disabled = location.hash.length <= 1;
}

function options(select, all, names, chosen) {
  if (document.activeElement === select && select.value === chosen) return; // it may be open
  const values = names.includes(chosen) || chosen === "" ? names : [chosen, ...names];
  show(select, el("option", { value: "" }, all), values.map((name) => el("option", { value: name }, name)));
  select.value = chosen;
}

function drawTrend(samples) {
  const first = new Date(samples[0].time).toLocaleString();
  show($("trend"), trend(samples));
  show($("trend-table"), trendTable(samples));
  const narrower = filter.policy || filter.severity || filter.resource;
  show($("trend-hint"), `Since this replica of the controller started, ${first}.${narrower ? " The trend is kept by namespace: other filters do not change it." : ""}`);
}

// listResults shows the first results, or more of them.
async function listResults(signal, more) {
  const parameters = filters.parameters(filter);
  if (more) parameters.push(["after", JSON.stringify(list.next)]);
  const answer = await api.results(parameters, signal);
  if (!more) {
    list = { ...table(), pages: 0, shown: 0 };
    show($("results"), answer.results.length ? list.node : el("p", { class: "empty" }, "No such results."));
  }
  list.body.append(...rows(answer.results, change));
  list.next = answer.next;
  list.pages++;
  list.shown += answer.results.length;
  $("more").hidden = !answer.next;
  const kinds = (filter.results.length ? filter.results : filters.violations).join(", ");
  show($("results-hint"), answer.total === 0 ? `Results looked for: ${kinds}.` : `${list.shown.toLocaleString()} of ${answer.total.toLocaleString()} results: ${kinds}.`);
}

// update shows what the address asks for; keep leaves a list alone that a user reads on in. It returns a line about it.
export async function update(signal, keep, { state, ready }) {
  const narrow = filter.resource ? [["resource", filter.resource]] : [];
  const [report, samples] = await Promise.all([api.report(narrow, signal), api.trend(filters.trendParameters(filter), signal)]);
  summary = report;
  ready();
  draw();
  drawTrend(samples.samples);
  if (!keep || !list || list.pages === 1 && !$("results").querySelector("details[open]")) await listResults(signal, false);
  return `${summary.reports.toLocaleString()} reports${state.user ? `, for ${state.user}` : ""}, at ${new Date().toLocaleTimeString()}`;
}

// notices are what a reader has to know about the page.
export function notices(state) {
  const out = [];
  if (!state.allNamespaces) out.push("You see the namespaces whose reports you may list.");
  if (!state.clusterScoped) out.push("Reports about what lies in no namespace are not shown: you may not list them.");
  if (state.unasked) out.push(`${state.unasked.toLocaleString()} namespaces are left out, since there are too many to ask about each.`);
  if (state.full) out.push("There are more reports than the dashboard has room for: the counts are too small.");
  return out;
}

// changed takes another address.
export function changed() {
  const before = filter;
  filter = filters.read();
  if (before.resource === filter.resource) draw(); // at once, from what is known
}

// forget removes all that was shown.
export function forget() {
  summary = list = null;
  for (const id of ["tiles", "policies", "namespaces", "results", "trend", "trend-table"]) show($(id));
}

// begin connects the controls; more(f) runs f with the signal of the page.
export function begin({ more }) {
  $("clear").addEventListener("click", () => { location.hash = ""; });
  $("more").addEventListener("click", () => more($("more"), (signal) => listResults(signal, true)));
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const [id, name] of [["filter-namespace", "namespace"], ["filter-policy", "policy"], ["filter-severity", "severity"]]) {
    $(id).addEventListener("change", (event) => change({ [name]: event.target.value }));
  }
  let typing = 0;
  $("filter-resource").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ resource: event.target.value.trim() }), 300);
  });
}
