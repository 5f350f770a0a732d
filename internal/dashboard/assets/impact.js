// The page of impact: what policies would have done to recorded requests, or to the objects that exist.

import * as api from "./api.js";
import { $, el, show } from "./dom.js";

export const title = "Impact";

const hour = 3600 * 1000;
const spans = { "24h": 24 * hour, "7d": 7 * 24 * hour, "30d": 30 * 24 * hour, all: 0 };

const counts = ["refused", "warned", "changed", "erred", "violating", "exempt"];
const words = { refused: "refused", warned: "warned", changed: "changed", erred: "with errors", violating: "violating", exempt: "exempt" };
const badges = { refused: "fail", erred: "error", warned: "warn", violating: "warn", changed: "skip", "no longer refused": "pass" };

// most is how many rows of a table are shown; the report as JSON has all.
const most = 100;

let running = null; // the AbortController of the evaluation
let choices = null; // the policies that can be chosen
let failed = null;
let recorded = false; // there is a store of decisions

const number = (n) => n.toLocaleString();

// say puts a line into the live region of the page.
function say(text) {
  show($("impact-hint"), text);
}

function complain(texts) {
  show($("impact-mistakes"), texts.length ? el("div", { class: "notice bad" }, texts.map((text) => el("p", { class: "message" }, text))) : null);
}

// table is a table of rows; the first cell of a row is its name, the others are numbers unless they are nodes or texts.
function table(head, rows) {
  const cell = (value, i) => i === 0 ? el("th", { scope: "row", class: "first" }, value) :
    typeof value === "number" ? el("td", { class: value === 0 ? "number zero" : "number" }, number(value)) : el("td", {}, value);
  return [el("table", {}, el("thead", {}, el("tr", {}, head.map((name, i) => el("th", { scope: "col", class: i && typeof rows[0]?.[i] === "number" ? "number" : undefined }, name)))),
    el("tbody", {}, rows.slice(0, most).map((row) => el("tr", {}, row.map(cell))))),
  rows.length > most ? el("p", { class: "hint" }, `and ${number(rows.length - most)} more, in the report as JSON`) : null];
}

// part is a section with a title, if there is something in it.
function part(name, rows, content) {
  return rows.length ? el("section", { class: "card", "aria-label": name }, el("h2", {}, name), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${name}, as a table` }, content)) : null;
}

const numbers = (x) => [x.requests, x.refused, x.warned, x.changed, x.erred, x.violating];
const headings = ["Requests", "Refused", "Warned", "Changed", "Erred", "Violating"];

function groups(name, list, none) {
  const compared = list.length > 0 && "newlyRefused" in list[0];
  const head = [name, ...headings, ...(compared ? ["Newly refused", "No longer refused"] : [])];
  return part(`By ${name.toLowerCase()}`, list, table(head, list.map((x) => [x.name || none, ...numbers(x), ...(compared ? [x.newlyRefused, x.noLongerRefused] : [])])));
}

function value(v) {
  const text = typeof v === "string" ? v : JSON.stringify(v);
  return text.length > 200 ? `${text.slice(0, 200)} …` : text;
}

// changes are the lines of a change, as a diff.
function changes(list) {
  if (!list?.length) return null;
  return el("pre", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Changes" }, list.map((c) => {
    if (c.from === undefined && c.to === undefined) return `${c.op} ${c.path}\n`;
    return [c.op === "add" || c.from === undefined ? null : `- ${c.path}: ${value(c.from)}\n`, c.op === "remove" || c.to === undefined ? null : `+ ${c.path}: ${value(c.to)}\n`];
  }));
}

function example(x) {
  const { namespace = "", kind = "", name = "" } = x.resource;
  const about = `${namespace ? `${namespace}/` : ""}${kind}/${name}${x.subresource ? `/${x.subresource}` : ""}`;
  const when = x.time ? ` at ${new Date(x.time).toLocaleString()}` : "";
  const before = x.before;
  return el("li", {}, el("details", {},
    el("summary", {}, el("span", { class: `badge badge-${badges[x.class] ?? "skip"}` }, x.class), ` ${x.operation} ${about}${x.user ? ` by ${x.user}` : ""}${when}${x.dryRun ? " (dry run)" : ""}`),
    el("p", { class: "sub" }, `${x.at}${x.uid ? `, UID ${x.uid}` : ""}`),
    (x.rules ?? []).map((r) => el("p", { class: "message" }, `${r.status} (${r.action}) of policy ${r.policy}${r.rule ? `, rule ${r.rule}` : ""}: ${r.message || "–"}${r.path ? `\nat ${r.path}` : ""}${r.exceptions?.length ? `\nexempt by ${r.exceptions.join(", ")}` : ""}`)),
    (x.failures ?? []).map((text) => el("p", { class: "message" }, `no answer: ${text}`)),
    (x.warnings ?? []).map((text) => el("p", { class: "message" }, `warning: ${text}`)),
    changes(x.changes),
    before ? [el("p", { class: "message" }, `in force: ${before.allowed ? "admitted it" : `refused it: ${before.message ?? ""}`}`), changes(before.changes)] : null));
}

function draw(report) {
  const { after, before, effect } = report;
  show($("impact-report"),
    el("section", { class: "tiles", "aria-label": "Requests" }, counts.map((name) => el("div", { class: `tile tile-${badges[name] ?? "skip"}` },
      el("span", { class: "big" }, number(after[name])), el("span", { class: "tile-name" }, words[name]), before ? el("span", { class: "sub" }, `in force: ${number(before[name])}`) : null))),
    effect ? el("p", { class: "notice" }, `${number(effect.newlyRefused)} newly refused, ${number(effect.noLongerRefused)} no longer refused, ${number(effect.differing)} answered otherwise.`) : null,
    part("By rule", report.rules, table(["Policy and rule", "Action", "Pass", "Fail", "Warn", "Error", "Skip", "Refused"],
      report.rules.map((r) => [`${r.policy}${r.rule ? `, ${r.rule}` : ""}`, r.action, r.pass, r.fail, r.warn, r.error, r.skip, r.refused]))),
    groups("Namespace", report.namespaces, "(cluster)"),
    part("By owner", report.owners, table(["Owner", "Namespace", "Whose", ...headings], report.owners.map((o) => [o.owner, o.namespace || "(cluster)", o.whose || "–", ...numbers(o)]))),
    groups("User", report.users, "–"),
    report.examples.length ? el("section", { class: "card", "aria-label": "First examples" }, el("h2", {}, "First examples"), el("ul", { class: "examples" }, report.examples.map(example))) : null,
    report.unreadable?.length ? el("section", { class: "card", "aria-label": "Not read" }, el("h2", {}, "Not read"), el("ul", {}, report.unreadable.map((m) => el("li", {}, `${m.at}: ${m.error}`)))) : null,
    report.lacks.length ? el("section", { class: "card", "aria-label": "Not known" }, el("h2", {}, "Not known"),
      el("ul", {}, report.lacks.map((l) => el("li", {}, l.what, l.requests ? ` (${number(l.requests)})` : "")))) : null,
    el("details", { class: "card" }, el("summary", {}, "The report as JSON"), el("pre", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The report as JSON" }, JSON.stringify(report, null, 2))));
}

// rest makes the controls ready for the next evaluation.
function rest() {
  $("impact-run").disabled = false;
  if (document.activeElement === $("impact-stop")) $("impact-run").focus();
  $("impact-stop").hidden = true;
  $("page-impact").setAttribute("aria-busy", "false");
}

async function evaluate() {
  running?.abort();
  const mine = running = new AbortController();
  const on = $("impact-on").value;
  const span = spans[$("impact-since").value];
  const body = { policies: $("impact-policies").value, on, namespaces: $("impact-namespace").value.split(",").map((s) => s.trim()).filter((s) => s), ownerLabel: $("impact-owner").value.trim() };
  if (on === "requests" && span) body.since = new Date(Date.now() - span).toISOString();
  complain([]);
  show($("impact-report"));
  $("impact-stop").hidden = false;
  if (document.activeElement === $("impact-run")) $("impact-stop").focus(); // a disabled button has no focus
  $("impact-run").disabled = true;
  $("page-impact").setAttribute("aria-busy", "true");
  say("Evaluating …");
  try {
    const report = await api.impact(body, mine.signal);
    draw(report);
    const { refused, warned, changed, erred } = report.after;
    say(`${number(report.requests)} ${on}, ${number(report.matched)} for the policies: ${number(refused)} refused, ${number(warned)} warned, ${number(changed)} changed, ${number(erred)} with errors.`);
  } catch (error) {
    if (error.name === "AbortError") {
      if (running === mine) say("Stopped.");
    } else if (error.status === 401) {
      failed(error);
    } else if (error instanceof api.Refused) {
      say("Not evaluated.");
      complain([error.message, ...error.mistakes]);
    } else {
      throw error;
    }
  } finally {
    if (running === mine) {
      running = null;
      rest();
    }
  }
}

// choose puts the text of a policy of the cluster into the field.
async function choose(signal) {
  const chosen = choices?.[Number($("impact-choice").value)];
  if ($("impact-choice").value === "" || !chosen) return;
  const answer = await api.policies(Object.entries(chosen), signal);
  $("impact-policies").value = answer.text;
  say(`${chosen.kind} ${chosen.name} is in the field: edit it, and see what the edit would change.`);
}

function sources() {
  for (const option of $("impact-on").options) option.disabled = option.value === "requests" ? !recorded : !api.hasToken();
  if ($("impact-on").selectedOptions[0]?.disabled) $("impact-on").value = recorded ? "requests" : "objects";
  $("impact-since").disabled = $("impact-on").value !== "requests";
}

export async function update(signal, keep, { state, ready }) {
  if (!state.impact) {
    ready();
    show($("impact-report"), el("p", { class: "empty" }, "No policies can be evaluated here: there are no recorded requests, and no users with rights to read objects."));
    return "No impact";
  }
  recorded = Boolean(state.decisions);
  if (!choices) {
    const { policies } = await api.policies([], signal);
    choices = policies;
    show($("impact-choice"), el("option", { value: "" }, "none"), policies.map((p, i) => el("option", { value: i }, `${p.kind} ${p.namespace ? `${p.namespace}/` : ""}${p.name}`)));
  }
  ready();
  sources();
  return keep ? "" : `Ready${state.user ? `, for ${state.user}` : ""}`;
}

export function notices(state) {
  return state.allNamespaces && state.clusterScoped ? [] : ["Policies are evaluated on what you may read."];
}

export function changed() {}

export function forget() {
  running?.abort();
  running = choices = null;
  rest();
  $("impact-policies").value = "";
  for (const id of ["impact-report", "impact-mistakes", "impact-hint", "impact-choice"]) show($(id));
}

export function begin(shell) {
  failed = shell.failed;
  $("impact-form").addEventListener("submit", (event) => { event.preventDefault(); evaluate(); });
  $("impact-stop").addEventListener("click", () => running?.abort());
  $("impact-on").addEventListener("change", sources);
  $("impact-choice").addEventListener("change", () => shell.more($("impact-choice"), choose));
}
