// The outbox: what changes something is sent one after the other, in the order in which it was asked for.

let last = Promise.resolve();
let waiting = 0;

export function inOrder(work) {
  waiting += 1;
  const done = last.then(work);
  const settled = () => { waiting -= 1; };
  last = done.then(settled, settled); // whoever asked is told of a failure; what comes after it is still sent
  return done;
}

window.addEventListener("beforeunload", (event) => { if (waiting) event.preventDefault(); });
