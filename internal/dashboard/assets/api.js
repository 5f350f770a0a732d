// What the page asks the server. The token is in this variable and nowhere else: no cookie, no storage.

let token = "";

export function setToken(text) {
  token = text.trim();
}

export function hasToken() {
  return token !== "";
}

// Refused says why the server does not answer; status is that of HTTP, 0 without any answer.
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function get(path, parameters, signal) {
  const query = new URLSearchParams(parameters).toString();
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(`api/v1/${path}${query ? `?${query}` : ""}`, { headers, signal, credentials: "omit", cache: "no-store", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The dashboard does not answer.");
  }
  if (response.ok) return response.json();
  let text = `The dashboard answers ${response.status}.`;
  try {
    text = String((await response.json()).error);
  } catch {
    // It is no answer of ours: a proxy's, perhaps.
  }
  throw new Refused(response.status, text);
}

export const state = (signal) => get("state", [], signal);
export const report = (parameters, signal) => get("report", parameters, signal);
export const trend = (parameters, signal) => get("trend", parameters, signal);
export const results = (parameters, signal) => get("results", parameters, signal);
