// The page: navigation, one address for every view, theme, keyboard, and the admin key.

import { BASE, get, post, signOut, whenSignedOut } from "./api.js";
import { fill, h } from "./dom.js";
import { clock } from "./format.js";
import { setPermission, useToken } from "./permission.js";
import { loading, problem, to } from "./widgets.js";
import * as configuration from "./views/configuration.js";
import * as models from "./views/models.js";
import * as now from "./views/now.js";
import * as playground from "./views/playground.js";
import * as providers from "./views/providers.js";
import * as request from "./views/request.js";
import * as requests from "./views/requests.js";
import * as session from "./views/session.js";
import * as sessions from "./views/sessions.js";
import * as usage from "./views/usage.js";

const VIEWS = { now, requests, sessions, usage, models, providers, playground, configuration };
const ONE = { requests: request, sessions: session };
const KEYS = { n: "now", r: "requests", s: "sessions", u: "usage", m: "models", p: "providers", t: "playground", c: "configuration" };

const main = h("main", { id: "main", tabindex: "-1" });
const live = h("span", { class: "live", role: "status" });
const links = Object.entries(VIEWS).map(([name, view]) => h("a", { href: to(name), "data-view": name }, view.title));
const gone = h("p", { class: "gone", role: "alert" });
let lostAt = null;
let current = null;
let pending = "";

function readAddress() {
  const path = location.pathname.slice(BASE.pathname.length).replace(/\/$/, "");
  const [name, id] = (location.pathname.startsWith(BASE.pathname) ? path : "").split("/");
  const view = id ? ONE[name] ?? request : VIEWS[name] ?? now;
  if (name && !(name in VIEWS)) return { name, view: { title: "Not found", show: showNotFound }, query: new URLSearchParams() };
  return { name: name in VIEWS ? name : "now", id: id && decodeURIComponent(id), view, query: new URLSearchParams(location.search) };
}

async function showNotFound(root) {
  fill(root, h("h1", { tabindex: "-1" }, "There is no such view"), h("p", null, "The address does not belong to a view. ", h("a", { href: to("now") }, "Open Now"), "."));
}

function replaceQuery(values) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  history.replaceState(history.state, "", url);
}

async function showView({ keepFocus = false } = {}) {
  const { name, id, view, query } = readAddress();
  leave();
  const controller = new AbortController();
  const root = (view.staysInPlace && current?.view === view && current.root) || h("div", { class: `view ${name}${id ? " one" : ""}` });
  const context = {
    id, query, view, root, signal: controller.signal, navigate,
    replaceQuery: (values) => context === current && replaceQuery(values),
    reload: () => context === current && showView({ keepFocus: true }),
    setLive: (state) => setLive(state),
    onKey: null,
  };
  current = context;
  context.controller = controller;
  document.title = `${id ?? view.title} · Antiphon`;
  links.forEach((each) => {
    if (each.dataset.view === name) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  });
  const slow = setTimeout(() => context === current && !keepFocus && main.firstChild !== root && fill(main, loading()), 250);
  try {
    context.stop = await view.show(root, context);
    if (context !== current) return context.stop?.();
    if (main.firstChild !== root) fill(main, root);
  } catch (error) {
    if (context !== current) return undefined;
    if (error.name !== "AbortError" && error.status !== 401) fill(main, problem(error, () => showView()));
  } finally {
    clearTimeout(slow);
  }
  if (!keepFocus && !root.contains(document.activeElement)) main.querySelector("h1")?.focus({ preventScroll: true });
  return undefined;
}

function leave() {
  current?.stop?.();
  current?.controller.abort();
  setLive("");
}

/** Show whether figures are live. Without the gateway they are grey, and since when is said. */
function setLive(state) {
  if (state === "offline") lostAt ??= Date.now();
  else lostAt = null;
  live.className = `live ${state}`;
  live.textContent = { live: "live", offline: "reconnecting" }[state] ?? "";
  document.body.classList.toggle("offline", state === "offline");
  gone.textContent = lostAt ? `No connection to the gateway since ${clock(lostAt)}. What is shown is from before.` : "";
}

function navigate(address) {
  const changesView = new URL(address).pathname !== location.pathname;
  history.pushState(null, "", address);
  if (changesView) scrollTo(0, 0);
  showView({ keepFocus: !changesView });
}

function onClick(event) {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || anchor.download) return;
  if (anchor.origin !== location.origin || !anchor.href.startsWith(BASE.href)) return;
  event.preventDefault();
  navigate(anchor.href);
}

function onKey(event) {
  if (event.target.closest("input, textarea, select") || event.metaKey || event.ctrlKey || event.altKey) return;
  if (pending === "g" && KEYS[event.key]) navigate(to(KEYS[event.key]));
  else if (event.key === "?") help.showModal();
  else if (["/", "j", "k", "Escape"].includes(event.key) && !document.querySelector("dialog[open]")) {
    event.preventDefault();
    current?.onKey?.(event.key);
  }
  pending = event.key;
}

const help = h("dialog", { "aria-label": "Keyboard" }, h("h2", null, "Keyboard"), h("dl", { class: "keys" },
  [["g n", "Now"], ["g r", "Requests"], ["g s", "Sessions"], ["g u", "Usage"], ["g m", "Models"], ["g p", "Providers"], ["g t", "Playground"], ["g c", "Configuration"],
    ["j k", "next and previous row or request"], ["Enter", "open the row"], ["Esc", "close the panel, back to the list"], ["/", "search"], ["?", "this help"]]
    .map(([key, meaning]) => h("div", null, h("dt", null, key.split(" ").map((each) => h("kbd", null, each))), h("dd", null, meaning)))),
h("form", { method: "dialog" }, h("button", { autofocus: true }, "Close")));

// The theme: that of the system, unless another one was chosen.

const THEMES = ["system", "light", "dark"];
const themeButton = h("button", { type: "button", class: "quiet", onclick: () => {
  const next = THEMES[(THEMES.indexOf(readTheme()) + 1) % THEMES.length];
  localStorage.setItem("antiphon-theme", next);
  applyTheme();
} });

function readTheme() {
  return localStorage.getItem("antiphon-theme") ?? "system";
}

function applyTheme() {
  document.documentElement.dataset.theme = readTheme();
  themeButton.textContent = `Theme: ${readTheme()}`;
}

// The admin key

function askForKey() {
  leave();
  const message = h("p", { class: "bad-text", role: "alert" });
  const key = h("input", { type: "password", name: "key", required: true, autocomplete: "current-password" });
  const form = h("form", { class: "card sign-in", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await post("session", { key: key.value });
      start();
    } catch (error) {
      message.textContent = error.message;
      key.select();
    }
  } }, h("h1", null, "Antiphon"), h("label", { class: "field" }, h("span", null, "Admin key"), key), message, h("button", { class: "primary" }, "Sign in"),
  h("p", { class: "small muted" }, "It is admin_key in [server] of the configuration. Keys of clients do not work here."));
  fill(document.body, form, toast);
  key.focus();
}

const toast = h("div", { id: "toast", role: "status" });

function makeShell(session) {
  const out = session.needs_key && h("button", { type: "button", class: "quiet", onclick: async () => {
    await signOut();
    askForKey();
  } }, "Sign out");
  return [
    h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "Skip to the content"),
    h("nav", { class: "side", "aria-label": "Views" },
      h("a", { class: "brand", href: to("now") }, h("img", { src: new URL("static/icon.svg", BASE).href, alt: "", width: 24, height: 24 }), "Antiphon", live),
      h("div", { class: "views" }, links),
      h("div", { class: "foot" }, themeButton, h("button", { type: "button", class: "quiet", onclick: () => help.showModal() }, "Keyboard ?"), out,
        h("span", { class: "small muted" }, `version ${session.version}`))),
    h("div", { class: "content" }, gone, main), help, toast];
}

async function start() {
  try {
    await useToken();
    const session = await get("session");
    if (!session.signed_in) return askForKey();
    setPermission(session.may_change);
    fill(document.body, makeShell(session));
    return await showView({ keepFocus: true });
  } catch (error) {
    return fill(document.body, h("main", null, problem(error, start)));
  }
}

// Relative to the first address; the address changes with the view.
const icon = document.querySelector("link[rel=icon]");
icon.setAttribute("href", icon.href);

applyTheme();
whenSignedOut(askForKey);
document.addEventListener("click", onClick);
document.addEventListener("keydown", onKey);
addEventListener("popstate", () => showView());
start();
