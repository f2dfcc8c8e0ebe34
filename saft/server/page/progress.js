// Progress: verdicts per day and per reviewer, how far they agree, and the score of the model on what was judged.

import { $, counted, fill, make, moment, named, percent } from "./dom.js";
import { careful } from "./messages.js";
import { chip } from "./pieces.js";
import { get } from "./server.js";

const DAYS = 28;

export const drawProgress = careful(async () => {
  const [progress, agreement, model] = await Promise.all([get("progress"), get("agreement"), get("model")]);
  const all = model.open + model.reviewed;
  fill($("#progress"),
    make("section", { class: "wide" }, make("h2", {}, "How far it is"),
      make("p", { class: "figure" }, make("b", {}, model.reviewed.toLocaleString()), ` of ${all.toLocaleString()} decided`),
      make("span", { class: "track" }, make("span", { class: "fill", "--share": `${all ? (100 * model.reviewed) / all : 0}%` }))),
    make("section", { class: "wide" }, make("h2", {}, "Verdicts per day"), days(progress.days)),
    make("section", {}, make("h2", {}, "Reviewers"), reviewers(progress.reviewers)),
    make("section", {}, make("h2", {}, "How far they agree"), ...agreed(agreement, model)),
    make("section", {}, make("h2", {}, "The model on what was judged"), ...scores(progress.model)));
});

const none = (text) => make("p", { class: "empty" }, text);

function days(found) {
  if (!found.length) return none("No verdicts yet.");
  const counts = new Map(found.map(({ day, verdicts }) => [day, verdicts]));
  const last = Date.parse(found.at(-1).day);
  const shown = Array.from({ length: DAYS }, (_, back) => new Date(last - (DAYS - 1 - back) * 86_400_000).toISOString().slice(0, 10));
  const most = Math.max(...shown.map((day) => counts.get(day) ?? 0));
  return make("div", { class: "days", role: "list" }, ...shown.map((day) => {
    const count = counts.get(day) ?? 0;
    return make("div", { role: "listitem", title: `${day}: ${counted(count, "verdict")}` },
      make("span", { class: "count" }, count ? count.toLocaleString() : ""),
      make("span", { class: "pile", "--share": `${(100 * count) / most}%` }),
      make("time", { datetime: day }, day.slice(8)));
  }));
}

function table(headings, rows) {
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...headings.map((heading) => make("th", { scope: "col" }, heading)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell)))))));
}

function reviewers(found) {
  if (!found.length) return none("Nobody has judged anything yet.");
  return table(["name", "verdicts", "last"], found.map((one) => [
    named(one.name ?? "without a name"), one.verdicts.toLocaleString(), moment(one.last)]));
}

function agreed(found, model) {
  const asks = model.second_opinion ? `Second opinions are asked for on ${percent(model.second_opinion)} of the interactions. ` : "";
  if (!found.judged_twice) return [none(`${asks}Nothing was judged by two reviewers yet.`)];
  const facts = [["judged by several", found.judged_twice.toLocaleString()], ["disputed now", found.disputed.toLocaleString()],
    ["Krippendorff's alpha", figure(found.alpha)]];
  const pairs = found.pairs.map((pair) => [
    make("span", {}, named(pair.reviewers[0] || "without a name"), " and ", named(pair.reviewers[1] || "without a name")),
    `${pair.agreed} of ${pair.both}`, figure(pair.kappa)]);
  return [list(facts), table(["reviewers", "agreed", "Cohen's kappa"], pairs), asks ? none(asks) : null].filter(Boolean);
}

const figure = (value) => (value === null ? "not defined" : value.toFixed(2));
export const list = (rows) => make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

function scores(found) {
  if (!found.judged) return [none("Nothing was judged yet that it was not trained on.")];
  const rows = found.classes.filter((one) => one.judged || one.predicted).map((one) => [
    chip(one.name), one.judged.toLocaleString(), percent(one.precision), percent(one.recall)]);
  return [
    make("p", { class: "figure" }, make("b", {}, percent(found.accuracy)), ` of ${found.judged.toLocaleString()} as the reviewers said`),
    none(`95 % interval: ${percent(found.low)} to ${percent(found.high)}; Macro-F1 ${percent(found.macro_f1)}. `
      + "Of those that it was not trained on. Which ones were judged is no fair sample: the queue shows suspicious or uncertain ones first."),
    table(["class", "judged so", "precision", "recall"], rows)];
}
