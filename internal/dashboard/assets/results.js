// The list of single results, with their messages.

import { el } from "./dom.js";
import { shownNamespace } from "./filter.js";

// ago is how long something is past.
function ago(seconds) {
  const past = Math.max(0, Math.round(Date.now() / 1000 - seconds));
  if (past < 90) return `${past} s`;
  if (past < 5400) return `${Math.round(past / 60)} min`;
  if (past < 129600) return `${Math.round(past / 3600)} h`;
  return `${Math.round(past / 86400)} d`;
}

// long is the length from which on a message is folded, in letters.
const long = 220;

function message(result) {
  const text = result.message || "no message";
  const properties = Object.entries(result.properties ?? {}).sort(([a], [b]) => a < b ? -1 : 1);
  const list = el("dl", { class: "properties" }, properties.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
    result.category ? [el("dt", {}, "category"), el("dd", {}, result.category)] : [],
    result.source ? [el("dt", {}, "source"), el("dd", {}, result.source)] : []);
  if (text.length <= long) {
    return [el("p", { class: "message" }, text), list.childElementCount ? el("details", {}, el("summary", {}, "Properties"), list) : null];
  }
  return [el("details", {}, el("summary", { class: "message" }, `${text.slice(0, long)} …`), el("p", { class: "message whole" }, text), list)];
}

// rows are the rows of results; choose is told of a resource, as namespace/Kind/name, and of a policy.
export function rows(results, choose) {
  return results.map((result) => {
    const { namespace = "", kind = "", name = "" } = result.resource;
    const whole = `${namespace ? `${namespace}/` : ""}${kind}/${name}`;
    return el("tr", {},
      el("td", {}, el("span", { class: `badge badge-${result.result}` }, result.result)),
      el("td", {}, el("button", { type: "button", class: "choose", title: `Show only ${whole}`, onclick: () => choose({ resource: whole }) }, `${kind}/${name}`),
        el("div", { class: "sub" }, shownNamespace(namespace))),
      el("td", {}, el("button", { type: "button", class: "choose", title: `Show only ${result.policy}`, onclick: () => choose({ policy: result.policy }) }, result.policy),
        el("div", { class: "sub" }, result.rule ?? "", " ", result.severity ? el("span", { class: `severity severity-${result.severity}` }, result.severity) : null)),
      el("td", { class: "words" }, message(result)),
      el("td", { class: "number sub" }, result.seconds ? el("time", { datetime: new Date(result.seconds * 1000).toISOString(), title: new Date(result.seconds * 1000).toLocaleString() }, ago(result.seconds)) : "–"));
  });
}

// table is an empty table for rows, and where they go.
export function table() {
  const body = el("tbody");
  const head = ["Result", "Resource", "Policy and rule", "Message", "Since"].map((name, i) => el("th", { scope: "col", class: i === 4 ? "number" : undefined }, name));
  return { body, node: el("table", { class: "results" }, el("thead", {}, el("tr", {}, head)), body) };
}
