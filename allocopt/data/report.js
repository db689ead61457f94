"use strict";
/* Show the value at the pointer: the label of a mark, or the nearest point of a line, computed from its path. */
const value = document.body.appendChild(document.createElement("div"));
value.id = "value";
value.setAttribute("role", "status");
const bend = {
  linear: [(v) => v, (v) => v],
  log: [Math.log, Math.exp],
  symlog: [(v, c) => Math.sign(v) * Math.log1p(Math.abs(v) / c), (v, c) => Math.sign(v) * Math.expm1(Math.abs(v)) * c],
};
const read = ({ domain, scale, constant, unit }, share) => {
  const [to, from] = bend[scale];
  const [low, high] = domain.map((end) => to(end, constant));
  const found = from(low + share * (high - low), constant);
  if (unit !== "duration") return `${Number(found.toPrecision(3)).toLocaleString("en")} ${unit}`.trim();
  const [size, name] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([least]) => found >= least) ?? [1, "s"];
  return `${Number((found / size).toPrecision(3))} ${name}`;
};
const nearest = (panel, x, y) => {
  let best = null;
  for (const path of panel.querySelectorAll(".mark-line:not(.off) path[aria-label]")) {
    const matrix = path.getScreenCTM();
    for (const [, a, b] of path.getAttribute("d").matchAll(/[ML](-?[\d.e-]+),(-?[\d.e-]+)/g)) {
      const point = new DOMPoint(a, b).matrixTransform(matrix);
      const far = Math.hypot(point.x - x, point.y - y);
      if (far < (best?.far ?? 24)) best = { far, point, name: path.getAttribute("aria-label") };
    }
  }
  if (best === null) return "";
  const axes = JSON.parse(panel.dataset.axes);
  const plane = panel.querySelector(".role-frame > g > .background").getBoundingClientRect();
  const across = read(axes.x, (best.point.x - plane.left) / plane.width);
  return `${best.name}: ${read(axes.y, (plane.bottom - best.point.y) / plane.height)} at ${across}`;
};
/* Make the tables and figures in an element interactive. */
const enliven = (root) => {
  /* Sort a table by the column whose title is clicked; missing values stay last. */
  for (const table of root.querySelectorAll("table.sortable")) {
    const headers = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    headers.forEach((header, column) => {
      header.firstElementChild.addEventListener("click", () => {
        const number = header.classList.contains("number");
        const now = header.getAttribute("aria-sort");
        const next = now === "ascending" ? "descending" : "ascending";
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        const keyed = [...body.rows].map((row) => [row.cells[column].dataset.key ?? row.cells[column].textContent, row]);
        keyed.sort(([a], [b]) => {
          if (a === "" || b === "") return (a === "") - (b === "");
          return sign * (number ? a - b : a.localeCompare(b, "en", { numeric: true }));
        });
        body.append(...keyed.map(([, row]) => row));
      });
    });
  }
  /* Show a hint at boxes that scroll sideways while content is hidden to the right. */
  for (const box of root.querySelectorAll(".scroll")) {
    const hint = document.createElement("p");
    hint.className = "hint";
    hint.textContent = "more to the right \u2192";
    hint.setAttribute("aria-hidden", "true");
    const look = () => {
      const hides = box.scrollWidth > box.clientWidth + 1;
      const more = hides && box.scrollLeft + box.clientWidth < box.scrollWidth - 1;
      box.classList.toggle("more", more);
      hint.hidden = !hides;
      hint.style.visibility = more ? "visible" : "hidden";
    };
    box.after(hint);
    box.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(box);
  }
  /* Names in a legend show and hide their series in all panels of the figure. */
  for (const button of root.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", shown);
      const marks = `[class*=" series${button.dataset.series}_"]`;
      button.closest(".plot").querySelectorAll(marks).forEach((mark) => mark.classList.toggle("off", !shown));
    });
  }
  for (const panel of root.querySelectorAll("[data-axes]")) {
    panel.addEventListener("pointermove", (event) => {
      const marked = event.target.closest('.role-mark [aria-label]:not([aria-roledescription="line mark"])');
      value.textContent = marked?.getAttribute("aria-label") ?? nearest(panel, event.clientX, event.clientY);
      value.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - value.offsetWidth - 4))}px`;
      value.style.top = `${Math.max(4, event.clientY - value.offsetHeight - 12)}px`;
    });
    panel.addEventListener("pointerleave", () => (value.textContent = ""));
    /* Ctrl and the wheel zoom, dragging moves a zoomed panel, a double click shows all of it again. */
    const svg = panel.querySelector("svg");
    const whole = svg.getAttribute("viewBox").split(" ").map(Number);
    let [left, top, width, height] = whole;
    const show = (...wanted) => {
      width = Math.min(Math.max(wanted[2], whole[2] / 40), whole[2]);
      height = (width / whole[2]) * whole[3];
      left = Math.min(Math.max(wanted[0], 0), whole[2] - width);
      top = Math.min(Math.max(wanted[1], 0), whole[3] - height);
      svg.setAttribute("viewBox", `${left} ${top} ${width} ${height}`);
    };
    panel.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        const box = svg.getBoundingClientRect();
        const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
        const next = Math.min(width * Math.exp(event.deltaY / 400), whole[2]);
        show(left + x * (width - next), top + y * (height - (next / whole[2]) * whole[3]), next);
      },
      { passive: false },
    );
    svg.addEventListener("pointermove", (event) => {
      const scale = width / svg.getBoundingClientRect().width;
      if (event.buttons === 1 && width < whole[2]) show(left - event.movementX * scale, top - event.movementY * scale, width);
    });
    svg.addEventListener("dblclick", () => show(...whole));
  }
};
enliven(document);
/* Open folded parts before the page is printed. */
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
