// What fits the text of a picture to its window.
const page = (() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const root = document.currentScript.closest("svg");
  const EDGE = 12, LINE = 18;
  const full = new Map();
  const whole = (text) => {
    if (!full.has(text)) full.set(text, text.textContent);
    return full.get(text);
  };

  // As much of a text as there is room for.
  function fit(text, room, words = whole(text)) {
    text.textContent = words;
    const length = words ? text.getComputedTextLength() : 0;
    if (length <= room) return;
    const all = Array.from(words);
    for (let keep = Math.floor(all.length * room / length); keep > 0; keep--) {
      text.textContent = all.slice(0, keep).join("") + "…";
      if (text.getComputedTextLength() <= room) return;
    }
    text.textContent = "";
  }

  // A text on as many lines as it takes, below each other. Returns their number.
  function wrap(text, room) {
    const words = whole(text).split(" ");
    const lines = [];
    for (const word of words) {
      const longer = lines.length ? lines[lines.length - 1] + " " + word : word;
      text.textContent = longer;
      if (lines.length && text.getComputedTextLength() <= room) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    text.textContent = "";
    lines.forEach((line, at) => {
      const part = document.createElementNS(SVG, "tspan");
      part.setAttribute("x", text.getAttribute("x"));
      if (at > 0) part.setAttribute("dy", LINE);
      part.textContent = line;
      text.append(part);
    });
    return lines.length;
  }

  // The title, and the lines below it. Returns how many lines more they take than without a script.
  function head(width) {
    const titles = Array.from(root.querySelectorAll("#head .title"));
    const notes = Array.from(root.querySelectorAll("#head > .note, #head > .warning"));
    titles.forEach((title) => fit(title, width - 2 * EDGE));
    let more = 0;
    notes.forEach((note, at) => {
      note.setAttribute("y", 44 + LINE * (at + more));
      more += wrap(note, width - 2 * EDGE) - 1;
    });
    return more;
  }

  // Without a script the picture has a size; a window has its own.
  root.removeAttribute("viewBox");
  root.setAttribute("width", "100%");
  const width = () => Math.max(root.clientWidth || 0, 320);
  // No less than the window: the ground of the picture is all that there is to see.
  const setHeight = (height) => root.setAttribute("height", Math.max(height, window.innerHeight || 0));
  return { SVG, EDGE, LINE, root, fit, wrap, head, width, setHeight };
})();
