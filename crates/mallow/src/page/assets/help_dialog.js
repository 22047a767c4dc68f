// Keys, and the words of the page.

import { byId, element, fill } from "./dom.js";

const KEYS = [
  ["1 … 9", "the views, from left to right"], ["m", "next measure"], ["/", "search or filter"], ["t", "to the time above"], ["g", "to the graph or table"],
  ["← →", "time: the moment; graph: siblings"], ["Shift + ← →", "time: a range, and what is left over of it"], ["k", "time: mark the moment, for generations"], ["↑ ↓", "graph: callers and callees; table: rows"],
  ["Enter", "zoom, or open a row"], ["Space", "graph: details of a box"], ["Escape", "close details, zoom out, clear the range"], ["p", "a process: keep what is shown, or go on"], ["?", "this help"],
];
const WORDS = [
  ["self", "of a function or line: excluding callees"], ["cum", "including callees; a recursive function counts once per call path"],
  ["peak", "the moment with the most live bytes, and what was live then"], ["live at end", "live when its process, or the recording, ended"], ["lost", "live at the end, and nothing pointed to it"],
  ["temporary", "freed by its thread before that thread allocated again"], ["left over", "allocated within the range and live at its end"],
  ["generation", "the time between two marks; what is left over of it is what a leak adds"], ["call path", "the whole stack of an allocation"],
];

export function buildHelp() {
  const list = (entries, tag) => element("dl", { class: "facts" }, entries.map(([term, meaning]) => [element("dt", {}, element(tag, {}, term)), element("dd", {}, meaning)]));
  const dialog = byId("help");
  fill(dialog, element("h2", {}, "Keys"), list(KEYS, "kbd"), element("h2", {}, "Words"), list(WORDS, "b"),
    element("p", { class: "quiet" }, "The address of this page keeps the view: copy it to come back to it. Nothing leaves this machine."),
    element("button", { type: "button", class: "plain", id: "help-close", onclick: () => dialog.close() }, "Close"));
  byId("help-button").addEventListener("click", toggleHelp);
}

export function toggleHelp() {
  const dialog = byId("help");
  if (dialog.open) dialog.close();
  else dialog.showModal();
}
