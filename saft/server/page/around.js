// The neighbourhood: users on the left, items on the right, interactions between them; then their texts.

import { $, counted, fill, make, named, shortened } from "./dom.js";
import { chipOf, colour } from "./pieces.js";
import { review } from "./review.js";
import { mayReview, session } from "./session.js";
import { decideAll } from "./verdicts.js";

const [LEFT, RIGHT, WIDTH, STEP] = [120, 280, 400, 34];

export function drawAround(near) {
  const here = near.interaction;
  $("#around").inert = false;
  fill($("#around"),
    make("h2", {}, "Around it"),
    graph(near),
    make("p", { class: "legend" }, "solid: label known, dashed: predicted; the bold line is this one"),
    list(["What else ", named(here.user), " wrote"], near.by_user, (one) => one.item, allOf("user", here.user, near.open_by_user)),
    list(["What others wrote about ", named(here.item)], near.by_item, (one) => one.user, allOf("item", here.item, near.open_by_item)));
}

function list(title, rows, other, all) {
  return make("section", {}, make("h3", {}, ...title), all,
    rows.length
      ? make("ul", { class: "others" }, ...rows.map((one) => make("li", {}, make("a", { class: "quiet", href: `#/review/${one.id}`, "data-id": one.id },
        make("span", { class: "meta" }, chipOf(one), named(other(one))), make("span", { class: "excerpt", dir: "auto" }, one.text || "(no text)")))))
      : make("p", { class: "empty" }, "Nothing."));
}

// One verdict on everything that is open there.
function allOf(side, name, open) {
  if (open < 2 || !mayReview()) return null;
  const choice = make("select", { "aria-label": "The class of all of them" }, make("option", { value: "" }, "choose a class …"),
    ...session.classes.map((label) => make("option", { value: label, dir: "auto" }, label)));
  const button = make("button", { type: "submit", disabled: true }, "Judge all");
  choice.addEventListener("change", () => { button.disabled = !choice.value; });
  const form = make("form", { class: "all", "data-side": side }, make("span", {}, `All ${counted(open, "open one", "open ones")} →`), choice, button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    button.disabled = true; // until it is drawn again
    decideAll({ [side]: name }, choice.value);
  });
  return form;
}

// ---- the graph

function centred(own, all) {
  const others = [...new Set(all)].filter((name) => name !== own);
  others.splice(Math.ceil(others.length / 2), 0, own);
  return others;
}

function graph(near) {
  const here = near.interaction;
  const users = centred(here.user, near.by_item.map((one) => one.user));
  const items = centred(here.item, near.by_user.map((one) => one.item));
  const rows = Math.max(users.length, items.length);
  const at = (names, name) => 30 + (STEP * rows * (names.indexOf(name) + 0.5)) / names.length;
  const ends = (one) => [at(users, one.user), at(items, one.item)];
  const between = new Map([...near.by_item, ...near.by_user, here].map((one) => [one.id, one])); // this one lies on top
  const bends = new Map();
  const lines = [...between.values()].map((one) => {
    const pair = JSON.stringify([one.user, one.item]);
    bends.set(pair, (bends.get(pair) ?? -1) + 1);
    return line(one, ends(one), bends.get(pair));
  });
  return make("svg", { viewBox: `0 0 ${WIDTH} ${40 + STEP * rows}`, role: "group", "aria-label": "Users and items around this interaction" },
    make("text", { class: "faint", x: LEFT - 13, y: 18, "text-anchor": "end" }, "users"),
    make("text", { class: "faint", x: RIGHT + 13, y: 18 }, "items"),
    ...lines, ...nodes(users, here.user, LEFT, at), ...nodes(items, here.item, RIGHT, at));
}

function line(one, [from, to], bend) {
  const path = `M${LEFT} ${from} Q${(LEFT + RIGHT) / 2} ${(from + to) / 2 + 22 * bend} ${RIGHT} ${to}`;
  const name = one.label ?? one.predicted;
  const kind = `edge${one.id === review.here?.id ? " here" : ""}${one.label === null ? " guess" : ""}`;
  const go = () => { location.hash = `#/review/${one.id}`; };
  return make("g", {
    class: "link", tabindex: "0", role: "link", "data-id": one.id, "aria-label": `${one.user} about ${one.item}: ${name ?? "not known"}`,
    onclick: go, onkeydown: (event) => { if (event.key === "Enter") go(); },
  },
    make("title", {}, `${one.user} about ${one.item}${name ? ` · ${name}` : ""}\n${shortened(one.text, 200)}`),
    make("path", { class: kind, d: path, ...(name ? { "--class": colour(name) } : {}) }),
    make("path", { class: "reach", d: path }));
}

function nodes(names, own, x, at) {
  const [shift, anchor] = x === LEFT ? [-13, "end"] : [13, "start"];
  return names.flatMap((name) => [
    make("circle", { class: name === own ? "node here" : "node", cx: x, cy: at(names, name), r: name === own ? 7 : 5 }),
    make("text", { x: x + shift, y: at(names, name) + 4, "text-anchor": anchor }, make("title", {}, name), shortened(name, 13)),
  ]);
}
