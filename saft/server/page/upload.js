// A table of interactions → the queue, with the messages of the server.

import { $, counted, fill, make, named } from "./dom.js";
import { load } from "./queue.js";
import { upload } from "./server.js";
import { introduced, isNamed, mayReview, recount } from "./session.js";

const ENDINGS = /\.(csv|tsv|tab|txt|jsonl|ndjson|json|parquet|pq)(\.gz|\.zst)?$/i;
const place = $("#uploaded");

async function send(file) {
  const ending = file.name.match(ENDINGS);
  if (!ending) throw new Error("This is not a table that can be read. CSV, TSV, JSON lines and Parquet can, also as .gz or .zst.");
  const stem = file.name.slice(0, ending.index).replace(/[^\p{L}\p{N}_ .()+-]/gu, "_").slice(0, 100);
  return upload(`interactions/upload?name=${encodeURIComponent(stem + ending[0].toLowerCase())}`, file);
}

async function take(file) {
  if (!isNamed()) await introduced();
  fill(place, make("p", {}, "Reading ", named(file.name), " …"));
  try {
    const { ids, known, notes } = await send(file);
    const left = known ? `, ${counted(known, "row was", "rows were")} known already` : "";
    fill(place, make("p", {}, `${counted(ids.length, "interaction")} added${left}.`), ...notes.map((note) => make("p", { class: "note", dir: "auto" }, note)), gone());
    recount();
    await load();
  } catch (error) {
    fill(place, make("p", { class: "wrong", role: "alert", dir: "auto" }, make("strong", {}, "Nothing was added. "), error.message), gone());
  }
}

const gone = () => make("button", { type: "button", onclick: () => fill(place) }, "Close");

export function start() {
  $("#add").hidden = !mayReview();
  $("#file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    $("#add").classList.add("busy");
    if (file) await take(file);
    event.target.value = ""; // the same file can be chosen again, after it was mended
    $("#add").classList.remove("busy");
  });
}
