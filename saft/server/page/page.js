// The review page. No libraries, nothing loaded from elsewhere; text from people is only ever put in as text.

const $ = (selector) => document.querySelector(selector);
const percent = (share) => share === null ? "not measured" : `${(100 * share).toFixed(share > 0.995 || share < 0.005 ? 1 : 0)}%`;
const signed = (share) => `${share >= 0 ? "+" : "−"}${(100 * Math.abs(share)).toFixed(1)}`;
const state = { classes: [], suspicious: "", queue: [], next: null, here: null, done: [], asked: 0 };

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "circle", "text", "title"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else if (value !== false && value !== null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function fill(place, ...children) {
  place.replaceChildren(...children.filter((child) => child !== null));
}

// ---- the server

async function call(path, body) {
  const headers = { "Content-Type": "application/json" };
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.status === 401) {
    await login();
    return call(path, body);
  }
  if (answer.status === 503) {
    tell("The model is being loaded …");
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return call(path, body);
  }
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({ detail: `The server answered ${answer.status}.` }));
    throw new Error(problem.detail);
  }
  return answer.headers.get("content-type").includes("json") ? answer.json() : answer.blob();
}

function login() {
  const dialog = $("#login");
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("token", dialog.querySelector("input").value);
      resolve();
    }, { once: true });
    if (!dialog.open) dialog.showModal();
  });
}

let quiet;
function tell(message) {
  const toast = $("#toast");
  toast.textContent = message;
  toast.hidden = false;
  clearTimeout(quiet);
  quiet = setTimeout(() => { toast.hidden = true; }, 4000);
}

const careful = (work) => async (...given) => {
  try {
    return await work(...given);
  } catch (error) {
    tell(error.message || "The server cannot be reached.");
  }
};

// ---- pieces

function colour(name) {
  if (name === state.suspicious) return "var(--alarm)";
  return `var(--c${Math.max(state.classes.filter((other) => other !== state.suspicious).indexOf(name), 0) % 7})`;
}
const chip = (name, guess) =>
  make("span", { class: guess ? "chip guess" : "chip", "--class": colour(name), title: guess ? "predicted" : "label" }, name);
const chipOf = (one) => (one.label !== null ? chip(one.label, false) : one.predicted ? chip(one.predicted, true) : null);

function bars(probabilities) {
  const rows = Object.entries(probabilities).sort((a, b) => b[1] - a[1]).flatMap(([name, share]) => [
    make("span", { class: "chip guess", "--class": colour(name) }, name),
    make("span", { class: "track" }, make("span", { class: "fill", "--class": colour(name), "--share": percent(share) })),
    make("span", { class: "number" }, percent(share)),
  ]);
  return make("div", { class: "bars" }, ...rows);
}

function marked(text, words) {
  const largest = Math.max(0.02, ...words.map((word) => Math.abs(word.effect)));
  const parts = [];
  let from = 0;
  for (const word of words) {
    parts.push(text.slice(from, word.start));
    const strength = (0.75 * Math.abs(word.effect)) / largest;
    parts.push(make("mark", {
      "--side": word.effect >= 0 ? "var(--for)" : "var(--against)",
      "--strength": `${strength < 0.06 ? 0 : Math.round(100 * strength)}%`,
      title: `without it: ${signed(-word.effect)} points`,
    }, word.text));
    from = word.end;
  }
  return [...parts, text.slice(from)];
}

function effects(rows) {
  const largest = Math.max(0.02, ...rows.map((row) => Math.abs(row.effect)));
  return make("div", { class: "effects" }, ...rows.flatMap((row) => [
    row.what,
    make("span", {
      class: row.effect < 0 ? "scale against" : "scale",
      "--side": row.effect >= 0 ? "var(--for)" : "var(--against)",
      "--share": `${(100 * Math.abs(row.effect)) / largest}%`,
      title: `${signed(row.effect)} points`,
    }, make("b"), make("span", {}, signed(row.effect))),
  ]));
}

function reasons(explained, text, choices = null) {
  const legend = make("p", { class: "legend" },
    make("span", {}, make("i", { "--side": "var(--for)" }), `speaks for ${explained.label}`),
    make("span", {}, make("i", { "--side": "var(--against)" }), "speaks against it"));
  const neighbours = explained.neighbours.slice(0, 6).map((one) => ({
    effect: one.effect,
    what: make("a", { class: "quiet", href: `#/review/${one.id}` }, one.label !== null ? chip(one.label, false) : null,
      ` ${one.shares === "item" ? one.user : one.item}`,
      make("span", { class: "meta" }, one.text.length > 70 ? `${one.text.slice(0, 70)}…` : one.text)),
  }));
  const features = explained.features.map((one) => ({ effect: one.effect, what: make("span", {}, one.meaning) }));
  return [
    make("p", { class: "said" }, ...(text ? marked(text, explained.words) : [make("span", { class: "empty" }, "(no text)")])),
    text ? legend : null,
    choices,
    make("h3", {}, "Probabilities"), bars(explained.probabilities),
    features.length ? make("h3", {}, "What else moved it, in points") : null, features.length ? effects(features) : null,
    neighbours.length ? make("h3", {}, "Neighbours that moved it, in points") : null, neighbours.length ? effects(neighbours) : null,
  ];
}

// ---- the queue

function query() {
  const given = new URLSearchParams();
  for (const [name, value] of new FormData($("#filters"))) if (value.trim()) given.set(name, value.trim());
  return given;
}

const loadQueue = careful(async (more = false) => {
  const given = query();
  if (more && state.next) given.set("after", state.next);
  const page = await call(`interactions?${given}`);
  state.queue = more ? [...state.queue, ...page.interactions] : page.interactions;
  state.next = page.next;
  drawQueue(page.total);
  if (!more && !location.hash.startsWith("#/review/")) {
    if (state.queue.length) await open(state.queue[0].id);
    else showNothing();
  }
});

function drawQueue() {
  fill($("#queue"), ...state.queue.map((one) => make("li", {},
    make("button", { type: "button", "data-id": one.id, "aria-current": state.here?.id === one.id ? "true" : null, onclick: () => go(one.id) },
      make("span", { class: "meta" }, chipOf(one), make("span", {}, `${percent(one.probabilities[state.suspicious])} ${state.suspicious}`)),
      make("span", { class: "excerpt" }, one.text || "(no text)"),
      make("span", { class: "meta" }, make("span", {}, `${one.user} → ${one.item}`))))));
  $("#more").hidden = state.next === null;
}

function showNothing() {
  state.here = null;
  fill($("#panel"), make("h2", {}, "Nothing is waiting."),
    make("p", { class: "empty" }, "Interactions that are added over HTTP appear here, as do rows of training without a label."));
  fill($("#around"));
}

const go = (id) => { location.hash = `#/review/${id}`; };

// ---- one interaction

const open = careful(async (id) => {
  const asked = ++state.asked;
  const near = await call(`neighbours/${id}?limit=12`);
  if (asked !== state.asked) return;
  state.here = near.interaction;
  document.querySelectorAll("#queue [data-id]").forEach((one) => {
    if (one.dataset.id === id) one.setAttribute("aria-current", "true");
    else one.removeAttribute("aria-current");
  });
  $("#queue [aria-current]")?.scrollIntoView({ block: "nearest" });
  drawPanel(null);
  drawAround(near);
  const explained = await call(`explain/${id}`);
  if (asked === state.asked) drawPanel(explained);
});

function drawPanel(explained) {
  const one = state.here;
  const choices = make("div", { class: "choices" }, ...state.classes.map((name, place) => make("button", {
    type: "button", "aria-pressed": String(one.label === name), "data-class": name, onclick: () => decide(name),
  }, make("kbd", {}, String(place + 1)), chip(name, false))));
  fill($("#panel"),
    make("p", { class: "meta" }, make("strong", {}, one.user), "about", make("strong", {}, one.item), one.time ? make("span", {}, one.time.replace("T", " ")) : null, make("span", {}, one.id)),
    one.reviewed || one.label !== null ? make("p", { class: "meta" }, one.reviewed ? "decided:" : "label:", chip(one.label, false)) : null,
    ...(explained
      ? reasons(explained, one.text, choices)
      : [make("p", { class: "said" }, one.text), choices, make("h3", {}, "Probabilities"), bars(one.probabilities)]));
}

// ---- the neighbourhood: users on the left, items on the right, interactions between them

function centred(own, all) {
  const others = [...new Set(all)].filter((name) => name !== own);
  others.splice(Math.ceil(others.length / 2), 0, own);
  return others;
}

function drawAround(near) {
  const here = near.interaction;
  const users = centred(here.user, near.by_item.map((one) => one.user));
  const items = centred(here.item, near.by_user.map((one) => one.item));
  const rows = Math.max(users.length, items.length);
  const height = 40 + 34 * rows;
  const at = (list, name) => 30 + (34 * rows * (list.indexOf(name) + 0.5)) / list.length;
  const [left, right, width] = [120, 280, 400];
  const seen = new Map();
  const edges = [here, ...near.by_user, ...near.by_item].filter((one) => !seen.has(one.id) && seen.set(one.id, one));
  const pairs = new Map();
  const lines = edges.map((one) => {
    const bend = pairs.get(`${one.user} ${one.item}`) ?? 0;
    pairs.set(`${one.user} ${one.item}`, bend + 1);
    const [from, to] = [at(users, one.user), at(items, one.item)];
    const path = `M${left} ${from} Q${(left + right) / 2} ${(from + to) / 2 + 22 * bend} ${right} ${to}`;
    const main = one.id === here.id;
    const kind = `edge${main ? " here" : ""}${one.label === null ? " guess" : ""}`;
    const name = one.label ?? one.predicted;
    return make("g", {
      class: "link", tabindex: "0", role: "link", "data-id": one.id, "aria-label": `${one.user} about ${one.item}: ${name ?? "not known"}`,
      onclick: () => go(one.id), onkeydown: (event) => { if (event.key === "Enter") go(one.id); },
    },
      make("title", {}, `${one.user} about ${one.item}${name ? ` · ${name}` : ""}\n${one.text.slice(0, 200)}`),
      make("path", { class: kind, d: path, ...(name ? { "--class": colour(name) } : {}) }),
      make("path", { class: "reach", d: path }));
  });
  const short = (name) => (name.length > 14 ? `${name.slice(0, 13)}…` : name);
  const nodes = [["end", left, users, here.user], ["start", right, items, here.item]].flatMap(([anchor, x, list, own]) =>
    list.flatMap((name) => [
      make("circle", { class: name === own ? "node here" : "node", cx: x, cy: at(list, name), r: name === own ? 7 : 5 }),
      make("text", { x: anchor === "end" ? x - 13 : x + 13, y: at(list, name) + 4, "text-anchor": anchor }, make("title", {}, name), short(name)),
    ]));
  fill($("#around"),
    make("h2", {}, "Around it"),
    make("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Users and items around this interaction" },
      make("text", { class: "faint", x: left - 13, y: 18, "text-anchor": "end" }, "users"),
      make("text", { class: "faint", x: right + 13, y: 18 }, "items"),
      ...lines.reverse(), ...nodes),
    make("p", { class: "legend" }, "solid: label known, dashed: predicted; the bold line is this one"),
    history(`What else ${here.user} wrote`, near.by_user, (one) => one.item),
    history(`What others wrote about ${here.item}`, near.by_item, (one) => one.user));
}

function history(title, rows, other) {
  return make("section", {}, make("h3", {}, title),
    rows.length
      ? make("ul", { class: "history" }, ...rows.map((one) => make("li", {}, make("button", { type: "button", "data-id": one.id, onclick: () => go(one.id) },
        make("span", { class: "meta" }, chipOf(one), make("span", {}, other(one))), make("span", { class: "excerpt" }, one.text || "(no text)")))))
      : make("p", { class: "empty" }, "Nothing."));
}

// ---- verdicts

const decide = careful(async (label) => {
  const one = state.here;
  if (!one) return;
  await call("labels", { id: one.id, label });
  state.done.push(one.id);
  tell(`${label}: ${one.user} about ${one.item}. Backspace takes it back.`);
  const place = state.queue.findIndex((other) => other.id === one.id);
  if ($("#filters").elements.labelled.value === "false") state.queue = state.queue.filter((other) => other.id !== one.id);
  drawQueue();
  drawCounts();
  const following = state.queue[Math.max(place, 0)] ?? state.queue.at(-1);
  if (state.queue.length < 10 && state.next) loadQueue(true);
  if (following) go(following.id);
  else showNothing();
});

const undo = careful(async () => {
  const id = state.done.pop();
  if (!id) return tell("There is nothing to take back.");
  const kept = await call("labels", { id, label: null });
  tell("Taken back.");
  if (!state.queue.some((one) => one.id === id)) state.queue.unshift(kept);
  drawQueue();
  drawCounts();
  if (location.hash === `#/review/${id}`) open(id);
  else go(id);
});

function reject() {
  const others = state.classes.filter((name) => name !== state.here?.predicted);
  if (others.length === 1) decide(others[0]);
  else tell("Not what the model says: choose the right class with its number.");
}

function move(step) {
  const place = state.queue.findIndex((one) => one.id === state.here?.id);
  const following = state.queue[Math.min(Math.max(place + step, 0), state.queue.length - 1)];
  if (following && following.id !== state.here?.id) go(following.id);
  else if (step > 0 && state.next) loadQueue(true);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || $("#review").hidden) return;
  const keys = {
    a: () => state.here && decide(state.here.predicted), x: reject, " ": () => move(1), Backspace: undo,
    ArrowDown: () => move(1), ArrowUp: () => move(-1),
  };
  const number = Number(event.key);
  const action = keys[event.key] ?? (number >= 1 && number <= state.classes.length ? () => decide(state.classes[number - 1]) : null);
  if (!action || (event.key === " " && event.target.closest("button, a"))) return;
  event.preventDefault();
  action();
});

// ---- trying, the model, moving between views

const asked = () => Object.fromEntries(new FormData($("#ask")));

$("#ask").addEventListener("submit", careful(async (event) => {
  event.preventDefault();
  fill($("#answer"), make("p", { class: "empty" }, "…"));
  const given = asked();
  const [explained, told] = await Promise.all([call("explain", given), call("predict", { interactions: [given] })]);
  const [one] = told.predictions;
  fill($("#answer"),
    make("h2", {}, chip(explained.label, true)),
    make("p", { class: "meta" }, `${one.known_user ? "a known" : "a new"} user, ${one.known_item ? "a known" : "a new"} item`),
    ...reasons(explained, given.text));
}));

$("#keep").addEventListener("click", careful(async () => {
  if (!$("#ask").reportValidity()) return;
  const { ids } = await call("interactions", { interactions: [asked()] });
  tell("Kept. It waits in the queue.");
  await loadQueue();
  go(ids[0]);
}));

const openReport = careful(async () => {
  window.open(URL.createObjectURL(await call("report")));
});

const drawCounts = careful(async () => {
  const model = await call("model");
  $("#counts").textContent = `${model.open.toLocaleString()} open · ${model.reviewed.toLocaleString()} decided`;
  return model;
});

const drawModel = careful(async () => {
  const model = await call("model");
  const list = (title, rows) => make("section", {}, make("h2", {}, title), make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])));
  fill($("#model"),
    list("Trained on", [["interactions", model.interactions.toLocaleString()], ["users", model.users.toLocaleString()], ["items", model.items.toLocaleString()], ["labelled", model.labelled.toLocaleString()]]),
    list("On its validation part", [["Macro-F1", percent(model.valid_macro_f1)], ["Micro-F1", percent(model.valid_micro_f1)], ["probabilities are off by", percent(model.calibration_error)]]),
    list("Since it serves", [["interactions kept", model.stored.toLocaleString()], ["waiting for a verdict", model.open.toLocaleString()], ["decided", model.reviewed.toLocaleString()]]),
    make("section", {}, make("h2", {}, "Classes"), make("p", { class: "meta" }, ...model.classes.map((name) => chip(name, false))),
      make("p", { class: "empty" }, `The queue puts ${model.suspicious} first.`),
      make("button", { type: "button", onclick: openReport }, "Open the full report"), " ",
      make("a", { href: "docs" }, "HTTP documentation")));
});

function show() {
  const [, view = "review", id] = location.hash.split("/");
  for (const main of document.querySelectorAll(".view")) main.hidden = main.id !== view;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view === "model") drawModel();
  if (view === "review" && id) open(id);
}

function filter(event) {
  event.preventDefault();
  window.history.replaceState(null, "", "#/review"); // what is open may not be in the new queue
  loadQueue();
}
$("#filters").addEventListener("change", filter);
$("#filters").addEventListener("submit", filter);
$("#more").addEventListener("click", () => loadQueue(true));

$("#theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});
const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;

window.addEventListener("hashchange", show);
const model = await drawCounts();
state.classes = model?.classes ?? [];
state.suspicious = model?.suspicious ?? "";
for (const name of state.classes) $("#filters").elements.predicted.append(make("option", { value: name }, name));
show();
await loadQueue();
