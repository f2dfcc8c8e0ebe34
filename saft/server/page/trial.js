// Something new to try: what would the model say? It can be kept, and waits in the queue then.

import { $, fill, make } from "./dom.js";
import { careful, tell } from "./messages.js";
import { bars, chip, legend, reasons, said } from "./pieces.js";
import { open } from "./panel.js";
import { load } from "./queue.js";
import { post } from "./server.js";
import { mayReview, recount } from "./session.js";

const asked = () => Object.fromEntries(new FormData($("#ask")));

const ask = careful(async () => {
  const given = asked();
  fill($("#answer"), make("p", { class: "empty" }, "…"));
  const [explained, told] = await Promise.all([post("explain", given), post("predict", { interactions: [given] })])
    .catch((error) => { fill($("#answer")); throw error; });
  const [one] = told.predictions;
  fill($("#answer"),
    make("h2", {}, chip(explained.label, true)),
    make("p", { class: "meta" }, `${one.known_user ? "a known" : "a new"} user, ${one.known_item ? "a known" : "a new"} item`),
    said(given.text, explained), given.text ? legend(explained) : null,
    make("h3", {}, "Probabilities"), bars(explained.probabilities), ...reasons(explained));
});

const keep = careful(async () => {
  if (!$("#ask").reportValidity()) return;
  const { ids } = await post("interactions", { interactions: [asked()] });
  recount();
  await load();
  await open(ids[0]);
  location.hash = `#/review/${ids[0]}`;
  tell("Kept. It waits in the queue.");
});

export function start() {
  $("#keep").hidden = !mayReview();
  $("#keep").addEventListener("click", keep);
  $("#ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
}
