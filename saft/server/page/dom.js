// Elements, and text as people write it. What people wrote is only ever put in as text.

export const $ = (selector) => document.querySelector(selector);
const SVG = new Set(["svg", "g", "path", "circle", "text", "title"]);

export function make(tag, attributes = {}, ...children) {
  const node = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else if (value !== false && value !== null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

export const fill = (place, ...children) => place.replaceChildren(...children.filter((child) => child !== null));

// A name whose direction is its own, whatever stands around it.
export const named = (text, tag = "bdi") => make(tag, { dir: "auto" }, text);

// Offsets of the server count code points, those of JavaScript halves of emoji.
export const codePoints = (text) => Array.from(text);

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

export function shortened(text, most) {
  let [kept, count] = ["", 0];
  for (const { segment } of graphemes.segment(text)) {
    if (++count > most) return `${kept.trimEnd()}…`;
    kept += segment;
  }
  return text;
}

export const percent = (share) => (share === null || share === undefined ? "not measured"
  : `${(100 * share).toFixed((share > 0.995 && share < 1) || (share > 0 && share < 0.005) ? 1 : 0)}%`);
export const signed = (share) => `${share >= 0 ? "+" : "−"}${(100 * Math.abs(share)).toFixed(1)}`;
export const counted = (number, one, many = `${one}s`) => `${number.toLocaleString()} ${number === 1 ? one : many}`;
export const moment = (iso) => new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
