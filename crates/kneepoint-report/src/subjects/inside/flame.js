// Zoom and search of the flame graphs. Positions are shares of the whole; the picture is redrawn by setting them anew.
for (const flame of document.querySelectorAll(".flame")) {
  const frames = [...flame.querySelectorAll("svg[data-x]")].map((node) => ({
    node,
    x: Number(node.dataset.x),
    w: Number(node.dataset.w),
    y: Number(node.getAttribute("y")),
    name: node.querySelector("title").textContent.split("\n")[0].toLowerCase(),
  }));
  const [search, out, told] = ["input", "button", "output"].map((name) => flame.querySelector(name));

  // What rounding may add to a share of what is zoomed to.
  const SLACK = 1e-5;

  const zoom = (to) => {
    for (const { node, x, w, y } of frames) {
      const start = (x - to.x) / to.w;
      const end = (x + w - to.x) / to.w;
      // What called it fills the width.
      const above = y < to.y && start <= SLACK && end >= 1 - SLACK;
      const within = start > -SLACK && end < 1 + SLACK && y >= to.y;
      node.style.display = above || within ? "" : "none";
      node.setAttribute("x", `${100 * Math.max(0, start)}%`);
      node.setAttribute("width", `${100 * (above ? 1 : w / to.w)}%`);
      node.classList.toggle("above", above);
    }
    out.hidden = to === frames[0];
  };

  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    let [covered, until] = [0, 0];
    const found = frames.filter(({ node, name }) => {
      const hit = wanted !== "" && name.includes(wanted);
      node.classList.toggle("hit", hit);
      return hit;
    });
    // A function that calls itself is met once.
    for (const { x, w } of found.sort((a, b) => a.x - b.x || b.w - a.w)) {
      if (x + w > until) {
        covered += x + w - Math.max(x, until);
        until = x + w;
      }
    }
    told.textContent = wanted === "" ? "" : `${(100 * covered).toFixed(1)} % of the time`;
  };

  for (const frame of frames) frame.node.addEventListener("click", () => zoom(frame));
  out.addEventListener("click", () => zoom(frames[0]));
  search.addEventListener("input", find);
}
