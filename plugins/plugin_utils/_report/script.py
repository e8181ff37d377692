# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The script of a report's page. It is not put together from data: a page runs only a script with its hash."""

from __future__ import annotations

SCRIPT = """
"use strict";
const collator = new Intl.Collator(undefined, {numeric: true, sensitivity: "base"});
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const keyOf = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.dataset.label = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const body of table.tBodies) {
        const rows = [...body.rows].map((row) => [keyOf(row, column), row]);
        rows.sort((one, other) => collator.compare(one[0], other[0]) * (down ? -1 : 1));
        body.append(...rows.map(([, row]) => row));
      }
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}

for (const tools of document.querySelectorAll(".tools")) {
  const input = tools.querySelector("input");
  const shown = tools.querySelector("output");
  const rows = [...document.querySelectorAll(".sortable tbody tr")];
  const texts = rows.map((row) => [row, row.textContent.toLowerCase()]);
  const lanes = [...document.querySelectorAll(".timeline tbody tr")];
  const apply = () => {
    const wanted = input.value.trim().toLowerCase();
    const found = new Set();
    for (const [row, text] of texts) {
      row.hidden = !text.includes(wanted);
      if (!row.hidden && row.id) found.add(row.id);
    }
    for (const lane of lanes) {
      const links = [...lane.querySelectorAll("a")];
      const isFound = (link) => found.has(link.getAttribute("href").slice(1));
      for (const link of links) link.style.opacity = isFound(link) ? "" : ".2";
      lane.hidden = !links.some(isFound);
    }
    const all = rows.filter((row) => row.id).length;
    shown.textContent = wanted ? `${found.size} of ${all} events` : "";
  };
  input.addEventListener("input", apply);
  tools.hidden = false;
  if (input.value) apply();
}

const openTarget = () => {
  const target = document.getElementById(location.hash.slice(1));
  const folded = target?.closest("details");
  if (folded && !folded.open) {
    folded.open = true;
    target.scrollIntoView();
  }
};
addEventListener("hashchange", openTarget);
openTarget();

const {written, asked, warnAfter} = document.body.dataset;
const inWords = (seconds) => {
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    if (seconds >= size) parts.push(`${Math.floor(seconds / size)} ${unit}`);
    seconds %= size;
  }
  return parts.slice(0, 2).join(" ") || "0 s";
};
const coarse = (seconds) => inWords(seconds < 120 ? seconds : seconds - seconds % 60);
const counting = [...document.querySelectorAll("[data-at]")];
const pieces = document.querySelector(".timeline")?.dataset.axis.split(";");
const axis = pieces?.map((piece) => piece.split(",").map(Number));
const set = (element, name, value) => {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
};
const goOn = () => {
  // A clock that is behind must not make the page younger than it is.
  const now = Math.max(Math.floor(Date.now() / 1000), Number(written));
  for (const element of counting) {
    const left = Number(element.dataset.at) - now;
    const text = left > 0 ? `in ${coarse(left)}` : "due";
    if (element.textContent !== text) element.textContent = text;
  }
  if (axis) {
    const since = now - written;
    const [begin, end, left, right] = axis.find((piece) => since < piece[1]) ?? axis.at(-1);
    const place = `${(left + Math.min(1, (since - begin) / (end - begin)) * (right - left)).toFixed(1)}%`;
    const line = document.getElementById("now");
    const label = document.getElementById("at-now");
    for (const name of ["x1", "x2"]) set(line, name, place);
    set(label, "x", place);
    const [day, time] = new Date(now * 1000).toISOString().split("T");
    const isOtherDay = day !== new Date(written * 1000).toISOString().slice(0, 10);
    const [furthest, back] = isOtherDay ? [50, "-130"] : [80, "-60"];
    set(label, "dx", parseFloat(place) > furthest ? back : "4");
    label.textContent = `now ${isOtherDay ? `${day} ` : ""}${time.slice(0, 5)}`;
  }
  const old = document.getElementById("old");
  if (old) {
    old.hidden = now - asked <= warnAfter;
    document.getElementById("age").textContent = inWords(now - asked);
  }
};
if (written) {
  goOn();
  setInterval(goOn, 1000);
  document.addEventListener("visibilitychange", goOn);
  addEventListener("beforeprint", goOn);
}
"""
