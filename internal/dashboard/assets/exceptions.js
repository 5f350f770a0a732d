// The page of exceptions: who answers for them, when they end, and which are still needed.

import * as api from "./api.js";
import { timeline } from "./charts.js";
import { $, el, show } from "./dom.js";

export const title = "Exceptions";

// states are the states of an exception with the kind of badge of each; stale ones have another state, too.
const states = { pending: "warn", "ends soon": "warn", "in force": "pass", ended: "skip", mistake: "error", stale: "skip" };

const names = ["owner", "namespace", "policy", "state"];
const ownerless = "(none)"; // the value of the filter for exceptions without an owner; no owner is written so

let filter = read();
let known = null; // the answer of the server

function read() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(names.map((name) => [name, parameters.get(name) ?? ""]));
}

function change(parts) {
  const next = { ...filter, ...parts };
  const parameters = new URLSearchParams([["page", "exceptions"]]);
  for (const name of names) if (next[name]) parameters.set(name, next[name]);
  location.hash = parameters.toString();
}

// values are what the exception has for a filter.
const values = {
  owner: (e) => [e.owner || ownerless],
  namespace: (e) => [e.namespace || ""],
  policy: (e) => e.policies,
  state: (e) => (e.stale ? [e.state, "stale"] : [e.state]),
};

const chosen = (e) => names.every((name) => !filter[name] || values[name](e).includes(filter[name]));

const badge = (text) => el("span", { class: `badge badge-${states[text] ?? "skip"}` }, text);

const day = (text) => el("time", { datetime: text }, new Date(text).toLocaleDateString());

// needed is how many of the objects would not pass without the exception, as far as that is known.
function needed(e) {
  const compared = e.needed + e.unneeded;
  if (!compared) return "–";
  return compared === e.objects ? e.needed.toLocaleString() : `${e.needed.toLocaleString()} of ${compared.toLocaleString()}`;
}

function row(e) {
  return el("tr", {},
    el("th", { scope: "row", class: "first" }, e.namespace ? `${e.namespace}/${e.name}` : e.name, el("div", { class: "sub" }, e.reason || "no reason", e.mistake ? `: ${e.mistake}` : "")),
    el("td", {}, badge(e.state), e.stale ? [" ", badge("stale")] : null, e.approvedBy ? el("div", { class: "sub" }, `approved by ${e.approvedBy}`) : null),
    el("td", {}, e.policies.join(", ") || "–"),
    el("td", {}, e.owner || "–"),
    el("td", {}, e.ends ? day(e.ends) : "never"),
    el("td", { class: "number" }, e.objects.toLocaleString()),
    el("td", { class: "number" }, needed(e)),
    el("td", {}, e.lastUse ? [day(e.lastUse), el("div", { class: "sub" }, `${e.usesPerDay.toLocaleString(undefined, { maximumFractionDigits: 1 })} a day`)] : "–"));
}

const columns = ["Exception", "State", "Policies", "Owner", "Ends", "Objects", "Needed", "Last use"];

function draw() {
  for (const name of names) {
    const all = name === "state" ? Object.keys(states) : [...new Set(known.exceptions.flatMap(values[name]))].sort();
    if (filter[name] && !all.includes(filter[name])) all.push(filter[name]);
    show($(`exceptions-${name}`), el("option", { value: "" }, "all"), all.map((v) => el("option", { value: v }, v)));
    $(`exceptions-${name}`).value = filter[name];
  }
  $("clear-exceptions").disabled = names.every((name) => !filter[name]);
  const list = known.exceptions.filter(chosen);
  const ending = list.filter((e) => e.ends);
  show($("ends-hint"), ending.length ? `${ending.length.toLocaleString()} of ${list.length.toLocaleString()} have an end.` : "None has an end.");
  show($("ends"), ending.length ? timeline(ending.map((e) => ({ name: `${e.namespace ?? ""}/${e.name}`, at: Date.parse(e.ends), style: states[e.state] ?? "skip" })), Date.now()) : null);
  show($("exceptions-hint"), `${list.length.toLocaleString()} exceptions, those that end first at the top.`);
  show($("exceptions"), list.length
    ? el("table", { class: "results exceptions" }, el("thead", {}, el("tr", {}, columns.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, list.map(row)))
    : el("p", { class: "empty" }, "No such exceptions."));
}

export async function update(signal, keep, { state, ready }) {
  if (!state.exceptions) {
    ready();
    show($("exceptions"), el("p", { class: "empty" }, "The dashboard cannot list exceptions."));
    return "No exceptions";
  }
  known = await api.exceptions(signal);
  ready();
  draw();
  return `${known.exceptions.length.toLocaleString()} exceptions${state.user ? `, for ${state.user}` : ""}, at ${new Date().toLocaleTimeString()}`;
}

export function notices() {
  const out = [];
  const pending = known?.exceptions.filter((e) => e.state === "pending").length;
  if (pending) out.push(`${pending.toLocaleString()} exceptions wait for an approval. To approve one: kubectl annotate --overwrite policyexceptions.GROUP NAME -n NAMESPACE exceptions.ephor.dev/approve="$(date)"`);
  if (known?.denied) out.push("You see the exceptions that you may list.");
  if (known?.more) out.push("There are more exceptions than are listed.");
  return out;
}

export function changed() {
  filter = read();
  if (known) draw();
}

export function forget() {
  known = null;
  for (const id of ["exceptions", "exceptions-hint", "ends", "ends-hint"]) show($(id));
}

export function begin() {
  $("exception-filters").addEventListener("submit", (event) => event.preventDefault());
  $("clear-exceptions").addEventListener("click", () => { location.hash = "page=exceptions"; });
  for (const name of names) $(`exceptions-${name}`).addEventListener("change", (event) => change({ [name]: event.target.value }));
}
