// Makes the chart as wide as the window, and fits its texts.
(() => {
  "use strict";
  const { root, LINE, EDGE } = page;
  const content = root.querySelector("#content");
  const plot = root.querySelector("#plot");
  const beside = WIDTH - Number(plot.getAttribute("width"));
  const height = Number(root.getAttribute("height"));
  function resize() {
    const width = page.width();
    const more = page.head(width) * LINE;
    content.setAttribute("transform", "translate(0 " + more + ")");
    page.setHeight(height + more);
    plot.setAttribute("width", width - beside);
    for (const name of root.querySelectorAll("#content > .name")) {
      page.fit(name, width - EDGE - Number(name.getAttribute("x")));
    }
  }
  window.addEventListener("resize", resize);
  resize();
})();
