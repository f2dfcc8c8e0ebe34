// Keys act on what is shown at the moment of the key. One that is held down counts once.

import { $ } from "./dom.js";
import { choices, choose, hasMany, narrow } from "./bar.js";
import { move } from "./queue.js";
import { review } from "./review.js";
import { reject, undo } from "./verdicts.js";

const accept = () => { if (review.here?.predicted) choose(review.here.predicted); };

function actionOf(key) {
  const always = { Backspace: undo, " ": () => move(1), ArrowDown: () => move(1), ArrowUp: () => move(-1) };
  if (always[key]) return always[key];
  const number = /^[1-9]$/.test(key) ? choices()[Number(key) - 1] : undefined;
  if (number !== undefined) return () => choose(number);
  if (hasMany()) {
    if (key === "Enter") return accept;
    return /^\p{L}$/u.test(key) ? () => narrow(key) : null;
  }
  return { a: accept, x: reject, n: () => $("#note").focus() }[key] ?? null;
}

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select, dialog") || document.querySelector("dialog[open]")) return;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || $("#review").hidden) return;
  if ((event.key === " " || event.key === "Enter") && event.target.closest("button, a, summary, [role=link]")) return;
  const action = review.here || event.key === "Backspace" ? actionOf(event.key) : null;
  if (!action) return;
  event.preventDefault();
  if (!event.repeat || event.key.startsWith("Arrow")) action();
});
