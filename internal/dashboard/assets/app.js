// The page: what is asked for when, and where it is shown.

import * as api from "./api.js";
import { add, none, sumBy } from "./counts.js";
import { trend, trendTable } from "./charts.js";
import { el, keepFocus, show } from "./dom.js";
import * as filters from "./filter.js";
import { rows, table } from "./results.js";
import { Table, tiles } from "./tables.js";

const $ = (id) => document.getElementById(id);

const every = 30_000; // milliseconds between updates of a page that is looked at
const soon = 2_000; // while the server is not ready

let filter = filters.read();
let state = null;
let summary = null;
let list = null; // the results that are listed: {body, next, pages}
let timer = 0;
let running = null; // the AbortController of what is being asked

const policies = new Table({ title: "Policy", plain: (name) => name, choose: (policy) => change({ policy }), redraw: draw, severity: true });
const namespaces = new Table({ title: "Namespace", plain: filters.shownNamespace, choose: (namespace) => change({ namespace }), redraw: draw });

// change makes another part of the reports shown.
function change(parts) {
  filters.write({ ...filter, ...parts });
}

function say(text) {
  show($("status"), text);
}

function notices() {
  const out = [];
  if (!state.allNamespaces) out.push("You see the namespaces whose reports you may list.");
  if (!state.clusterScoped) out.push("Reports about what lies in no namespace are not shown: you may not list them.");
  if (state.unasked) out.push(`${state.unasked.toLocaleString()} namespaces are left out, since there are too many to ask about each.`);
  if (state.full) out.push("There are more reports than the dashboard has room for: the counts are too small.");
  show($("notices"), out.map((text) => el("p", { class: "notice" }, text)));
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

// update asks for everything; keep leaves a list alone that somebody reads on in.
async function update(keep) {
  clearTimeout(timer);
  running?.abort();
  const mine = running = new AbortController();
  const { signal } = mine;
  let pause = every;
  $("main").setAttribute("aria-busy", "true");
  try {
    const known = await api.state(signal);
    const narrow = filter.resource ? [["resource", filter.resource]] : [];
    const [report, samples] = await Promise.all([api.report(narrow, signal), api.trend(filters.trendParameters(filter), signal)]);
    state = known;
    summary = report;
    $("login").hidden = true;
    $("content").hidden = false;
    $("refresh").hidden = false;
    $("sign-out").hidden = !api.hasToken();
    notices();
    draw();
    drawTrend(samples.samples);
    if (!keep || !list || list.pages === 1 && !$("results").querySelector("details[open]")) await listResults(signal, false);
    say(`${summary.reports.toLocaleString()} reports${state.user ? `, for ${state.user}` : ""}, at ${new Date().toLocaleTimeString()}`);
  } catch (error) {
    if (error.name === "AbortError") return;
    pause = failed(error);
  }
  if (running !== mine) return;
  $("main").setAttribute("aria-busy", "false");
  if (pause) timer = setTimeout(tick, pause);
}

// failed says what is wrong, and after how many milliseconds to try again; 0 for not at all.
function failed(error) {
  if (!(error instanceof api.Refused)) throw error;
  if (error.status === 401) {
    signIn(api.hasToken() ? error.message : "");
    return 0;
  }
  say(error.message);
  return error.status === 503 || error.status === 429 ? soon : every;
}

function signIn(why) {
  api.setToken("");
  summary = state = list = null;
  for (const id of ["tiles", "policies", "namespaces", "results", "trend", "trend-table"]) show($(id));
  $("content").hidden = $("refresh").hidden = $("sign-out").hidden = true;
  $("login").hidden = false;
  show($("notices"), why ? el("p", { class: "notice bad" }, why) : null);
  say("A token is needed");
  $("token").focus();
}

function tick() {
  if (document.hidden) timer = setTimeout(tick, every);
  else update(true);
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  api.setToken($("token").value);
  $("token").value = "";
  show($("notices"));
  say("Asking …");
  update(false);
});
$("sign-out").addEventListener("click", () => { clearTimeout(timer); running?.abort(); signIn(""); });
$("refresh").addEventListener("click", () => update(false));
$("clear").addEventListener("click", () => { location.hash = ""; });
$("more").addEventListener("click", async () => {
  $("more").disabled = true;
  try {
    await listResults(running?.signal, true);
  } catch (error) {
    if (error.name !== "AbortError") failed(error);
  }
  $("more").disabled = false;
});
$("filters").addEventListener("submit", (event) => event.preventDefault());
for (const [id, name] of [["filter-namespace", "namespace"], ["filter-policy", "policy"], ["filter-severity", "severity"]]) {
  $(id).addEventListener("change", (event) => change({ [name]: event.target.value }));
}
let typing = 0;
$("filter-resource").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => change({ resource: event.target.value.trim() }), 300);
});
window.addEventListener("hashchange", () => {
  const before = filter;
  filter = filters.read();
  if ($("content").hidden) return;
  if (before.resource === filter.resource) draw(); // at once, from what is known
  update(false);
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && summary) update(true); });

update(false);
