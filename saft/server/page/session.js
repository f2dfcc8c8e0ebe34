// Who reviews, and with which model.

import { $, counted, fill, named } from "./dom.js";
import { careful } from "./messages.js";
import { get } from "./server.js";

export const session = { classes: [], suspicious: "", me: { name: null, role: "read", team: false }, model: null };

export async function start() {
  [session.me, session.model] = await Promise.all([get("me"), get("model")]);
  Object.assign(session, { classes: session.model.classes, suspicious: session.model.suspicious });
  drawName();
  drawCounts();
}

export const mayReview = () => session.me.role !== "read";
export const mayAdminister = () => session.me.role === "administer";

// The token says who reviews; where it does not, the name that the person gave ("" if they want none).
export const name = () => session.me.name ?? localStorage.getItem("name");
export const signed = (body) => (session.me.name === null && name() ? { ...body, reviewer: name() } : body);

export const isNamed = () => name() !== null;

let waiting = null;

export function introduced() {
  if (isNamed()) return Promise.resolve();
  waiting ??= askName().finally(() => { waiting = null; });
  return waiting;
}

export function askName() {
  const dialog = $("#introduce");
  dialog.querySelector("input").value = name() ?? "";
  dialog.showModal();
  return new Promise((resolve, reject) => {
    dialog.addEventListener("close", () => {
      if (dialog.returnValue !== "named") return reject(new Error("Nothing was stored: say first who reviews."));
      localStorage.setItem("name", dialog.querySelector("input").value.trim());
      drawName();
      return resolve();
    }, { once: true });
    dialog.returnValue = "";
  });
}

function drawName() {
  const button = $("#who");
  fill(button, !mayReview() ? named(`${name() ?? "you"} (may only read)`) : name() ? named(name()) : "Who reviews?");
  button.disabled = session.me.name !== null;
  button.title = button.disabled ? "The name that belongs to your token" : "Verdicts are signed with this name";
}

function drawCounts() {
  const { open, reviewed, disputed } = session.model;
  const parts = [`${open.toLocaleString()} open`, `${reviewed.toLocaleString()} decided`];
  $("#counts").textContent = [...parts, ...(disputed ? [counted(disputed, "dispute")] : [])].join(" · ");
}

let soon;

export function recount() {
  clearTimeout(soon);
  soon = setTimeout(careful(async () => {
    session.model = await get("model");
    drawCounts();
  }), 300);
}
