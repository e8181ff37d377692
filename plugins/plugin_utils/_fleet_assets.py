# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Style and script of the page. Neither is put together from data: the page allows what has their hashes only."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --text: #1b2430; --dim: #586374; --edge: #d5dae2; --link: #0b5cad; --now: #c22f2f;
  --freeze: #1769c2; --reboot: #b25b00; --redeploy: #7a3fb0; --preempt: #c0245c; --terminate: #a31515; --other: #5b6675;
  --good: #17713a; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161c; --card: #1a2028; --text: #e5e9ef; --dim: #9aa5b5; --edge: #333c49; --link: #7fb8ff; --now: #ff7b72;
    --freeze: #6cb1ff; --reboot: #f0a04b; --redeploy: #c49bf2; --preempt: #ff7fab; --terminate: #ff8a80;
    --other: #a9b4c3; --good: #6fcf8f; --bad: #ff8a80;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem; max-width: 84rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", "DejaVu Sans", sans-serif;
}
h1 { font-size: 1.6rem; margin: 0; line-height: 1.25; }
h2 { font-size: 1.15rem; margin: 0 0 .6rem; }
p { margin: .3rem 0; }
.dim { color: var(--dim); }
a { color: var(--link); }
time { white-space: nowrap; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 1rem; margin: 1rem 0 0; }
.counts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: .6rem; margin: 1rem 0 0; padding: 0;
}
.counts div { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: .5rem .8rem; }
.counts dt { color: var(--dim); font-size: .85rem; }
.counts dd { margin: 0; font-size: 1.5rem; font-weight: 600; line-height: 1.2; font-variant-numeric: tabular-nums; }
.counts .bad dd { color: var(--bad); }
.counts .good dd { color: var(--good); }
.timeline { max-height: 70vh; overflow: hidden auto; border: 1px solid var(--edge); border-radius: 6px; }
.timeline svg { display: block; }
.axis { position: sticky; top: 0; z-index: 1; background: var(--card); border-bottom: 1px solid var(--edge); }
.event { overflow: visible; }
.grid, .edge { stroke: var(--edge); stroke-width: 1; }
.grid { stroke-dasharray: 2 4; }
.now { stroke: var(--now); stroke-width: 1.5; }
.timeline text { fill: var(--text); font-size: 12px; paint-order: stroke; stroke: var(--card); stroke-width: 4px; }
.timeline .vm { font-weight: 600; }
.timeline .tick { fill: var(--dim); text-anchor: middle; font-size: 11px; }
.timeline .at-now { fill: var(--now); font-weight: 600; }
.freeze { --kind: var(--freeze); } .reboot { --kind: var(--reboot); } .redeploy { --kind: var(--redeploy); }
.preempt { --kind: var(--preempt); } .terminate { --kind: var(--terminate); } .other { --kind: var(--other); }
.bar { fill: var(--kind); opacity: .55; }
.open { stroke: var(--kind); stroke-width: 2; stroke-dasharray: 4 4; }
.start { fill: var(--card); stroke: var(--kind); stroke-width: 2.5; }
.started .start { fill: var(--kind); }
.timeline .what { fill: var(--kind); }
.timeline a:hover .what, .timeline a:focus .what { text-decoration: underline; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid var(--edge); }
th { color: var(--dim); font-weight: 600; white-space: nowrap; }
td { overflow-wrap: anywhere; min-width: 5rem; }
td.short { white-space: nowrap; width: 1%; }
td.vms { min-width: 8rem; }
#silent td { min-width: 7rem; }
td.id { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .8rem; min-width: 9rem; }
th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid var(--link); }
th button::after { content: " \\2195"; opacity: .5; }
th[aria-sort=ascending] button::after { content: " \\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: " \\2193"; opacity: 1; }
tr:target td { background: color-mix(in srgb, var(--link) 14%, transparent); }
.kind { color: var(--kind); font-weight: 600; }
.note { color: var(--bad); font-size: .85rem; white-space: normal; min-width: 8rem; }
.tools { display: flex; flex-wrap: wrap; gap: .6rem; align-items: center; margin: 0 0 .6rem; }
.tools[hidden] { display: none; }
input {
  font: inherit; color: inherit; background: var(--page); border: 1px solid var(--edge); border-radius: 6px;
  padding: .3rem .6rem; min-width: 0;
}
ul { margin: 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
summary { cursor: pointer; }
details p { overflow-wrap: anywhere; }
@media screen and (max-width: 44rem) {
  body { padding: .8rem; }
  section { padding: .7rem; }
  .counts { grid-template-columns: repeat(auto-fit, minmax(6rem, 1fr)); }
  table, thead, tbody, tr, td { display: block; }
  thead tr { display: flex; flex-wrap: wrap; gap: .1rem .8rem; }
  thead tr::before { content: "Sort by"; color: var(--dim); }
  th { border: 0; padding: 0; }
  tr { border-bottom: 1px solid var(--edge); padding: .4rem 0; }
  td, td.short {
    border: 0; padding: .1rem 0; display: grid; grid-template-columns: 6.5rem 1fr; white-space: normal; width: auto;
  }
  .note { grid-column: 2; }
  td::before { content: attr(data-label); color: var(--dim); font: .85rem/1.5 system-ui, "DejaVu Sans", sans-serif; }
  td:empty { display: none; }
  tr[hidden] { display: none; }
}
@media print {
  :root {
    color-scheme: light;
    --page: #fff; --card: #fff; --text: #000; --dim: #444; --edge: #bbb; --link: #000; --now: #c22f2f;
    --freeze: #1769c2; --reboot: #b25b00; --redeploy: #7a3fb0; --preempt: #c0245c; --terminate: #a31515; --other: #444;
    --good: #000; --bad: #900;
  }
  body { padding: 0; max-width: none; font-size: 11px; }
  section { border: 0; padding: 0; }
  .timeline { max-height: none; overflow: visible; }
  .axis { position: static; }
  .wide { overflow: visible; }
  table { font-size: 10px; }
  th, td, td.id { padding: .25rem; min-width: 4rem; }
  td.id, .note { font-size: 9px; }
  td.vms { min-width: 9rem; }
  .note { min-width: 0; }
  #silent td { min-width: 5.5rem; }
  .tools, th button::after { display: none; }
  tr, .counts div { break-inside: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""

SCRIPT = """
"use strict";
const collator = new Intl.Collator(undefined, {numeric: true, sensitivity: "base"});
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const keyOf = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const rows = [...body.rows].map((row) => [keyOf(row, column), row]);
      rows.sort((one, other) => collator.compare(one[0], other[0]) * (down ? -1 : 1));
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows.map(([, row]) => row));
    });
  });
}
for (const tools of document.querySelectorAll(".tools")) {
  const input = tools.querySelector("input");
  const shown = tools.querySelector("output");
  const rows = [...document.querySelector("#events tbody").rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const apply = () => {
    const wanted = input.value.trim().toLowerCase();
    let count = 0;
    rows.forEach((row, number) => {
      row.hidden = !texts[number].includes(wanted);
      count += !row.hidden;
    });
    shown.textContent = wanted ? `${count} of ${rows.length}` : "";
  };
  input.addEventListener("input", apply);
  tools.hidden = false;
  apply();
}
"""
