// Elements from data. Text is always a text node: a name from a program can never become markup.

import { printable } from "./units.js";

// element("button", { class: "quiet", onclick: f }, "text", child, …)
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [property, to] of Object.entries(value)) made.style.setProperty(property, to);
    else made.setAttribute(name, value === true ? "" : value);
  }
  append(made, children);
  return made;
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(parent, ...children) {
  const fresh = document.createDocumentFragment();
  append(fresh, children);
  parent.replaceChildren(fresh);
  return parent;
}

export function byId(id) {
  return document.getElementById(id);
}

// A name of a program, in the font of names.
export function nameText(text, className = "name") {
  const shown = printable(text);
  return element("span", { class: className, title: shown.length > 40 ? shown.slice(0, 4000) : null, dir: "ltr" }, shown);
}

// Screen readers hear what a canvas shows only by colour and position.
export function announce(sentence) {
  byId("announcer").textContent = sentence;
}

export function message(text, className = "empty") {
  return element("p", { class: className }, text);
}

const tip = { shown: false };

export function showTip(x, y, ...children) {
  const box = fill(byId("tip"), ...children);
  box.hidden = false;
  tip.shown = true;
  const room = box.getBoundingClientRect();
  const left = Math.min(x + 12, window.innerWidth - room.width - 8);
  const below = y + 16 + room.height < window.innerHeight;
  box.style.left = `${Math.max(8, left)}px`;
  box.style.top = `${Math.max(8, below ? y + 16 : y - room.height - 12)}px`;
}

export function hideTip() {
  if (!tip.shown) return;
  byId("tip").hidden = true;
  tip.shown = false;
}

// A canvas as sharp as the screen. Returns its context in units of the page's pixels.
export function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
