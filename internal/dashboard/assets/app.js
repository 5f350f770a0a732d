// The shell: which page is shown, who is signed in, and when the server is asked.

import * as api from "./api.js";
import { $, el, show } from "./dom.js";
import * as filters from "./filter.js";
import * as decisions from "./decisions.js";
import * as exceptions from "./exceptions.js";
import * as impact from "./impact.js";
import * as reports from "./reports.js";

const every = 30_000; // milliseconds between updates of a page that is looked at
const soon = 2_000; // while the server is not ready

const pages = { reports, decisions, exceptions, impact };

let name = filters.page();
let state = null;
let timer = 0;
let running = null; // the AbortController of what is being asked

function say(text) {
  show($("status"), text);
}

// turn shows the page that the address names.
function turn() {
  $("title").textContent = pages[name].title;
  document.title = `${pages[name].title} · Ephor`;
  for (const other of Object.keys(pages)) {
    $(`page-${other}`).hidden = other !== name;
    if (other === name) $(`to-${other}`).setAttribute("aria-current", "page");
    else $(`to-${other}`).removeAttribute("aria-current");
  }
}

// ready shows the content, once there is some.
function ready() {
  $("login").hidden = true;
  $("content").hidden = false;
  $("refresh").hidden = false;
  $("sign-out").hidden = !api.hasToken();
  $("pages").hidden = !state.decisions && !state.exceptions && !state.impact;
  $("to-decisions").parentNode.hidden = !state.decisions;
  $("to-exceptions").parentNode.hidden = !state.exceptions;
  $("to-impact").parentNode.hidden = !state.impact;
  show($("notices"), pages[name].notices(state).map((text) => el("p", { class: "notice" }, text)));
}

// update asks for everything on the page; keep leaves a list alone that a user reads on in.
async function update(keep) {
  clearTimeout(timer);
  running?.abort();
  const mine = running = new AbortController();
  const { signal } = mine;
  let pause = every;
  $("main").setAttribute("aria-busy", "true");
  try {
    const known = await api.state(signal);
    const said = await pages[name].update(signal, keep, { state: known, ready: () => { state = known; ready(); } });
    if (said) say(said);
  } catch (error) {
    if (error.name === "AbortError") return;
    pause = failed(error);
  }
  if (running !== mine) return;
  $("main").setAttribute("aria-busy", "false");
  if (pause) timer = setTimeout(tick, pause);
}

// failed reports what is wrong, and after how many milliseconds to try again; 0 for not at all.
function failed(error) {
  if (!(error instanceof api.Refused)) throw error;
  if (error.status === 401) {
    signIn(api.hasToken() ? error.message : "");
    return 0;
  }
  say(error.message);
  return error.status === 503 || error.status === 429 ? soon : every;
}

// more runs what a button asks for besides the updates of the page.
async function more(button, ask) {
  button.disabled = true;
  try {
    await ask(running?.signal);
  } catch (error) {
    if (error.name !== "AbortError") failed(error);
  }
  button.disabled = false;
}

function signIn(why) {
  api.setToken("");
  state = null;
  for (const page of Object.values(pages)) page.forget();
  $("content").hidden = $("refresh").hidden = $("sign-out").hidden = $("pages").hidden = true;
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
for (const page of Object.values(pages)) page.begin({ more, failed });
window.addEventListener("hashchange", () => {
  name = filters.page();
  turn();
  pages[name].changed();
  if ($("content").hidden) return;
  update(false);
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && state) update(true); });

turn();
update(false);
