/* The page asks for itself again, and what has changed on it takes the place of what was there. */
const period_ms = 4000;
const blocks = (page) => [...page.querySelectorAll("main > section > *")];
const stale = document.querySelector("header").appendChild(document.createElement("p"));
stale.className = "source";
stale.setAttribute("role", "status");
/* Readers keep the order and the place that they have chosen. */
const keep = (old, next) => {
  const sorted = old.querySelector("th[aria-sort]");
  if (sorted) {
    const header = next.querySelectorAll("th")[sorted.cellIndex];
    for (let press = 0; press < 2 && header.getAttribute("aria-sort") !== sorted.getAttribute("aria-sort"); press++)
      header.firstElementChild.click();
  }
  const boxes = next.querySelectorAll(".scroll");
  old.querySelectorAll(".scroll").forEach((box, at) => boxes[at]?.scrollTo(box.scrollLeft, box.scrollTop));
  old.querySelectorAll('.legend [aria-pressed="false"]').forEach((button) =>
    next.querySelector(`.legend [data-series="${button.dataset.series}"]`)?.click());
};
let shown = [];
const renew = async () => {
  try {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const nexts = blocks(page);
    const texts = nexts.map((next) => next.outerHTML);
    const olds = blocks(document);
    if (olds.length !== nexts.length) document.querySelector("main").replaceWith(page.querySelector("main"));
    nexts.forEach((next, at) => {
      if (olds.length === nexts.length) {
        if (texts[at] === shown[at]) return;
        olds[at].replaceWith(next);
      }
      enliven(next);
      if (olds.length === nexts.length) keep(olds[at], next);
    });
    document.title = page.title;
    shown = texts;
    stale.textContent = "";
  } catch {
    stale.textContent = "This page is no longer renewed: allocopt live page does not answer.";
  }
  setTimeout(renew, period_ms);
};
setTimeout(renew, period_ms);
