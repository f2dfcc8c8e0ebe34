// The verdict bar: a button per class with its key, a filter where there are many, a note, and back.

import { $, fill, make } from "./dom.js";
import { chip } from "./pieces.js";
import { move } from "./queue.js";
import { review, whenShown } from "./review.js";
import { mayReview, session } from "./session.js";
import { decide, noteOn, undo, write } from "./verdicts.js";

const KEYS = 9;
const filter = $("#narrow");
const note = $("#note");

export const hasMany = () => session.classes.length > KEYS;

// With many classes the most likely ones come first; few keep their places, which fingers remember.
function ordered() {
  if (!hasMany()) return session.classes;
  const likely = review.here?.probabilities ?? {};
  return [...session.classes].sort((one, other) => (likely[other] ?? 0) - (likely[one] ?? 0));
}

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

// The classes that are to be seen; the key 1 stands for the first one, and so on.
export function choices() {
  const parts = plain(hasMany() ? filter.value : "").split(/\s+/);
  return ordered().filter((name) => parts.every((part) => plain(name).includes(part)));
}

function keysOf(name, place) {
  const others = session.classes.filter((other) => other !== review.here?.predicted);
  const number = place < KEYS ? String(place + 1) : null;
  if (hasMany()) return [number, place === 0 && filter.value ? "enter" : null];
  return [number, name === review.here?.predicted ? "a" : others.length === 1 ? "x" : null];
}

function button(name, place) {
  const keys = keysOf(name, place).filter((key) => key !== null);
  return make("button", {
    type: "button", "aria-pressed": String(review.here.label === name), "data-class": name, onclick: () => choose(name),
    class: name === review.here.predicted ? "likely" : null,
  }, ...keys.map((key) => make("kbd", {}, key)), chip(name));
}

export function choose(name) {
  filter.value = "";
  filter.blur();
  draw();
  decide(name);
}

export function narrow(letter) {
  filter.focus();
  filter.value += letter;
  draw();
}

export function draw() {
  $("#bar").hidden = review.here === null || !mayReview();
  if ($("#bar").hidden) return;
  filter.hidden = !hasMany();
  const found = choices();
  fill($("#choices"), ...found.map(button), found.length ? null : make("span", { class: "empty" }, "No class is called so."));
}

whenShown((one) => {
  filter.value = "";
  note.value = one === null ? "" : noteOn(one.id);
  draw();
});

filter.addEventListener("input", draw);
filter.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    filter.value = "";
    filter.blur();
    draw();
  }
  if (event.key !== "Enter" || event.isComposing || event.repeat || !filter.value.trim()) return;
  event.preventDefault();
  const [only] = choices();
  if (only !== undefined) choose(only);
});
note.addEventListener("input", () => { if (review.here) write(review.here.id, note.value); });
note.addEventListener("keydown", (event) => {
  if ((event.key !== "Enter" && event.key !== "Escape") || event.isComposing) return;
  event.preventDefault();
  note.blur();
});
$("#skip").addEventListener("click", () => move(1));
$("#undo").addEventListener("click", undo);
