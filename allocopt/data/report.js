"use strict";
/* Tables are sorted by the columns whose titles are pressed; what is missing stays last. */
for (const table of document.querySelectorAll("table.sortable")) {
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
/* A printed page shows all of itself. */
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
