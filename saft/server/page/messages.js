// Messages: what was done goes away by itself, what went wrong stays until it was read.

import { $ } from "./dom.js";

let quiet;

export function tell(message) {
  show(message, "status");
  quiet = setTimeout(hide, 4000);
}

export function alarm(message) {
  show(message, "alert");
}

function show(message, role) {
  clearTimeout(quiet);
  const toast = $("#toast");
  if (toast.getAttribute("role") === "alert" && !toast.hidden && role === "status") return; // not read yet
  toast.setAttribute("role", role);
  $("#said").textContent = message;
  toast.hidden = false;
}

function hide() {
  if ($("#toast").getAttribute("role") === "status") $("#toast").hidden = true;
}

$("#dismiss").addEventListener("click", () => { $("#toast").hidden = true; });

// A handler whose failure is told to the person.
export const careful = (work) => async (...given) => {
  try {
    return await work(...given);
  } catch (error) {
    alarm(error.message);
    return undefined;
  }
};
