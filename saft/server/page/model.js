// The model: what it was trained on, how good it was found to be, and where to read more.

import { $, fill, make, percent } from "./dom.js";
import { careful } from "./messages.js";
import { chip } from "./pieces.js";
import { list } from "./progress.js";
import { get } from "./server.js";
import { mayAdminister } from "./session.js";

const section = (title, rows) => make("section", {}, make("h2", {}, title), list(rows));

export const drawModel = careful(async () => {
  const model = await get("model");
  const number = (name) => model[name].toLocaleString();
  fill($("#model"),
    section("Trained on", ["interactions", "users", "items", "labelled"].map((name) => [name, number(name)])),
    section("On its validation part", [["Macro-F1", percent(model.valid_macro_f1)], ["Micro-F1", percent(model.valid_micro_f1)],
      ["probabilities are off by", percent(model.calibration_error)]]),
    section("In the store", [["interactions", number("stored")], ["waiting for a verdict", number("open")], ["decided", number("reviewed")]]),
    make("section", {}, make("h2", {}, "Classes"), make("p", { class: "meta" }, ...model.classes.map((name) => chip(name))),
      make("p", { class: "empty" }, "The queue puts ", chip(model.suspicious), " first."),
      make("div", { class: "row" },
        make("button", { type: "button", onclick: openReport }, "Open the full report"),
        mayAdminister() ? make("button", { type: "button", onclick: download }, "Download the verdicts") : null),
      make("p", {}, make("a", { href: "docs" }, "HTTP documentation"))));
});

// With a token a plain link would be refused: it does not send one.
const openReport = careful(async () => { window.open(URL.createObjectURL(await get("report"))); });
const download = careful(async () => {
  make("a", { href: URL.createObjectURL(await get("export?format=csv")), download: "verdicts.csv" }).click();
});
