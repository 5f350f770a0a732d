// The page of decisions: what admission decided, and one decision with what each rule said.

import * as api from "./api.js";
import { $, el, keyed, show } from "./dom.js";
import { shownNamespace } from "./filter.js";

export const title = "Decisions";

// verdicts are what became of a request, the worst first, with the kind of badge of each.
const verdicts = { refused: "fail", erred: "error", violating: "warn", warned: "warn", changed: "skip", exempt: "skip", passed: "pass" };

const hour = 3600 * 1000;
const spans = { "1h": hour, "24h": 24 * hour, "7d": 7 * 24 * hour, "30d": 30 * 24 * hour, all: 0 };
const usual = "24h";

// names are the parts of the address, which are the parameters of the server, too.
const texts = ["namespace", "policy", "user", "kind"];
const names = ["verdict", ...texts];

let filter = read();
let list = null; // the decisions that are listed: {body, since, next, pages, shown}
let opened = ""; // the UID that is shown in full

function read() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const out = { since: parameters.get("since") ?? usual, uid: parameters.get("uid") ?? "" };
  if (!(out.since in spans)) out.since = usual;
  for (const name of names) out[name] = parameters.get(name) ?? "";
  return out;
}

// change makes other decisions shown.
function change(parts) {
  const next = { ...filter, ...parts };
  const parameters = new URLSearchParams([["page", "decisions"]]);
  if (next.since !== usual) parameters.set("since", next.since);
  for (const name of [...names, "uid"]) if (next[name]) parameters.set(name, next[name]);
  location.hash = parameters.toString();
}

// typed are the names in the fields.
function typed() {
  return Object.fromEntries(texts.map((name) => [name, $(`decisions-${name}`).value.trim()]));
}

// query is the filter as the server takes it.
function query(since) {
  const out = names.filter((name) => filter[name]).map((name) => [name, filter[name]]);
  if (since) out.push(["since", since]);
  return out;
}

// refusing are the policies whose results made the verdict; of a request that passed all.
function refusing(record) {
  const rules = (record.rules ?? []).filter((rule) => record.verdict === "passed" || rule.status !== "pass");
  return [...new Set(rules.map((rule) => rule.policy))];
}

const badge = (verdict) => el("span", { class: `badge badge-${verdicts[verdict] ?? "skip"}` }, verdict);

function row(record) {
  const { kind = "", name = "", subresource = "", operation = "", uid = "" } = record;
  const at = new Date(record.time);
  const about = `${kind}/${name}${subresource ? `/${subresource}` : ""}`;
  const policies = refusing(record);
  return el("tr", { class: uid === filter.uid ? "chosen" : undefined },
    el("td", { class: "sub" }, el("time", { datetime: at.toISOString() }, at.toLocaleString())),
    el("td", {}, badge(record.verdict), record.share < 1 ? el("div", { class: "sub" }, `one of about ${Math.round(1 / record.share).toLocaleString()}`) : null),
    el("td", {}, keyed(el("button", { type: "button", class: "choose", title: "Show what the rules said", onclick: () => change({ uid }) }, `${operation} ${about}`), `decision ${uid}`),
      el("div", { class: "sub" }, shownNamespace(record["k8s.namespace.name"] ?? ""), record.dryRun ? ", dry run" : "")),
    el("td", {}, record["user.name"] || "–"),
    el("td", {}, policies.length ? policies.map((policy, i) => [i ? ", " : "", policy]) : "–"));
}

async function listDecisions(signal, more) {
  const since = more ? list.since : spans[filter.since] ? new Date(Date.now() - spans[filter.since]).toISOString() : "";
  const parameters = query(since);
  if (more) parameters.push(["after", list.next]);
  const answer = await api.decisions(parameters, signal);
  const records = answer.records ?? [];
  if (!more) list = { body: el("tbody"), since, pages: 0, shown: 0 };
  list.body.append(...records.map(row));
  if (!list.body.isConnected || !more) { // the first page, or the first one with something on it
    const head = ["Time", "Verdict", "Request", "User", "Policies"].map((name) => el("th", { scope: "col" }, name));
    show($("decisions"), list.body.childElementCount ? el("table", { class: "results decisions" }, el("thead", {}, el("tr", {}, head)), list.body) : el("p", { class: "empty" }, "No such decisions."));
  }
  list.next = answer.next ?? "";
  list.pages++;
  list.shown += records.length;
  $("more-decisions").hidden = !list.next;
  const left = answer.unasked ? ` ${answer.unasked.toLocaleString()} namespaces are left out, since there are too many to ask about each: name some.` : "";
  show($("decisions-hint"), `${list.shown.toLocaleString()} decisions, the newest first${list.next ? "; there are more" : ""}.${left}`);
}

// said is one rule in the words of `ephor why`.
function said(rule, words) {
  return el("li", {}, el("p", {}, el("span", { class: `badge badge-${rule?.status ?? "skip"}` }, rule?.status ?? "?"), " ", words.title),
    words.lines.map((line) => el("p", { class: "message" }, line)));
}

async function showOne(signal) {
  const uid = filter.uid;
  const answer = await api.decisions([["uid", uid]], signal);
  const records = answer.records ?? [];
  opened = uid;
  $("decision").hidden = false;
  if (!records.length) {
    show($("decision-body"), el("p", { class: "empty" }, `No decision that you may see has the UID ${uid}. It may not have been kept: only a share of the requests that passed is recorded.`));
  } else {
    show($("decision-body"), records.map((record, i) => {
      const words = answer.words[i];
      return el("article", {},
        el("h3", {}, words.summary), el("p", { class: "sub" }, words.how),
        el("p", { class: "sub" }, `UID ${record.uid}${record["user.groups"] ? `, groups ${record["user.groups"].join(", ")}` : ""}`),
        words.message ? el("p", { class: "message" }, `message: ${words.message}`) : null,
        el("ol", { class: "said" }, words.rules.map((rule, k) => said(record.rules?.[k], rule))),
        el("details", {}, el("summary", {}, "The record as JSON"), el("pre", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The record as JSON" }, JSON.stringify(record, null, 2))));
    }));
  }
  $("decision-title").focus();
}

function closed() {
  const was = opened;
  opened = "";
  $("decision").hidden = true;
  show($("decision-body"));
  for (const button of $("decisions").querySelectorAll("[data-key]")) {
    if (was && button.dataset.key === `decision ${was}`) button.focus();
  }
}

function controls() {
  $("decisions-since").value = filter.since;
  $("decisions-verdict").value = filter.verdict;
  for (const name of texts) {
    if (document.activeElement !== $(`decisions-${name}`)) $(`decisions-${name}`).value = filter[name];
  }
  $("clear-decisions").disabled = names.every((name) => !filter[name]) && filter.since === usual;
  for (const tr of $("decisions").querySelectorAll("tbody tr")) {
    tr.classList.toggle("chosen", tr.querySelector("[data-key]").dataset.key === `decision ${filter.uid}`);
  }
}

export async function update(signal, keep, { state, ready }) {
  if (!state.decisions) {
    ready();
    show($("decisions"), el("p", { class: "empty" }, "No decisions are kept: --decisionsStore of the reports controller keeps them."));
    return "No decisions";
  }
  const wanted = JSON.stringify(query("")) + filter.since;
  const another = !list || list.wanted !== wanted;
  if (another || !keep && !filter.uid || list.pages === 1 && !filter.uid) {
    await listDecisions(signal, false);
    list.wanted = wanted;
  }
  ready();
  controls();
  if (!filter.uid) closed();
  else if (filter.uid !== opened) await showOne(signal);
  return `${list.shown.toLocaleString()} decisions${state.user ? `, for ${state.user}` : ""}, at ${new Date().toLocaleTimeString()}`;
}

export function notices(state) {
  const out = [];
  if (!state.allNamespaces) out.push("You see the decisions of the namespaces whose reports you may list.");
  if (!state.clusterScoped) out.push("Decisions about what lies in no namespace are not shown: you may not list reports about it.");
  return out;
}

export function changed() {
  filter = read();
  if (list) controls();
}

export function forget() {
  list = null;
  opened = "";
  $("decision").hidden = true;
  for (const id of ["decisions", "decision-body", "decisions-hint"]) show($(id));
}

export function begin({ more }) {
  show($("decisions-verdict"), el("option", { value: "" }, "all"), Object.keys(verdicts).map((verdict) => el("option", { value: verdict }, verdict)));
  $("decision-filters").addEventListener("submit", (event) => event.preventDefault());
  $("clear-decisions").addEventListener("click", () => { location.hash = "page=decisions"; });
  $("close-decision").addEventListener("click", () => change({ uid: "" }));
  $("more-decisions").addEventListener("click", () => more($("more-decisions"), (signal) => listDecisions(signal, true)));
  for (const name of ["since", "verdict"]) $(`decisions-${name}`).addEventListener("change", (event) => change({ [name]: event.target.value, uid: "" }));
  let typing = 0;
  for (const name of texts) {
    $(`decisions-${name}`).addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => change({ ...typed(), uid: "" }), 300);
    });
  }
}
