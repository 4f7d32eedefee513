// What the pages do beyond HTML: they are kept up to date by one stream, rows are reached by keys, and updates wait
// while a person selects, drags or types. Everything else works without this file.

const $ = (id) => document.getElementById(id);
const content = $("content"), trouble = $("trouble"), pauseButton = $("pause"), help = $("help");
const live = document.body.dataset.view;
document.documentElement.dataset.scripts = ""; // shows what needs them

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
  trouble.hidden = true;
  say();
}

// morph makes the children of one element like those of another. What has an id, or stands in the same place with the
// same tag, stays the same element, so that focus, open details and the place of the scroll are kept.
function morph(to, from) {
  let at = to.firstChild;
  for (const want of [...from.childNodes]) {
    if (idOf(want)) {
      const there = document.getElementById(idOf(want));
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

// A form's property id is its field of that name, if it has one.
function idOf(node) { return node.getAttribute?.("id") || ""; }

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && idOf(a) === idOf(b);
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

// --- moving a group to another place ----------------------------------------------------------------------------

// A row is dragged by its handle, or moved by the arrow keys when that has the focus. A drop sends the page's form; the
// server looks again, and moves the group or says why not. Without scripts there is the link Move.

let drag; // the row, and the one before which it would come

function others(row) { return [...row.parentNode.rows].filter((r) => r !== row); }

function take(row) {
  drag = { row };
  row.classList.add("dragged");
  document.body.classList.add("dragging");
}

function mark(before) {
  drag.before = before;
  for (const r of content.querySelectorAll("[data-drop]")) r.removeAttribute("data-drop");
  before?.setAttribute("data-drop", "");
}

function drop(done) {
  if (!drag) return;
  const { row, before } = drag, form = $("move");
  mark();
  drag = undefined;
  row.classList.remove("dragged");
  document.body.classList.remove("dragging");
  $("moving").textContent = "";
  if (done && before && before !== row.nextElementSibling) {
    form.elements.id.value = row.id.slice(1);
    form.elements.before.value = before.id.slice(1);
    form.submit();
  } else if (waiting) {
    show(waiting);
  }
}

content.addEventListener("pointerdown", (e) => {
  const grip = e.target.closest(".grip"), row = grip?.closest("tr");
  if (!grip || e.button) return;
  e.preventDefault();
  grip.setPointerCapture(e.pointerId);
  take(row);
  grip.onpointermove = (move) => drag && mark(others(row).find((r) => {
    const box = r.getBoundingClientRect();
    return move.clientY < box.top + box.height / 2;
  }));
  grip.onpointerup = () => drop(true);
  grip.onpointercancel = () => drop(false);
});

content.addEventListener("keydown", (e) => {
  const row = e.target.closest(".grip")?.closest("tr");
  if (!row || !/^(ArrowUp|ArrowDown|Enter| )$/.test(e.key)) return;
  e.preventDefault();
  if (!e.key.startsWith("Arrow")) return drop(true);
  if (!drag) take(row);
  const list = others(row), now = list.indexOf(drag.before || row.nextElementSibling);
  const at = Math.max((now < 0 ? list.length : now) + (e.key === "ArrowUp" ? -1 : 1), 0);
  if (at >= list.length) return;
  mark(list[at]);
  list[at].scrollIntoView({ block: "nearest" });
  $("moving").textContent = "before " + list[at].querySelector(".name").textContent;
});

content.addEventListener("focusout", (e) => { if (e.target.matches(".grip")) drop(false); });
addEventListener("keydown", (e) => { if (e.key === "Escape") drop(false); });

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

// On a narrow screen the navigation is one line, of which the own part is to be seen.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

const keysButton = $("keys");
keysButton.hidden = false;
keysButton.onclick = () => help.showModal();
