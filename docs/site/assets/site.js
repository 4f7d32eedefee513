"use strict";
const root = document.body.dataset.root;
const byId = (id) => document.getElementById(id);

byId("ui-theme").onclick = () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("theme", theme); } catch { /* a page opened as a file may not store */ }
};

byId("ui-menu").onclick = (e) => {
  const open = byId("ui-contents").classList.toggle("open");
  e.currentTarget.setAttribute("aria-expanded", open);
};

const input = byId("ui-search"), results = byId("ui-results");
let chosen = -1;

// rank is how well an entry fits all words; 0: it does not.
function rank(entry, words) {
  let sum = 0;
  for (const w of words) {
    const title = entry.t.toLowerCase(), page = entry.p.toLowerCase();
    if (title.split(/\W+/).some((x) => x.startsWith(w))) sum += 8;
    else if (title.includes(w) || page.includes(w)) sum += 4;
    else if (entry.x.toLowerCase().includes(w)) sum += 1;
    else return 0;
  }
  return entry.u.startsWith("decisions/") ? sum / 10 : sum; // how it is comes before why it was chosen
}

// marked is a part of the text around the first word, as nodes with the words marked.
function marked(text, words) {
  const low = text.toLowerCase();
  const at = Math.max(0, Math.min(...words.map((w) => low.indexOf(w)).filter((i) => i >= 0), Infinity));
  const from = at === Infinity ? 0 : Math.max(0, at - 50);
  const part = (from > 0 ? "…" : "") + text.slice(from, from + 150);
  const node = document.createElement("small");
  const pattern = new RegExp("(" + words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|") + ")", "gi");
  for (const [i, piece] of part.split(pattern).entries()) {
    if (i % 2 === 0) { node.append(piece); continue; }
    const m = document.createElement("mark");
    m.textContent = piece;
    node.append(m);
  }
  return node;
}

function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  chosen = -1;
  results.replaceChildren();
  results.hidden = words.length === 0;
  if (results.hidden) return;
  const found = window.parleyIndex.map((e) => [rank(e, words), e]).filter(([r]) => r > 0);
  found.sort((a, b) => b[0] - a[0]);
  for (const [, e] of found.slice(0, 20)) {
    const a = document.createElement("a");
    a.href = root + e.u;
    a.append(e.t === e.p ? e.t : e.p + " › " + e.t, marked(e.x, words));
    const li = document.createElement("li");
    li.append(a);
    results.append(li);
  }
  if (found.length === 0) results.append("Nothing found.");
}

input.oninput = search;
input.onkeydown = (e) => {
  const links = [...results.querySelectorAll("a")];
  if (e.key === "ArrowDown" || e.key === "ArrowUp") {
    e.preventDefault();
    if (links.length === 0) return;
    chosen = (chosen + (e.key === "ArrowDown" ? 1 : links.length - 1 + (chosen < 0 ? 1 : 0))) % links.length;
    links.forEach((a, i) => a.setAttribute("aria-selected", i === chosen));
    links[chosen].scrollIntoView({ block: "nearest" });
  } else if (e.key === "Enter" && links.length > 0) {
    location.href = links[Math.max(chosen, 0)].href;
    results.hidden = true;
  } else if (e.key === "Escape") {
    results.hidden = true;
  }
};
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { e.preventDefault(); input.focus(); }
});
document.addEventListener("click", (e) => { if (!e.target.closest(".search")) results.hidden = true; });

const asked = new URLSearchParams(location.search).get("q"); // …?q=words opens the search
if (asked) { input.value = asked; search(); }
