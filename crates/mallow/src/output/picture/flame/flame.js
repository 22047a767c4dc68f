// Zoom, search, and names that fit after both. Without scripts the picture is complete, with its tooltips.
(() => {
  "use strict";
  const { SVG, EDGE, LINE, root } = page;
  const find = (id) => root.querySelector("#" + id);
  const frames = find("boxes");
  const HTML = "http://www.w3.org/1999/xhtml";

  // Boxes come in the order of the tree: what stands on a box follows it.
  const boxes = Array.from(frames.children, (group) => {
    const rect = group.querySelector("rect");
    return {
      group, rect,
      text: group.querySelector("text"),
      says: group.querySelector("title").textContent,
      name: NAMES[group.dataset.f],
      numbers: group.dataset.v,
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

  // The width of a character, and the height without a script.
  const probe = document.createElementNS(SVG, "text");
  probe.textContent = "M".repeat(50);
  frames.append(probe);
  const character = probe.getComputedTextLength() / 50 || CHARACTER;
  probe.remove();
  const height = Number(root.getAttribute("height"));

  // The same rule as in the file: C++ and Rust names are most specific at their end.
  function fitting(name, room) {
    const fits = Math.floor(room / character);
    const all = Array.from(name);
    if (all.length <= fits) return name;
    if (fits < 3) return "";
    return name.includes("::") ? "…" + all.slice(1 - fits).join("") : all.slice(0, fits - 1).join("") + "…";
  }

  // The numbers beside the name, or the last of them, the percentage, where there is room.
  function numbers(box, room) {
    const left = Math.floor(room / character) - Array.from(box.name).length - 2;
    const percent = box.numbers.slice(box.numbers.indexOf("  ") + 2);
    return [box.numbers, percent].find((numbers) => numbers.length <= left) || "";
  }

  function place(box, x, width) {
    box.rect.setAttribute("x", x + "%");
    box.rect.setAttribute("width", width + "%");
    box.rect.classList.toggle("s", width / 100 * pixels < SLIVER);
    const room = width / 100 * pixels - 6;
    const words = fitting(box.name, room);
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
      const beside = numbers(box, room);
      if (beside) {
        const part = document.createElementNS(SVG, "tspan");
        part.setAttribute("class", "v");
        part.textContent = "\u00a0\u00a0" + beside.replace("  ", "\u00a0\u00a0");
        box.text.append(part);
      }
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

  // Entries side by side, as many as there is room for. Returns the rows they take.
  function legend(width) {
    let x = EDGE, row = 0;
    for (const entry of find("legend").children) {
      const swatch = entry.querySelector("rect");
      const text = entry.querySelector("text");
      const aside = swatch ? 18 : 0;
      const room = width - 2 * EDGE - aside;
      page.fit(text, Infinity);
      const length = Math.min(text.getComputedTextLength(), room);
      if (x > EDGE && x + aside + length > width - EDGE || entry.dataset.row) {
        x = EDGE;
        row++;
      }
      if (swatch) {
        swatch.setAttribute("x", x);
        swatch.setAttribute("y", LINE * row - 10);
      }
      text.setAttribute("x", x + aside);
      text.setAttribute("y", LINE * row);
      row += page.wrap(text, room) - 1;
      x += aside + length + 20;
    }
    return row + 1;
  }

  function resize() {
    const width = page.width();
    pixels = width - 2 * EDGE;
    const more = page.head(width) * LINE;
    find("tools").setAttribute("transform", "translate(0 " + more + ")");
    find("content").setAttribute("transform", "translate(0 " + more + ")");
    find("head-paper").setAttribute("height", TOP + more - 4);
    const rows = legend(width) - LEGEND_ROWS;
    page.setHeight(height + more + rows * LINE);
    frames.setAttribute("width", pixels);
    for (const right of root.querySelectorAll(".right")) right.setAttribute("x", width - EDGE);
    around.setAttribute("width", Math.min(220, width - 2 * EDGE - 190));
    find("matched").setAttribute("x", EDGE + Math.min(220, width - 2 * EDGE - 190) + 12);
    draw();
    scroll();
  }

  // The title and what can be used stay in sight.
  function scroll() {
    find("head").setAttribute("transform", "translate(0 " + window.scrollY + ")");
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
      const hit = pattern !== null && box.depth > 0 && pattern.test(box.says.split("\n").slice(1, 3).join("\n"));
      box.group.classList.toggle("hit", hit);
      if (box.depth <= below) below = Infinity;
      if (hit && below === Infinity) {
        matched += box.width;
        below = box.depth;
      }
    });
    find("matched").textContent = pattern ? "matched: " + matched.toFixed(1) + " %" : "";
  }

  // The numbers first, then the name; what there is no room for is in the tooltip.
  function details([size = "", name = "", ...rest]) {
    const width = page.width() - 2 * EDGE;
    page.fit(find("size"), width, size);
    const left = width - find("size").getComputedTextLength() - 16;
    find("function").setAttribute("x", EDGE + width - left);
    page.fit(find("function"), left, name);
    page.fit(find("details"), width, rest.join("  ·  "));
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
    if (at >= 0) details(boxes[at].says.split("\n"));
  });
  frames.addEventListener("mouseout", () => details([]));
  find("reset").addEventListener("click", () => zoom(0));

  const field = document.createElementNS(HTML, "input");
  field.setAttribute("type", "search");
  field.setAttribute("placeholder", "search (regular expression)");
  field.setAttribute("aria-label", "search");
  field.setAttribute("style", "width: 100%; box-sizing: border-box; font: 12px system-ui, sans-serif");
  field.addEventListener("input", () => search(field.value));
  const around = document.createElementNS(SVG, "foreignObject");
  for (const [name, value] of [["x", EDGE], ["y", SEARCH_Y], ["width", 220], ["height", 26], ["class", "screen"]]) {
    around.setAttribute(name, value);
  }
  around.append(field);
  find("tools").append(around);

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
  window.addEventListener("scroll", scroll);
  resize();
  // The root of a tall graph is at its bottom.
  if (UPWARDS) window.scrollTo(0, document.documentElement.scrollHeight || root.getBoundingClientRect().height);
  scroll();
})();
