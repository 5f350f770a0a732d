// What is shown, kept in the part of the address after #, which never leaves the browser: so it can be shared, and the
// browser's Back works.

export const statuses = ["fail", "error", "warn", "skip", "pass"];
export const violations = ["fail", "error", "warn"];
export const severities = ["critical", "high", "medium", "low", "info"];

// outside is the value of the namespace filter for what lies in no namespace; no namespace has such a name.
export const outside = "(cluster)";

// page is the page that the address names; the first one without a name.
export function page() {
  const name = new URLSearchParams(location.hash.slice(1)).get("page");
  return ["decisions", "exceptions", "impact"].includes(name) ? name : "reports";
}

const names = ["namespace", "policy", "severity", "resource"];

export function read() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const filter = { results: parameters.getAll("result").filter((s) => statuses.includes(s)) };
  for (const name of names) filter[name] = parameters.get(name) ?? "";
  return filter;
}

export function write(filter) {
  const parameters = new URLSearchParams();
  for (const name of names) if (filter[name]) parameters.set(name, filter[name]);
  for (const s of filter.results) parameters.append("result", s);
  const text = parameters.toString();
  if (location.hash.slice(1) !== text) location.hash = text;
}

export const shownNamespace = (name) => name === "" ? outside : name;
export const shownSeverity = (name) => name === "" ? "none" : name;

// matches tells whether a cell is chosen; a dimension named in besides is not looked at, so that a table of policies still
// shows the others while one is chosen.
export function matches(filter, cell, besides) {
  return (besides === "namespace" || !filter.namespace || filter.namespace === shownNamespace(cell.namespace)) &&
    (besides === "policy" || !filter.policy || filter.policy === cell.policy) &&
    (!filter.severity || filter.severity === shownSeverity(cell.severity));
}

// parameters are the filter as the server takes it; without a choice of results those are asked for that are not in order.
export function parameters(filter) {
  const out = [];
  if (filter.namespace === outside) out.push(["scope", "cluster"]);
  else if (filter.namespace) out.push(["namespace", filter.namespace]);
  if (filter.policy) out.push(["policy", filter.policy]);
  if (filter.severity) out.push(["severity", filter.severity]);
  if (filter.resource) out.push(["resource", filter.resource]);
  for (const s of filter.results.length ? filter.results : violations) out.push(["result", s]);
  return out;
}

// trendParameters choose the part of the trend that there is: it is kept by namespace.
export function trendParameters(filter) {
  if (filter.namespace === outside) return [["scope", "cluster"]];
  return filter.namespace ? [["namespace", filter.namespace]] : [];
}
