// Sorting, filtering and choosing. Without scripts the page shows everything, one part after the other.
"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const field = (id) => document.getElementById(id);
const chosen = (id) => field(id)?.value ?? "";

function showView() {
  const wanted = location.hash.slice(1);
  const views = all(".view");
  const view = views.find((each) => each.id === wanted) ?? views[0];
  for (const each of views) each.hidden = each !== view;
  for (const each of all("section[data-data]:not(.view)")) each.hidden = each.dataset.data !== view.dataset.data;
  if (field("view")) field("view").value = view.id;
  filter();
}

function matches(element) {
  const text = chosen("text").trim().toLowerCase().replaceAll("_", " ");
  const name = element.dataset.corruption.toLowerCase().replaceAll("_", " ");
  const group = groups.get(element.dataset.corruption);
  return name.includes(text) && (!chosen("group") || !group || group === chosen("group"));
}

function filter() {
  for (const element of all("[data-corruption]")) element.hidden = !matches(element);
  for (const table of all(".heat-map")) {
    const bodies = [...table.tBodies];
    const one = bodies.find((body) => body.dataset.severity === chosen("severity")) ?? bodies[0];
    for (const body of bodies) {
      body.hidden = body !== one;
      average(body);
    }
  }
  const rows = all(".view:not([hidden]) tbody:not([hidden]) tr[data-corruption]");
  field("shown").value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
}

// The last row is the mean of the corruptions that are shown.
function average(body) {
  const mean = body.querySelector(".mean");
  if (!mean) return;
  const every = all('tr[data-corruption]:not([data-corruption="clean"])', body);
  const rows = every.filter((row) => !row.hidden);
  const partial = rows.length < every.length;
  mean.querySelector(".count").textContent = partial ? ` of ${rows.length} shown` : "";
  [...mean.cells].slice(1).forEach((cell, index) => {
    cell.dataset.html ??= cell.innerHTML;
    cell.dataset.note ??= cell.title;
    cell.innerHTML = cell.dataset.html;
    cell.title = cell.dataset.note;
    if (!partial) return;
    const own = rows.map((row) => row.cells[index + 1].dataset);
    const number = document.createElement("span");
    number.textContent = meanText(own.map((each) => each.value), body.closest(".view").dataset);
    cell.replaceChildren(number);
    cell.title = "mean of the rows shown; its interval is at most the mean of theirs";
    const half = meanText(own.map((each) => each.half), body.closest(".view").dataset);
    if (half !== "–") cell.append(Object.assign(document.createElement("small"), { textContent: `±${half}` }));
  });
}

function meanText(values, { scale, digits }) {
  if (!values.length || values.includes(undefined)) return "–";
  const sum = values.reduce((total, value) => total + Number(value), 0);
  return ((scale * sum) / values.length).toFixed(digits).replace("-", "−");
}

function sortBy(heading) {
  const table = heading.closest("table");
  const column = heading.cellIndex;
  const next = { none: "descending", descending: "ascending", ascending: "none" };
  const order = next[heading.getAttribute("aria-sort")];
  for (const other of all("th", table.tHead)) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", order);
  const sign = { none: 0, ascending: 1, descending: -1 }[order];
  for (const body of table.tBodies) {
    const rows = all("tr[data-corruption]", body);
    rows.forEach((row, index) => { row.dataset.place ??= index; });
    rows.sort((a, b) => sign * compare(a, b, column) || a.dataset.place - b.dataset.place);
    body.append(...rows, ...all(".mean", body));
  }
}

// By name in the first column, by value in the others; what was not measured counts as least.
function compare(a, b, column) {
  const [one, other] = [a.cells[column], b.cells[column]];
  if (column === 0) return one.textContent.localeCompare(other.textContent);
  return Number(one.dataset.value ?? -Number.MAX_VALUE) - Number(other.dataset.value ?? -Number.MAX_VALUE);
}

function makeSortable(heading) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...heading.childNodes);
  heading.append(button);
  heading.setAttribute("aria-sort", "none");
  button.addEventListener("click", () => sortBy(heading));
}

const groups = new Map(all("tr[data-corruption]").map((row) => [row.dataset.corruption, row.dataset.group]));
all(".heat-map thead th").forEach(makeSortable);
all(".controls, .enhanced, #theme").forEach((element) => { element.hidden = false; });
field("theme").addEventListener("click", () => theme.toggle());
if (all(".view").length) {
  field("view")?.addEventListener("change", () => { location.hash = chosen("view"); });
  for (const id of ["severity", "group", "text"]) field(id)?.addEventListener("input", filter);
  document.querySelector(".controls").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", showView);
  showView();
}
