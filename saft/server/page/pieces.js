// Pieces of both the review and the trial: classes, probabilities, words and what else moved a prediction.

import { codePoints, make, named, percent, shortened, signed } from "./dom.js";
import { session } from "./session.js";

const MOST_BARS = 9;

export function colour(name) {
  if (name === session.suspicious) return "var(--alarm)";
  return `var(--c${Math.max(session.classes.filter((other) => other !== session.suspicious).indexOf(name), 0) % 7})`;
}

export const chip = (name, guess = false) => make("span", {
  class: guess ? "chip guess" : "chip", "--class": colour(name), title: guess ? "predicted" : "label",
}, named(name));
export const chipOf = (one) => (one.label !== null ? chip(one.label) : one.predicted ? chip(one.predicted, true) : null);

export function bars(probabilities) {
  const rows = Object.entries(probabilities).sort((a, b) => b[1] - a[1]);
  const shown = make("div", { class: "bars" }, ...rows.slice(0, MOST_BARS).flatMap(bar));
  const rest = rows.slice(MOST_BARS);
  if (!rest.length) return shown;
  return make("div", {}, shown, make("details", {}, make("summary", {}, `${rest.length} more`),
    make("div", { class: "bars" }, ...rest.flatMap(bar))));
}

const bar = ([name, share]) => [
  chip(name, true),
  make("span", { class: "track" }, make("span", { class: "fill", "--class": colour(name), "--share": `${100 * share}%` })),
  make("span", { class: "number" }, percent(share)),
];

function marked(text, words) {
  const points = codePoints(text);
  const between = (from, to) => points.slice(from, to).join("");
  const largest = Math.max(0.02, ...words.map((word) => Math.abs(word.effect)));
  const parts = [];
  let from = 0;
  for (const word of words) {
    const strength = (0.75 * Math.abs(word.effect)) / largest;
    parts.push(between(from, word.start), make("mark", {
      "--side": word.effect >= 0 ? "var(--for)" : "var(--against)",
      "--strength": `${strength < 0.06 ? 0 : Math.round(100 * strength)}%`,
      title: `without it: ${signed(-word.effect)} points`,
    }, between(word.start, word.end)));
    from = word.end;
  }
  return [...parts, between(from)];
}

// The text, with the words that moved the prediction once they are known.
export function said(text, explained = null) {
  if (!text) return make("p", { class: "said empty" }, "(no text)");
  return make("p", { class: "said", dir: "auto" }, ...(explained ? marked(text, explained.words) : [text]));
}

function effects(title, rows) {
  if (!rows.length) return [];
  const largest = Math.max(0.02, ...rows.map((row) => Math.abs(row.effect)));
  return [make("h3", {}, title), make("div", { class: "effects" }, ...rows.flatMap((row) => [
    row.what,
    make("span", {
      class: row.effect < 0 ? "scale against" : "scale",
      "--side": row.effect >= 0 ? "var(--for)" : "var(--against)",
      "--share": `${(100 * Math.abs(row.effect)) / largest}%`,
      title: `${signed(row.effect)} points`,
    }, make("b"), make("span", {}, signed(row.effect))),
  ]))];
}

const neighbour = (one) => make("a", { class: "quiet", href: `#/review/${one.id}` },
  one.label !== null ? chip(one.label) : null, " ", named(one.shares === "item" ? one.user : one.item),
  make("span", { class: "meta", dir: "auto" }, shortened(one.text, 70)));

export function legend(explained) {
  return make("p", { class: "legend" },
    make("span", {}, make("i", { "--side": "var(--for)" }), "speaks for ", named(explained.label)),
    make("span", {}, make("i", { "--side": "var(--against)" }), "speaks against it"));
}

export function reasons(explained) {
  return [
    ...effects("What else moved it, in points", explained.features.map((one) => ({ effect: one.effect, what: make("span", {}, one.meaning) }))),
    ...effects("Neighbours that moved it, in points", explained.neighbours.slice(0, 6).map((one) => ({ effect: one.effect, what: neighbour(one) }))),
  ];
}
