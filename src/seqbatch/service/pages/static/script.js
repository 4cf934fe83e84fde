// Nothing here is needed: pages work without it. It shows times in the reader's zone, keeps a form
// from being sent twice by a second click, says that an answer is coming, passes over tables that fit when Tab is pressed, searches
// columns, and puts sliders and answers into the planner.
"use strict";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "local";
for (const time of document.querySelectorAll("time[datetime]")) {
  const at = new Date(time.dateTime);
  if (!Number.isNaN(at.getTime())) {
    time.title = time.textContent;
    const short = "day" in time.dataset ? {} : { timeStyle: "short" };
    time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", ...short });
  }
}
for (const place of document.querySelectorAll("[data-zone]")) {
  place.textContent = `in your time zone (${zone})`;
}

for (const form of document.querySelectorAll("form:not([data-planner])")) {
  form.addEventListener("submit", (event) => {
    const unseen = !event.submitter || event.submitter.classList.contains("unseen");
    const pressed = unseen ? form.querySelector("button.main") : event.submitter;
    const buttons = form.querySelectorAll("button[type=submit]");
    // After the browser has taken the form: a button that is off would not be part of it.
    setTimeout(() => { for (const button of buttons) button.disabled = true; }, 0);
    // Some answers take seconds: say that one is coming.
    setTimeout(() => {
      if (!pressed) return;
      pressed.dataset.label = pressed.textContent;
      pressed.textContent = "Working…";
    }, 1000);
  });
}
// A page that comes back from the browser's memory must be usable again.
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button[disabled]")) {
    button.disabled = false;
    if (button.dataset.label) button.textContent = button.dataset.label;
  }
});

const tables = document.querySelectorAll(".scroll");
const passOver = () => {
  for (const table of tables) table.tabIndex = table.scrollWidth > table.clientWidth ? 0 : -1;
};
addEventListener("resize", passOver);
passOver();

// The planner: a slider beside every number, and the answer anew when one of them moves.
const planner = document.querySelector("form[data-planner]");
if (planner) {
  const place = document.getElementById("answer");
  const said = document.getElementById("said");
  const wait = (ms, signal) => new Promise((done, ended) => {
    setTimeout(done, ms);
    signal.addEventListener("abort", () => ended(signal.reason), { once: true });
  });
  let asking = new AbortController();

  const tell = (part) => {
    const section = part.querySelector("[data-said]");
    const field = part.querySelector("[data-field]")?.dataset.field;
    for (const input of planner.querySelectorAll("input[type=number]")) {
      if (input.name === field) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
    for (const old of planner.querySelectorAll(".wrong")) old.remove();
    if (!section) return "";
    const whole = section.dataset.step === "whole";
    return whole ? `The plan: ${section.dataset.said}.` : `First answer: ${section.dataset.said}. Still planning…`;
  };
  const show = async (answer) => {
    if (answer.headers.get("content-type").startsWith("text/html")) {
      place.innerHTML = await answer.text();
      said.textContent = tell(place);
      return;
    }
    const problem = document.createElement("div");
    problem.className = "notice problem";
    problem.append(Object.assign(document.createElement("p"), { textContent: (await answer.json()).detail }));
    place.replaceChildren(problem);
    said.textContent = "";
  };
  const fetched = async (query, step, signal) => {
    for (;;) {
      const headers = { accept: "application/problem+json" };
      const answer = await fetch(`${planner.getAttribute("action")}?${query}&part=${step}`, { signal, headers });
      if (answer.status !== 429) return answer;
      await wait(1000 * (Number(answer.headers.get("retry-after")) || 2), signal);
    }
  };
  // The last question wins: what was asked before is given up, here and on the server.
  const ask = async (delay) => {
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    try {
      await wait(delay, signal);
      const query = new URLSearchParams(new FormData(planner));
      history.replaceState(null, "", `${planner.getAttribute("action")}?${query}`);
      said.textContent = "Planning…";
      place.setAttribute("aria-busy", "true");
      for (const step of ["quick", "whole"]) {
        const answer = await fetched(query, step, signal);
        await show(answer);
        if (!answer.ok || place.querySelector("[data-step=whole]")) break;
      }
      place.removeAttribute("aria-busy");
    } catch (error) {
      if (signal.aborted) return;
      place.removeAttribute("aria-busy");
      said.textContent = "The service does not answer. Change a number to try again.";
    }
  };

  for (const input of planner.querySelectorAll("input[data-low]")) {
    const low = Number(input.dataset.low), high = Number(input.dataset.high);
    const log = "log" in input.dataset, steps = 100;
    const label = planner.querySelector(`label[for="${input.id}"]`).textContent;
    const suffix = input.parentElement.querySelector(".suffix")?.textContent ?? "";
    const box = document.getElementById(`no-${input.name}`);
    const slider = document.createElement("input");
    Object.assign(slider, {
      type: "range", min: log ? 0 : low, max: log ? steps : high, step: log ? 1 : input.dataset.step,
    });
    slider.setAttribute("aria-label", `${label}, slider`);
    const places = () => {
      const value = Math.min(Math.max(Number(input.value) || low, low), high);
      slider.value = log ? steps * Math.log(value / low) / Math.log(high / low) : value;
      slider.setAttribute("aria-valuetext", `${Number(input.value).toLocaleString()} ${suffix}`.trim());
    };
    slider.addEventListener("input", () => {
      const value = log ? low * (high / low) ** (slider.value / steps) : Number(slider.value);
      input.value = log ? String(Number(value.toPrecision(2))) : String(value);
      slider.setAttribute("aria-valuetext", `${Number(input.value).toLocaleString()} ${suffix}`.trim());
      ask(250);
    });
    input.addEventListener("input", () => { places(); ask(500); });
    const off = () => { input.disabled = slider.disabled = Boolean(box?.checked); };
    box?.addEventListener("change", () => { off(); ask(100); });
    input.closest(".amount").after(slider);
    places();
    off();
  }
  planner.addEventListener("submit", (event) => { event.preventDefault(); ask(0); });
  if ("ask" in place.dataset) ask(0);
}

// What campaigns have shown, which takes time to compute: asked for one after the other.
(async () => {
  for (const place of document.querySelectorAll("[data-headline]")) {
    const answer = await fetch(place.dataset.headline);
    if (answer.ok) place.textContent = await answer.text();
  }
})();

// A form whose answer is shown once is sent once.
for (const form of document.querySelectorAll("form.single")) {
  let sent = false;
  form.addEventListener("submit", (event) => { if (sent) event.preventDefault(); sent = true; });
  addEventListener("pageshow", () => { sent = false; });
}

// A form whose answer takes some seconds says so at once.
for (const slow of document.querySelectorAll("form[data-slow]")) {
  slow.addEventListener("submit", () => {
    const said = document.querySelector("[data-said]");
    if (said) said.textContent = slow.dataset.slow;
  });
}

// Columns of a new campaign: search them; a column with another role is used.
const search = document.getElementById("search");
if (search) {
  const groups = document.querySelectorAll(".group"), open = new Set();
  search.parentElement.hidden = false;
  for (const group of groups) {
    for (const select of group.querySelectorAll("select")) {
      select.addEventListener("change", () => {
        select.closest("li").querySelector("input[type=checkbox]").checked = true;
      });
    }
    if (group.open) open.add(group);
  }
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    for (const group of groups) {
      let found = 0;
      for (const item of group.querySelectorAll("li")) {
        const name = item.querySelector("label, strong").textContent.toLowerCase();
        item.hidden = !name.includes(wanted);
        found += !item.hidden;
      }
      group.hidden = !found;
      group.open = wanted ? found > 0 : open.has(group);
    }
  });
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
}
// A link to a field opens what hides it.
const reveal = () => {
  for (let place = document.getElementById(location.hash.slice(1)); place; place = place.parentElement) {
    if (place.tagName === "DETAILS") place.open = true;
  }
};
addEventListener("hashchange", reveal);
reveal();

// A rehearsal goes on by itself; without this script, by its button.
const rehearsing = document.querySelector("form[data-again]");
if (rehearsing) setTimeout(() => rehearsing.requestSubmit(), 200);
