// The queue: what waits, which of it is this reviewer's, and what comes next.

import { $, fill, make, named, percent } from "./dom.js";
import { careful } from "./messages.js";
import { chipOf } from "./pieces.js";
import { review, show, whenShown } from "./review.js";
import { get, post, remove } from "./server.js";
import { mayReview, name, session, signed } from "./session.js";
import { inOrder } from "./outbox.js";

const AHEAD = 5; // interactions that are claimed before they are looked at
const FEW = 10; // with fewer in the list the next page is fetched
const MOST_HELD = 200;

const state = { items: [], next: null, mine: new Set(), judged: new Set(), asked: 0, minutes: 0 };
const filters = $("#filters");
const shown = () => filters.elements.show.value;
const ofShow = { open: { labelled: "false" }, decided: { reviewed: "true" }, disputed: { disputed: "true" }, all: {} };
const asksForVerdicts = () => shown() === "open" || shown() === "disputed";

function wanted() {
  const { show: _, ...given } = Object.fromEntries(new FormData(filters));
  return Object.fromEntries(Object.entries(given).map(([part, value]) => [part, value.trim()]).filter(([, value]) => value));
}

// ---- loading

// `more`: the next page; `anew`: with other filters, so that something else is shown.
export const load = careful(async ({ more = false, anew = false } = {}) => {
  const asked = ++state.asked;
  if (anew) await leave();
  const given = new URLSearchParams({ ...wanted(), ...ofShow[shown()], ...(more && state.next ? { after: state.next } : {}) });
  const page = await get(`interactions?${given}`);
  if (asked !== state.asked) return;
  const known = new Set(more ? state.items.map((one) => one.id) : []);
  const fresh = page.interactions.filter((one) => !known.has(one.id) && !(asksForVerdicts() && state.judged.has(one.id)));
  state.items = more ? [...state.items, ...fresh] : fresh;
  state.next = page.next;
  draw();
  if (!more) {
    $("#matching").textContent = `${page.total.toLocaleString()} in this queue`;
    await claimAhead();
  }
  if (anew || review.here === null) show(first());
});

// Those that were claimed and not judged are left to others.
export async function leave() {
  const left = [...state.mine];
  state.mine.clear();
  const query = new URLSearchParams(signed({}));
  await Promise.all(left.map((id) => remove(`claims/${id}?${query}`)));
}

// Who goes away leaves them too; the requests outlive the page.
window.addEventListener("pagehide", () => {
  const query = new URLSearchParams(signed({}));
  for (const id of state.mine) remove(`claims/${id}?${query}`, { keepalive: true });
  state.mine.clear();
});
window.addEventListener("pageshow", (event) => { if (event.persisted) claimAhead(); });

// ---- claims: the next ones are this reviewer's before they are looked at

export const claimAhead = careful(() => inOrder(async () => {
  if (!mayReview() || !name() || !asksForVerdicts()) return; // without a name nobody could be told apart
  const place = state.items.findIndex((one) => one.id === review.here?.id);
  const ahead = state.items.filter((one, at) => state.mine.has(one.id) && at >= place).length;
  if (ahead < AHEAD) await claim(AHEAD - ahead);
}));

async function claim(count) {
  const [asked, mine] = [state.asked, [...state.mine].slice(-MOST_HELD)];
  const disputed = shown() === "disputed" ? { disputed: true } : {};
  const answer = await post("claims", signed({ ...wanted(), ...disputed, count, held: mine }));
  state.minutes = answer.minutes;
  for (const one of answer.interactions) {
    state.mine.add(one.id);
    if (asked === state.asked && !state.judged.has(one.id)) take(one);
  }
  draw();
}

function take(one) {
  const place = state.items.findIndex((other) => other.id === one.id);
  if (place >= 0) state.items[place] = one;
  else state.items.splice(state.items.findLastIndex((other) => state.mine.has(other.id) && other.id !== one.id) + 1, 0, one);
}

// While somebody sits here, what is claimed stays claimed.
let active = Date.now();
for (const kind of ["keydown", "pointerdown"]) document.addEventListener(kind, () => { active = Date.now(); });
setInterval(careful(async () => {
  const seconds = (Date.now() - active) / 1000;
  if (state.mine.size && seconds < 60 * state.minutes) await inOrder(() => claim(0));
}), 120_000);

// ---- what comes next

const isFree = (one) => one.claimed_by === null || state.mine.has(one.id);
export const first = () => state.items.find((one) => state.mine.has(one.id)) ?? state.items.find(isFree) ?? state.items[0] ?? null;
const placeOf = (id) => state.items.findIndex((one) => one.id === id);
export const find = (id) => state.items.find((one) => one.id === id);

export function after(place, step = 1) {
  const rest = step > 0 ? state.items.slice(place) : state.items.slice(0, place).reverse();
  const next = rest.find((one) => isFree(one) && (step < 0 || !state.mine.size || state.mine.has(one.id)));
  return next ?? rest.find(isFree) ?? null;
}

export function move(step) {
  const place = placeOf(review.here?.id);
  const following = after(step > 0 ? place + 1 : place, step);
  if (following) show(following);
  refill();
}

export function peek() {
  const place = placeOf(review.here?.id);
  return place < 0 ? null : after(place + 1);
}

// An interaction was judged: it is gone from the queue at once, and the next one is shown.
export function settle(ids) {
  const gone = new Set(ids);
  const place = placeOf(review.here?.id);
  const before = state.items.slice(0, Math.max(place, 0)).filter((one) => gone.has(one.id)).length;
  for (const id of gone) {
    state.mine.delete(id);
    state.judged.add(id);
  }
  const taken = state.items.flatMap((one, at) => (gone.has(one.id) ? [{ one, at }] : []));
  const stays = !asksForVerdicts();
  if (!stays) state.items = state.items.filter((one) => !gone.has(one.id));
  if (review.here && gone.has(review.here.id)) show(after(Math.max(place + (stays ? 1 : -before), 0)) ?? first());
  draw();
  refill();
  return taken;
}

export function putBack(ids, taken) {
  for (const id of ids) state.judged.delete(id);
  for (const { one, at } of taken) {
    if (!find(one.id)) state.items.splice(at, 0, one);
  }
  draw();
}

export function update(one) {
  const place = placeOf(one.id);
  if (place < 0) return;
  state.items[place] = one;
  draw();
}

function refill() {
  claimAhead();
  if (state.items.length < FEW && state.next) load({ more: true });
}

// ---- drawing

function draw() {
  fill($("#queue"), ...state.items.map(entry));
  $("#more").hidden = state.next === null;
  point(review.here);
}

function entry(one) {
  const suspicion = one.probabilities[session.suspicious];
  const elsewhere = isFree(one) ? null : make("span", { class: "taken" }, "with ", named(one.claimed_by || "somebody else"));
  return make("li", {}, make("button", { type: "button", "data-id": one.id, class: elsewhere ? "elsewhere" : null, onclick: () => show(one) },
    make("span", { class: "meta" }, chipOf(one), make("span", { class: "share" }, `${percent(suspicion)} `, named(session.suspicious)),
      one.disputed ? make("span", { class: "taken" }, "disputed") : null, elsewhere),
    make("span", { class: "excerpt", dir: "auto" }, one.text || "(no text)"),
    make("span", { class: "meta one-line" }, named(one.user), "→", named(one.item))));
}

function point(one) {
  for (const button of document.querySelectorAll("#queue [data-id]")) {
    if (button.dataset.id === one?.id) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  const here = $("#queue [aria-current]");
  const box = $("#side");
  if (!here || !box.offsetParent) return;
  const [top, bottom] = [here.offsetTop, here.offsetTop + here.offsetHeight]; // the box is scrolled, never the page
  if (top < box.scrollTop) box.scrollTop = top - 8;
  else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight + 8;
}
whenShown(point);

// ---- filters

let typing;

export function start() {
  for (const one of session.classes) filters.elements.predicted.append(make("option", { value: one, dir: "auto" }, one));
  const { disputed, second_opinion: share } = session.model;
  if (!disputed && !share) filters.querySelector("option[value=disputed]").remove();
  const anew = () => {
    clearTimeout(typing);
    load({ anew: true });
  };
  filters.addEventListener("submit", (event) => { event.preventDefault(); anew(); });
  filters.addEventListener("change", (event) => { if (event.target.tagName === "SELECT") anew(); });
  filters.addEventListener("input", (event) => {
    if (event.target.tagName !== "INPUT") return;
    clearTimeout(typing);
    typing = setTimeout(anew, 300);
  });
  $("#more").addEventListener("click", () => load({ more: true }));
}
