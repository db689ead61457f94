/* Fetch the page again at intervals, and replace the parts that have changed. */
const period_ms = 4000;
const blocks = (page) => [...page.querySelectorAll("main > section > *")];
const stale = document.querySelector("header").appendChild(document.createElement("p"));
stale.className = "source";
stale.setAttribute("role", "status");
/* Keep the sort order, scroll position and hidden series that the reader has chosen. */
const keep = (old, next) => {
  const sorted = old.querySelector("th[aria-sort]");
  if (sorted) {
    const header = next.querySelectorAll("th")[sorted.cellIndex];
    for (let press = 0; header && press < 2 && header.getAttribute("aria-sort") !== sorted.getAttribute("aria-sort"); press++)
      header.firstElementChild.click();
  }
  const boxes = next.querySelectorAll(".scroll");
  old.querySelectorAll(".scroll").forEach((box, at) => boxes[at]?.scrollTo(box.scrollLeft, box.scrollTop));
  old.querySelectorAll('.legend [aria-pressed="false"]').forEach((button) =>
    next.querySelector(`.legend [data-series="${button.dataset.series}"]`)?.click());
};
let shown = [];
const show = (page) => {
  const nexts = blocks(page);
  const texts = nexts.map((next) => next.outerHTML);
  const olds = blocks(document);
  document.title = page.title;
  if (olds.length !== nexts.length) {
    for (const part of ["nav", "main"]) document.querySelector(part).replaceWith(page.querySelector(part));
    nexts.forEach(enliven);
  } else {
    nexts.forEach((next, at) => {
      if (texts[at] === shown[at]) return;
      olds[at].replaceWith(next);
      enliven(next);
      keep(olds[at], next);
    });
  }
  shown = texts;
};
const renew = async () => {
  try {
    if (!document.hidden) {
      const answer = await fetch(location.pathname, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      show(new DOMParser().parseFromString(await answer.text(), "text/html"));
      stale.textContent = "";
    }
  } catch {
    stale.textContent = "This page is no longer updated: allocopt live page does not respond.";
  }
  setTimeout(renew, period_ms);
};
setTimeout(renew, period_ms);
