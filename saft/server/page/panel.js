// One interaction: its text at once, what moved its prediction as soon as that is known, and its history.

import { $, fill, make, named, moment } from "./dom.js";
import { drawAround } from "./around.js";
import { careful } from "./messages.js";
import { bars, chip, legend, reasons, said } from "./pieces.js";
import * as queue from "./queue.js";
import { review, show, whenShown } from "./review.js";
import { get } from "./server.js";
import { whenStored } from "./verdicts.js";

const DWELL = 150; // milliseconds: who goes through quickly does not make the server explain each
const explanations = new Map(); // id → { one, answer }

let dwelling;

whenShown((one) => {
  clearTimeout(dwelling);
  if (one === null) return drawNothing();
  draw(one, null);
  $("#around").inert = true; // it still shows what was around the one before
  dwelling = setTimeout(() => look(one), DWELL);
  return undefined;
});

const look = careful(async (one) => {
  const near = get(`neighbours/${one.id}?limit=12`).then((found) => { if (isShown(one)) drawAround(found); });
  const explained = await explanation(one);
  await near;
  if (!isShown(one)) return;
  draw(one, explained);
  const next = queue.peek();
  if (next) await explanation(next);
});

const isShown = (one) => review.here?.id === one.id;

function explanation(one) {
  if (!explanations.has(one.id)) {
    const answer = get(`explain/${one.id}`);
    answer.catch(() => explanations.delete(one.id)); // whoever waits for it is told
    explanations.set(one.id, { one, answer });
  }
  return explanations.get(one.id).answer;
}

// A verdict changes what is known around it.
whenStored((judged) => {
  for (const [id, { one }] of explanations) {
    if (judged.some((other) => other.user === one.user || other.item === one.item)) explanations.delete(id);
  }
});

let asked = 0;

// Something that was linked to, perhaps not in the queue.
export const open = careful(async (id) => {
  const ask = ++asked;
  const before = review.here;
  const one = queue.find(id) ?? await get(`interactions/${id}`);
  if (ask === asked && review.here === before) show(one);
});

function drawNothing() {
  fill($("#panel"), make("h2", {}, "Nothing is waiting."),
    make("p", { class: "empty" }, "Interactions that are added over HTTP or as a table appear here, as do rows of training without a label."));
  fill($("#around"));
}

function draw(one, explained) {
  fill($("#panel"),
    make("p", { class: "meta about" }, named(one.user, "strong"), "about", named(one.item, "strong"),
      one.time ? make("span", {}, one.time.replace("T", " ")) : null, make("span", { class: "id" }, one.id)),
    verdictOn(one),
    said(one.text, explained), explained && one.text ? legend(explained) : null,
    make("h3", {}, "Probabilities"), bars(explained?.probabilities ?? one.probabilities),
    ...(explained ? reasons(explained) : []),
    pastOf(one));
}

function verdictOn(one) {
  if (one.label === null && !one.disputed) return null;
  return make("p", { class: "meta" }, one.reviewed ? "decided:" : "label:", one.label === null ? null : chip(one.label),
    one.known_class ? null : make("span", { class: "taken" }, "the model does not have this class"),
    one.disputed ? make("span", { class: "taken" }, "reviewers disagree") : null);
}

// ---- history

function pastOf(one) {
  const box = make("details", { class: "past" }, make("summary", {}, "Verdicts so far"));
  box.addEventListener("toggle", careful(async () => {
    if (!box.open || box.querySelector("ul, p")) return;
    const { verdicts } = await get(`interactions/${one.id}/history`);
    box.append(verdicts.length ? make("ul", {}, ...verdicts.map(verdict)) : make("p", { class: "empty" }, "None."));
  }));
  box.open = one.reviewed || one.disputed;
  return box;
}

function verdict(given) {
  const back = given.taken_back && `taken back ${moment(given.taken_back)}${given.taken_back_by ? ` by ${given.taken_back_by}` : ""}`;
  return make("li", { class: back ? "undone" : null },
    make("span", { class: "meta" }, chip(given.label), named(given.reviewer ?? "without a name"), make("span", {}, moment(given.at)), back ? make("span", {}, back) : null),
    given.note ? make("p", { class: "note", dir: "auto" }, given.note) : null);
}
