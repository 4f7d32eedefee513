// What the pages do beyond HTML: they are kept up to date by one stream, rows are reached by keys, and updates wait
// while a person selects, drags or types. Everything else works without this file.

const $ = (id) => document.getElementById(id);
const content = $("content"), trouble = $("trouble"), pauseButton = $("pause"), help = $("help");
const live = document.body.dataset.view;

// --- updates -----------------------------------------------------------------------------------------------------

let paused = false; // by the person
let waiting = null; // what came meanwhile
let version = document.body.dataset.version;

// busy tells whether a person is doing something that an update would spoil.
function busy() {
  const s = getSelection(), at = document.activeElement;
  return document.body.classList.contains("dragging") || help.open ||
    (s && !s.isCollapsed && content.contains(s.anchorNode)) ||
    (content.contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName));
}

function show(html) {
  waiting = html;
  if (paused || busy()) return say();
  waiting = null;
  const next = new DOMParser().parseFromString(html, "text/html").body;
  morph(content, next);
  grips();
  trouble.hidden = true;
  say();
}

// morph makes the children of one element like those of another. What has an id, or stands in the same place with the
// same tag, stays the same element, so that focus, open details and the place of the scroll are kept.
function morph(to, from) {
  let at = to.firstChild;
  for (const want of [...from.childNodes]) {
    if (want.id) {
      const there = document.getElementById(want.id);
      if (there && there.parentNode === to && there !== at) to.insertBefore(there, at), at = there;
    }
    while (at && at.nodeType !== 1 && want.nodeType === 1) {
      const text = at;
      at = at.nextSibling;
      text.remove();
    }
    if (at && alike(at, want)) {
      const done = at;
      at = at.nextSibling;
      if (done.nodeType !== 1) {
        if (done.nodeValue !== want.nodeValue) done.nodeValue = want.nodeValue;
      } else if (!done.isEqualNode(want)) {
        attributes(done, want);
        morph(done, want);
      }
    } else {
      to.insertBefore(want, at);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
}

function attributes(a, b) {
  const kept = a.nodeName === "DETAILS" ? ["open"] : a.nodeName === "INPUT" ? ["value"] : [];
  for (const { name } of [...a.attributes]) if (!b.hasAttribute(name) && !kept.includes(name) && name !== "data-at") a.removeAttribute(name);
  for (const { name, value } of [...b.attributes]) if (a.getAttribute(name) !== value && !kept.includes(name)) a.setAttribute(name, value);
}

let state = "live";

function say() {
  if (!pauseButton) return;
  const word = paused ? "Paused" : waiting ? "Waits for you" : { live: "Live", polls: "Live", lost: "Connecting" }[state];
  pauseButton.dataset.state = paused ? "paused" : waiting ? "waits" : state;
  pauseButton.querySelector(".word").textContent = word;
  pauseButton.setAttribute("aria-pressed", String(paused));
  pauseButton.title = paused ? "Go on with the updates" : "Stop the updates";
}

function pause() {
  paused = !paused;
  if (!paused && waiting) show(waiting);
  say();
}

function tell(text) {
  trouble.textContent = text;
  trouble.hidden = false;
}

// params is what the stream has to know of this page.
function params() {
  const p = new URLSearchParams(location.search);
  p.set("view", live);
  p.set("since", version);
  return p;
}

let source, failures = 0, timer;

function connect() {
  source = new EventSource("stream?" + params());
  source.onopen = () => { failures = 0; state = "live"; say(); };
  source.addEventListener("main", (e) => show(e.data));
  source.addEventListener("trouble", (e) => tell(e.data));
  source.addEventListener("refused", (e) => { tell(e.data); source.close(); });
  source.onerror = () => {
    state = "lost";
    say();
    // A stream that cannot be opened, because of a proxy or of too many pages, is replaced by questions.
    if (++failures < 3 && source.readyState !== EventSource.CLOSED) return;
    source.close();
    poll();
  };
}

async function poll() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const answer = await fetch("part?" + params(), { headers: { "X-Requested-With": "console" } });
    const text = await answer.text();
    if (answer.ok) {
      version = answer.headers.get("X-Version") || version;
      state = "polls";
      show(text);
    } else {
      tell(text);
    }
  } catch {
    state = "lost";
    tell("The console cannot be reached. The page tries again.");
  }
  say();
  timer = setTimeout(poll, 5000);
}

// A page that is not seen needs no stream; browsers have few connections for all pages of a site.
function visible() {
  clearTimeout(timer);
  source?.close();
  if (document.hidden) return;
  failures = 0;
  connect();
}

if (live !== undefined) {
  pauseButton.hidden = false;
  pauseButton.onclick = pause;
  say();
  connect();
  document.addEventListener("visibilitychange", visible);
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", (e) => { if (e.persisted) visible(); });
  for (const name of ["selectionchange", "focusout"]) {
    document.addEventListener(name, () => setTimeout(() => { if (waiting && !paused && !busy()) show(waiting); }, 300));
  }
}

// --- dragging a group to another place --------------------------------------------------------------------------

// A group is moved by a promotion, so it can come before all groups that are not promoted, in any order among those
// that are. The server shows what will happen and asks; the same form is there without dragging.

let drag; // the row, where it would come, and with which level

function grips() {
  for (const row of content.querySelectorAll("tr[data-promote]")) {
    if (row.querySelector(".grip")) continue;
    const grip = document.createElement("button");
    grip.type = "button";
    grip.className = "grip";
    grip.tabIndex = -1; // by keyboard there is the link Promote
    grip.textContent = "\u283f";
    grip.title = "Drag to promote";
    grip.setAttribute("aria-hidden", "true");
    grip.onpointerdown = (e) => take(e, row, grip);
    row.cells[0].prepend(grip);
  }
}

function take(e, row, grip) {
  e.preventDefault();
  grip.setPointerCapture(e.pointerId);
  drag = { row };
  row.classList.add("dragged");
  document.body.classList.add("dragging");
  grip.onpointermove = (move) => mark(move.clientY);
  grip.onpointerup = () => drop(true);
  grip.onpointercancel = () => drop(false);
}

// place finds where a row that is dropped at a height can come, and the level that brings it there.
function place(y, row) {
  const others = [...row.parentNode.rows].filter((r) => r !== row && r.cells.length > 1);
  const promoted = others.filter((r) => r.dataset.level !== undefined);
  let at = promoted.findIndex((r) => { const box = r.getBoundingClientRect(); return y < box.top + box.height / 2; });
  if (at < 0) at = promoted.length;
  const level = at > 0 ? +promoted[at - 1].dataset.level : promoted.length ? Math.min(+promoted[0].dataset.level + 1, 255) : 100;
  while (at < promoted.length && +promoted[at].dataset.level >= level) at++; // equal levels come in the order of their promotion
  return { before: others[at], level };
}

function mark(y) {
  if (!drag) return;
  Object.assign(drag, place(y, drag.row));
  for (const r of content.querySelectorAll("[data-drop]")) r.removeAttribute("data-drop");
  drag.before?.setAttribute("data-drop", "");
}

function drop(done) {
  if (!drag) return;
  const { row, level } = drag;
  drag = undefined;
  row.classList.remove("dragged");
  document.body.classList.remove("dragging");
  for (const r of content.querySelectorAll("[data-drop]")) r.removeAttribute("data-drop");
  if (done && level !== undefined) location.assign(row.dataset.promote + "&level=" + level);
  else if (waiting) show(waiting);
}

addEventListener("keydown", (e) => { if (e.key === "Escape") drop(false); });
grips();

// --- keys --------------------------------------------------------------------------------------------------------

function rows() { return [...content.querySelectorAll("[data-row]")]; }

function step(by) {
  const list = rows();
  if (!list.length) return;
  const now = list.findIndex((row) => row.hasAttribute("data-at"));
  const next = now < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(Math.max(now + by, 0), list.length - 1);
  list[now]?.removeAttribute("data-at");
  list[next].setAttribute("data-at", "");
  list[next].scrollIntoView({ block: "nearest" });
  const link = list[next].querySelector("a[href], summary, button:not(.grip)");
  if (link) link.focus({ preventScroll: true });
}

const keys = {
  "/": () => $("q").select(),
  j: () => step(1),
  k: () => step(-1),
  g: () => location.assign("./"),
  p: () => { if (live !== undefined) pause(); },
  "?": () => help.showModal(),
};

addEventListener("keydown", (e) => {
  const at = e.target;
  if (e.key === "Escape" && at === $("q")) return at.blur();
  if (e.ctrlKey || e.metaKey || e.altKey || help.open || /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) return;
  const act = keys[e.key];
  if (act) {
    e.preventDefault();
    act();
  }
});

const keysButton = $("keys");
keysButton.hidden = false;
keysButton.onclick = () => help.showModal();
