// Zoom, search, and names that fit after both. Without scripts the picture is whole, with its tooltips.
(() => {
  "use strict";
  const root = document.currentScript.closest("svg");
  const find = (id) => root.querySelector("#" + id);
  const frames = find("boxes");
  const edge = Number(frames.getAttribute("x"));
  const SVG = "http://www.w3.org/2000/svg";
  const HTML = "http://www.w3.org/1999/xhtml";

  // Boxes come in the order of the tree: what stands on a box follows it.
  const boxes = Array.from(frames.children, (group) => {
    const rect = group.querySelector("rect");
    return {
      group, rect,
      text: group.querySelector("text"),
      says: group.querySelector("title").textContent,
      name: NAMES[group.dataset.f],
      depth: Number(group.dataset.d),
      x: parseFloat(rect.getAttribute("x")),
      width: parseFloat(rect.getAttribute("width")),
    };
  });
  const end = (at) => {
    let next = at + 1;
    while (next < boxes.length && boxes[next].depth > boxes[at].depth) next++;
    return next;
  };

  let zoomed = 0;
  let pixels = 0;

  // The same rule as in the file: C++ and Rust names tell most at their end.
  function fitting(name, room) {
    const fits = Math.floor(room / CHARACTER);
    const all = Array.from(name);
    if (all.length <= fits) return name;
    if (fits < 3) return "";
    return name.includes("::") ? "…" + all.slice(1 - fits).join("") : all.slice(0, fits - 1).join("") + "…";
  }

  function place(box, x, width) {
    box.rect.setAttribute("x", x + "%");
    box.rect.setAttribute("width", width + "%");
    box.rect.classList.toggle("s", width / 100 * pixels < SLIVER);
    const words = fitting(box.name, width / 100 * pixels - 6);
    if (words && !box.text) {
      box.text = document.createElementNS(SVG, "text");
      box.text.setAttribute("dx", 3);
      box.text.setAttribute("y", Number(box.rect.getAttribute("y")) + 12);
      if (box.group.dataset.p) box.text.setAttribute("class", "p");
      box.group.append(box.text);
    }
    if (box.text) {
      box.text.setAttribute("x", x + "%");
      box.text.textContent = words;
    }
  }

  function draw() {
    const at = boxes[zoomed];
    const last = end(zoomed);
    let outer = at.depth;
    for (let index = boxes.length - 1; index >= 0; index--) {
      const box = boxes[index];
      const inside = index >= zoomed && index < last;
      const above = index < zoomed && box.depth < outer;
      if (above) outer = box.depth;
      box.group.classList.toggle("hidden", !inside && !above);
      box.group.classList.toggle("above", above);
      if (inside) place(box, (box.x - at.x) / at.width * 100, box.width / at.width * 100);
      if (above) place(box, 0, 100);
    }
    find("reset").classList.toggle("hidden", zoomed === 0);
  }

  function resize() {
    const width = Math.max(root.clientWidth || 0, 400);
    pixels = width - 2 * edge;
    frames.setAttribute("width", pixels);
    for (const right of root.querySelectorAll(".right")) right.setAttribute("x", width - edge);
    draw();
  }

  function zoom(at) {
    zoomed = at;
    draw();
  }

  // Matched boxes, without those that stand on a matched one.
  function search(words) {
    let pattern = null;
    if (words) {
      const flags = words === words.toLowerCase() ? "i" : "";
      try {
        pattern = new RegExp(words, flags);
      } catch {
        pattern = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), flags);
      }
    }
    let matched = 0;
    let below = Infinity;
    boxes.forEach((box) => {
      const hit = pattern !== null && box.depth > 0 && pattern.test(box.says.split("\n", 2).join("\n"));
      box.group.classList.toggle("hit", hit);
      if (box.depth <= below) below = Infinity;
      if (hit && below === Infinity) {
        matched += box.width;
        below = box.depth;
      }
    });
    find("matched").textContent = pattern ? "matched: " + matched.toFixed(1) + " %" : "";
  }

  const indexOf = (target) => {
    const group = target.closest && target.closest("#boxes > g");
    return group ? boxes.findIndex((box) => box.group === group) : -1;
  };
  frames.addEventListener("click", (event) => {
    const at = indexOf(event.target);
    if (at >= 0) zoom(at);
  });
  frames.addEventListener("mouseover", (event) => {
    const at = indexOf(event.target);
    if (at >= 0) find("details").textContent = boxes[at].says.split("\n").join("  ·  ");
  });
  frames.addEventListener("mouseout", () => { find("details").textContent = ""; });
  find("reset").addEventListener("click", () => zoom(0));

  const field = document.createElementNS(HTML, "input");
  field.setAttribute("type", "search");
  field.setAttribute("placeholder", "search (regular expression)");
  field.setAttribute("aria-label", "search");
  field.setAttribute("style", "width: 100%; box-sizing: border-box; font: 12px sans-serif");
  field.addEventListener("input", () => search(field.value));
  const around = document.createElementNS(SVG, "foreignObject");
  for (const [name, value] of [["x", edge], ["y", SEARCH_Y], ["width", 220], ["height", 26], ["class", "screen"]]) {
    around.setAttribute(name, value);
  }
  around.append(field);
  root.append(around);

  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      field.value = "";
      search("");
      zoom(0);
      field.blur();
    } else if (document.activeElement !== field && (event.key === "/" || (event.ctrlKey && event.key === "f"))) {
      event.preventDefault();
      field.focus();
    }
  });
  window.addEventListener("resize", resize);
  for (const part of root.querySelectorAll(".screen.hidden:not(#reset)")) part.classList.remove("hidden");
  root.removeAttribute("viewBox");
  root.setAttribute("width", "100%");
  resize();
  // The root of a tall graph is at its bottom.
  if (UPWARDS) window.scrollTo(0, document.documentElement.scrollHeight || root.getBoundingClientRect().height);
})();
