// Filters, sorting, copying and the theme. Every page says all it has to say without this file.
"use strict";
const root = document.documentElement;
const THEMES = ["auto", "light", "dark"];

// Storage and history are closed to some pages opened from a file; then the choice lasts as long as the page.
function attempt(action) {
  try { return action(); } catch { return null; }
}

function setTheme(theme) {
  if (theme === "auto") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", theme);
}
setTheme(attempt(() => localStorage.getItem("tilespec-theme")) || "auto");

function themeButton(button) {
  const show = () => { button.textContent = "Theme: " + (root.getAttribute("data-theme") || "auto"); };
  button.hidden = false;
  show();
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.getAttribute("data-theme") || "auto") + 1) % THEMES.length];
    setTheme(next);
    attempt(() => localStorage.setItem("tilespec-theme", next));
    show();
  });
}

// A form with data-filters="ID" shows those rows of #ID whose data-* equal its selects and whose text holds its words.
function filters(form) {
  const target = document.getElementById(form.dataset.filters);
  const rows = [...target.querySelectorAll("tbody tr")].map((row) => [row, row.textContent.toLowerCase()]);
  const given = new URLSearchParams(location.search);
  for (const field of form.elements) if (field.name && given.has(field.name)) field.value = given.get(field.name);
  const apply = () => {
    const fields = [...form.elements].filter((f) => f.name && f.value);
    const words = fields.filter((f) => f.name === "text").flatMap((f) => f.value.toLowerCase().split(/\s+/));
    const choices = fields.filter((f) => f.name !== "text");
    let shown = 0;
    for (const [row, text] of rows) {
      row.hidden = !(choices.every((f) => row.dataset[f.name] === f.value) && words.every((w) => text.includes(w)));
      shown += !row.hidden;
    }
    for (const part of target.querySelectorAll("details")) {
      const left = part.querySelector("tbody tr:not([hidden])");
      part.hidden = fields.length > 0 && !left;
      if (fields.length && left) part.open = true;
    }
    form.querySelector("output").textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
    const query = new URLSearchParams(fields.map((f) => [f.name, f.value])).toString();
    attempt(() => history.replaceState(null, "", (query ? "?" + query : location.pathname) + location.hash));
  };
  form.hidden = false;
  form.addEventListener("submit", (e) => e.preventDefault());
  form.addEventListener("input", apply);
  apply();
}

function sortable(table) {
  for (const head of table.querySelectorAll("th[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sortBy(table, head));
  }
}

// Rows move within the table's first body, so that an order runs over all areas.
function sortBy(table, head) {
  const falling = head.getAttribute("aria-sort") === "ascending";
  const column = columnOf(table, head);
  const value = (row) => {
    const cell = row.cells[column];
    return head.dataset.sort === "number" ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const order = head.dataset.sort === "number" ? (a, b) => a - b : (a, b) => a.localeCompare(b, "en", { numeric: true });
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
  rows.sort((a, b) => order(value(a), value(b)) * (falling ? -1 : 1));
  table.tBodies[0].append(...rows);
  for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falling ? "descending" : "ascending");
}

// Index of a heading's column; a heading over several columns counts as many.
function columnOf(table, head) {
  let column = 0;
  for (const cell of table.tHead.rows[0].cells) {
    if (cell === head) return column;
    column += cell.colSpan;
  }
  return column;
}

async function copyText(button, text) {
  const label = button.textContent;
  const done = await attempt(() => navigator.clipboard.writeText(text).then(() => true, () => false));
  if (!done) {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = label; }, 1200);
}

// Each row of an open case gets buttons with the commands that repeat it; made on demand, for there are thousands.
function commands(details) {
  const table = details.querySelector("table.instances");
  if (!details.open || table.dataset.ready) return;
  table.dataset.ready = "yes";
  const heads = [...table.tHead.rows[0].cells];
  const title = document.createElement("th");
  title.scope = "col";
  title.textContent = "Copy the command";
  table.tHead.rows[0].append(title);
  for (const row of table.tBodies[0].rows) {
    const params = row.cells[0].textContent;
    const id = table.dataset.case + (row.dataset.whole || params === "–" ? "" : ":" + params);
    const cell = document.createElement("td");
    heads.forEach((head, n) => {
      if (!head.dataset.impl || !row.cells[n].textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.dataset.impl;
      button.setAttribute("aria-label", `Copy the command that repeats ${params} on ${head.dataset.impl}`);
      button.addEventListener("click", () => copyText(button, `tilespec run '${id}' --target ${head.dataset.impl}`));
      cell.append(button);
    });
    row.append(cell);
  }
}

function openTarget() {
  const target = document.getElementById(attempt(() => decodeURIComponent(location.hash.slice(1))) || "");
  const details = target && target.closest("details");
  if (details) { details.open = true; target.scrollIntoView(); }
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-theme-button]").forEach(themeButton);
  document.querySelectorAll("[data-copy]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => copyText(button, button.previousElementSibling.textContent));
  });
  document.querySelectorAll("table[data-sortable]").forEach(sortable);
  document.querySelectorAll("details.case").forEach((details) => {
    commands(details);
    details.addEventListener("toggle", () => commands(details));
  });
  document.querySelectorAll("form[data-filters]").forEach(filters);
  openTarget();
});
window.addEventListener("hashchange", openTarget);
