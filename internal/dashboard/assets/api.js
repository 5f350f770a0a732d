// What the page asks the server. The token is in this variable and nowhere else: no cookie, no storage.

let token = "";

export function setToken(text) {
  token = text.trim();
}

export function hasToken() {
  return token !== "";
}

// Refused says why the server does not answer; status is that of HTTP, 0 without any answer, and mistakes are those in a policy.
export class Refused extends Error {
  constructor(status, text, mistakes = []) {
    super(text);
    this.status = status;
    this.mistakes = mistakes;
  }
}

async function ask(path, parameters, signal, body) {
  const query = new URLSearchParams(parameters).toString();
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const request = { headers, signal, credentials: "omit", cache: "no-store", redirect: "error" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    Object.assign(request, { method: "POST", body: JSON.stringify(body) });
  }
  let response;
  try {
    response = await fetch(`api/v1/${path}${query ? `?${query}` : ""}`, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The dashboard does not answer.");
  }
  if (response.ok) return response.json();
  let text = `The dashboard answers ${response.status}.`;
  let mistakes = [];
  try {
    const answer = await response.json();
    text = String(answer.error);
    if (Array.isArray(answer.mistakes)) mistakes = answer.mistakes.map(String);
  } catch {
    // It is no answer of ours: a proxy's, perhaps.
  }
  throw new Refused(response.status, text, mistakes);
}

export const state = (signal) => ask("state", [], signal);
export const report = (parameters, signal) => ask("report", parameters, signal);
export const trend = (parameters, signal) => ask("trend", parameters, signal);
export const results = (parameters, signal) => ask("results", parameters, signal);
export const decisions = (parameters, signal) => ask("decisions", parameters, signal);
export const policies = (parameters, signal) => ask("policies", parameters, signal);
export const exceptions = (signal) => ask("exceptions", [], signal);
export const impact = (body, signal) => ask("impact", [], signal, body);
