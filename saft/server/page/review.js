// What is shown. It changes in one step, so that a key always acts on what is to be seen.

export const review = { here: null };
const watchers = [];

// Called with the interaction that is shown from now on, or null.
export const whenShown = (watcher) => watchers.push(watcher);

export function show(one) {
  review.here = one;
  const place = one === null ? "#/review" : `#/review/${one.id}`;
  if (location.hash !== place) history.pushState(null, "", place);
  for (const watcher of watchers) watcher(one);
}
