// Verdicts: shown as done at once, sent in order, each once, and taken back one step at a time.

import { alarm, careful, tell } from "./messages.js";
import { inOrder } from "./outbox.js";
import * as queue from "./queue.js";
import { review, show } from "./review.js";
import { get, post } from "./server.js";
import { introduced, isNamed, mayReview, recount, session, signed } from "./session.js";

const done = []; // what can be taken back, the last one at the end
const notes = new Map(); // id → what was typed, until it is sent with a verdict
const listeners = [];

export const noteOn = (id) => notes.get(id) ?? "";
export const write = (id, note) => notes.set(id, note);
// Called with the interactions that were judged, or whose verdict was taken back, once it is stored.
export const whenStored = (listener) => listeners.push(listener);

export const decide = careful(async (label) => {
  const one = review.here; // as it is now, whatever is shown when it is sent
  if (!one) return;
  if (!mayReview()) throw new Error("Your role may only read. Ask who administers the team for another one.");
  if (!isNamed()) await introduced();
  file(one, label);
});

function file(one, label) {
  const note = noteOn(one.id).trim();
  notes.delete(one.id);
  const taken = queue.settle([one.id]);
  const act = { ids: [one.id], one, taken, back: () => post("labels", signed({ id: one.id, label: null })) };
  done.push(act);
  tell(`${label}: ${one.user} about ${one.item}. Backspace takes it back.`);
  act.sent = inOrder(() => post("labels", signed({ id: one.id, label, ...(note ? { note } : {}) })));
  act.sent.then(stored, (error) => {
    done.splice(done.indexOf(act), 1);
    if (note) notes.set(one.id, note);
    queue.putBack(act.ids, taken);
    alarm(`The verdict on what ${one.user} wrote about ${one.item} is not stored. ${error.message}`);
  });
}

function stored(one) {
  queue.update(one);
  recount();
  for (const listener of listeners) listener([one]);
}

export function undo() {
  const act = done.pop();
  if (!act) return tell("There is nothing to take back.");
  queue.putBack(act.ids, act.taken);
  show(act.one);
  return takeBack(act);
}

const takeBack = careful((act) => inOrder(async () => {
  if (await act.sent.then(() => false, () => true)) return; // it was never stored, and that was said
  try {
    await act.back();
  } catch (error) {
    done.push(act);
    throw new Error(`Not taken back. ${error.message}`);
  }
  tell("Taken back.");
  const one = await get(`interactions/${act.one.id}`);
  if (review.here?.id === one.id) show(one);
  stored(one);
  if (act.batch) await queue.load();
}));

// All that are open of a user, or of an item.
export const decideAll = careful(async (which, label) => {
  if (!isNamed()) await introduced();
  const one = review.here;
  const decided = await inOrder(() => post("labels/bulk", signed({ ...which, label })));
  const count = decided.ids.length;
  const left = decided.left_out.length ? ` ${decided.left_out.length} left out: somebody else is reviewing them.` : "";
  if (!count) return tell(`Nothing was open any more.${left}`);
  const act = { ids: decided.ids, one, sent: Promise.resolve(), taken: queue.settle(decided.ids), batch: decided.batch };
  act.back = () => (decided.batch ? post("labels/undo", signed({ batch: decided.batch }))
    : post("labels", signed({ id: decided.ids[0], label: null })));
  done.push(act);
  recount();
  for (const listener of listeners) listener([one]);
  return tell(`${count} of ${which.user ?? which.item} → ${label}. Backspace takes all of it back.${left}`);
});

export function reject() {
  const others = session.classes.filter((name) => name !== review.here?.predicted);
  if (others.length === 1) decide(others[0]);
  else tell("Not what the model says: choose the right class.");
}
