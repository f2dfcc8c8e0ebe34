// The review page: starts its parts and moves between the views. No libraries, nothing loaded from elsewhere.

import { $ } from "./dom.js";
import "./keys.js";
import { careful } from "./messages.js";
import { drawModel } from "./model.js";
import { open } from "./panel.js";
import { drawProgress } from "./progress.js";
import * as queue from "./queue.js";
import { review } from "./review.js";
import * as session from "./session.js";
import * as trial from "./trial.js";
import * as upload from "./upload.js";

const VIEWS = ["review", "progress", "try", "model"];

async function visit() {
  const [, asked, id] = location.hash.split("/");
  const view = VIEWS.includes(asked) ? asked : "review";
  for (const main of document.querySelectorAll(".view")) main.hidden = main.id !== view;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view === "model") await drawModel();
  if (view === "progress") await drawProgress();
  if (view === "review" && id && id !== review.here?.id) await open(id);
}

// Filters and queue are folded on a phone.
function fold() {
  const narrow = matchMedia("(max-width: 720px)");
  const set = () => { $("#fold").open = !narrow.matches; };
  narrow.addEventListener("change", set);
  set();
}

function shade() {
  const root = document.documentElement;
  const chosen = localStorage.getItem("theme");
  if (chosen) root.dataset.theme = chosen;
  $("#theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = (root.dataset.theme ?? (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  });
}

$("#who").addEventListener("click", careful(async () => {
  await queue.leave(); // under the name that they were claimed with
  await session.askName();
  await queue.load({ anew: true });
}));
window.addEventListener("hashchange", visit);

fold();
shade();
await careful(async () => {
  await session.start();
  queue.start();
  upload.start();
  trial.start();
  await visit();
  await queue.load();
})();
