// Requests. What only reads is asked again while the server is busy; what changes something is sent once.

import { $ } from "./dom.js";
import { tell } from "./messages.js";

const PATIENCE = 30; // a server that is busy is asked so often, once a second

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function send(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch {
    throw new Refused(0, "The server cannot be reached, or it broke off the request.");
  }
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({ detail: `The server answered ${answer.status}.` }));
    throw new Refused(answer.status, problem.detail);
  }
  if (answer.status === 204) return null;
  return answer.headers.get("content-type").includes("json") ? answer.json() : answer.blob();
}

export async function get(path, patience = PATIENCE) {
  try {
    return await send(path);
  } catch (error) {
    if (error.status === 401) await login();
    else if ((error.status === 503 || error.status === 429) && patience > 0) {
      tell(error.message);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    } else throw error;
    return get(path, patience - 1);
  }
}

async function once(path, options) {
  try {
    return await send(path, options);
  } catch (error) {
    if (error.status !== 401) throw error;
    await login();
    throw new Refused(401, "This was not sent, because the token was missing or wrong. Please do it again.");
  }
}

export const post = (path, body) => once(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
});
export const upload = (path, file) => once(path, {
  method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file,
});
export const remove = (path, options = {}) => once(path, { method: "DELETE", ...options });

let asking = null; // requests that are refused at the same time ask for one token

function login() {
  asking ??= new Promise((resolve) => {
    const dialog = $("#login");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("token", dialog.querySelector("input").value.trim());
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}
