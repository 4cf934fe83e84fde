// Nothing here is needed: pages work without it. It shows times in the reader's zone, keeps a form
// from being sent twice by a second click, and passes over tables that fit when Tab is pressed.
"use strict";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "your zone";
for (const time of document.querySelectorAll("time[datetime]")) {
  const at = new Date(time.dateTime);
  if (!Number.isNaN(at.getTime())) {
    time.title = time.textContent;
    time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
}
for (const place of document.querySelectorAll("[data-zone]")) {
  place.textContent = `in your zone (${zone})`;
}

for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", () => {
    const button = form.querySelector("button[type=submit]");
    // After the browser has taken the form: a button that is off would not be part of it.
    setTimeout(() => { if (button) button.disabled = true; }, 0);
  });
}
// A page that comes back from the browser's memory must be usable again.
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button[disabled]")) button.disabled = false;
});

const tables = document.querySelectorAll(".scroll");
const passOver = () => {
  for (const table of tables) table.tabIndex = table.scrollWidth > table.clientWidth ? 0 : -1;
};
addEventListener("resize", passOver);
passOver();
