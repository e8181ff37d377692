# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The style of the pages. It is not put together from data: a page uses only a style with its hash."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --text: #1b2430; --dim: #566171; --edge: #d5dae2; --link: #0b5cad; --now: #c22f2f;
  --freeze: #1769c2; --reboot: #a85400; --redeploy: #7a3fb0; --preempt: #c0245c; --terminate: #a31515; --other: #566171;
  --good: #17713a; --bad: #b3261e; --warn: #8a5a00; --bad-card: #fdf1f0; --later: #f1f3f6; --on-bad: #fff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161c; --card: #1a2028; --text: #e5e9ef; --dim: #9aa5b5; --edge: #333c49; --link: #7fb8ff; --now: #ff7b72;
    --freeze: #6cb1ff; --reboot: #f0a04b; --redeploy: #c49bf2; --preempt: #ff7fab; --terminate: #ff8a80;
    --other: #a9b4c3; --good: #6fcf8f; --bad: #ff8a80; --warn: #f0b35a; --bad-card: #2a1d20; --later: #20272f;
    --on-bad: #2a0906;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", "DejaVu Sans", sans-serif;
}
main { margin: 0 auto; padding: 1.5rem; max-width: 92rem; }
h1 { font-size: 1.6rem; margin: 0; line-height: 1.25; }
h2 { font-size: 1.15rem; margin: 0 0 .4rem; }
p { margin: .3rem 0; }
.dim { color: var(--dim); }
.alarm { color: var(--bad); font-weight: 600; font-size: .85em; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
a { color: var(--link); }
time { white-space: nowrap; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9em; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 1rem; margin: 1rem 0 0; }
section.alert { border-left: 4px solid var(--bad); background: var(--bad-card); --card: var(--bad-card); }
#old {
  position: sticky; top: 0; z-index: 3; margin: -1.5rem 0 1rem; padding: .7rem 0; background: var(--bad);
  color: var(--on-bad); box-shadow: 0 0 0 100vmax var(--bad); clip-path: inset(0 -100vmax);
}
#old[hidden] { display: none; }
.counts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: .6rem; margin: 1rem 0 0; padding: 0;
}
.counts div {
  position: relative; background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: .5rem .8rem;
  display: flex; flex-direction: column; justify-content: space-between;
}
.counts dt { color: var(--dim); font-size: .85rem; line-height: 1.3; }
.counts dd { margin: 0; font-size: 1.5rem; font-weight: 600; line-height: 1.3; font-variant-numeric: tabular-nums; }
.counts a { color: inherit; text-decoration: none; }
.counts a::after { content: ""; position: absolute; inset: 0; border-radius: 8px; }
.counts a:hover, .counts a:focus-visible { color: var(--link); text-decoration: underline; outline: 0; }
.counts a:focus-visible::after { outline: 2px solid var(--link); }
.counts .good dd { color: var(--good); }
.counts .warn { border-left: 4px solid var(--warn); }
.counts .warn dd { color: var(--warn); }
.counts .bad { border-left: 4px solid var(--bad); background: var(--bad-card); }
.counts .bad dd { color: var(--bad); }
.scroll { max-height: 75vh; overflow: auto; border: 1px solid var(--edge); border-radius: 6px; }
.scroll.few { max-height: 12.5rem; }
#out-of-service .scroll { border: 0; }
.scroll thead th { position: sticky; top: 0; z-index: 1; background: var(--card); }
.wide { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid var(--edge); }
th { color: var(--dim); font-weight: 600; white-space: nowrap; }
td { overflow-wrap: anywhere; min-width: 5rem; font-variant-numeric: tabular-nums; }
td.short { white-space: nowrap; width: 1%; }
td.vms { min-width: 13rem; overflow-wrap: normal; }
td.words { min-width: 10rem; }
td.id { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .78rem; min-width: 10rem; }
.vm, .word {
  display: inline-block; width: max-content; max-width: min(36rem, 45vw); white-space: normal; overflow-wrap: anywhere;
}
.word { max-width: 12rem; }
#silent td { min-width: 8rem; }
#silent .vm { max-width: 30vw; font-weight: 600; }
#silent td:nth-child(2) { color: var(--bad); white-space: nowrap; }
.start { font-weight: 600; }
.note { color: var(--bad); font-size: .85rem; white-space: normal; min-width: 8rem; }
.kind { color: var(--kind); font-weight: 600; }
th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid var(--link); }
th button::after { content: " \\2195"; opacity: .5; }
th[aria-sort=ascending] button::after { content: " \\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: " \\2193"; opacity: 1; }
tr:target td, tbody:target td { background: color-mix(in srgb, var(--link) 14%, transparent); }
tr, tbody { scroll-margin-top: 4rem; }
[hidden] { display: none !important; }
.timeline th { padding: .3rem .6rem; }
.timeline thead th:first-child { min-width: 15rem; vertical-align: bottom; }
.timeline thead .plot { padding: 0; }
.timeline tbody th { white-space: normal; color: var(--text); font-size: .86rem; line-height: 1.35; }
.timeline .plot { position: relative; padding: 0; overflow: hidden; width: 100%; min-width: 22rem; }
.timeline tbody tr:last-child > * { border-bottom: 0; }
.timeline svg { display: block; }
.behind { position: absolute; inset: 0; width: 100%; height: 100%; }
.lane { position: relative; }
.event { overflow: visible; }
.grid, .span { stroke: var(--edge); stroke-width: 1; }
.grid { stroke-dasharray: 2 4; }
.later { fill: var(--later); }
.break { stroke: var(--dim); stroke-width: 1; stroke-dasharray: 6 3; }
.now { stroke: var(--now); stroke-width: 1.5; }
.timeline text { fill: var(--text); font-size: 12px; font-weight: 400; }
.timeline .tick, .timeline .piece {
  fill: var(--dim); text-anchor: middle; font-size: 11px; paint-order: stroke; stroke: var(--card); stroke-width: 3px;
}
.timeline .piece { font-weight: 600; }
.timeline .cut { fill: var(--dim); text-anchor: middle; font-size: 14px; }
.timeline .at-now { fill: var(--now); font-weight: 600; text-anchor: start; }
.freeze { --kind: var(--freeze); } .reboot { --kind: var(--reboot); } .redeploy { --kind: var(--redeploy); }
.preempt { --kind: var(--preempt); } .terminate { --kind: var(--terminate); } .other { --kind: var(--other); }
.bar { fill: var(--kind); opacity: .55; }
.open { stroke: var(--kind); stroke-width: 2; stroke-dasharray: 4 4; }
.start { fill: var(--card); stroke: var(--kind); stroke-width: 2.5; }
.started .start { fill: var(--kind); }
.timeline .what {
  fill: var(--kind); font-weight: 600; paint-order: stroke; stroke: var(--card); stroke-width: 3px;
}
.timeline .back { text-anchor: end; }
.timeline .clock { font-weight: 400; }
.timeline a:hover .what, .timeline a:focus .what { text-decoration: underline; }
.tools { display: flex; flex-wrap: wrap; gap: .6rem; align-items: center; margin: 1rem 0 0; }
.tools label { display: flex; flex-wrap: wrap; gap: .2rem .6rem; align-items: center; }
input {
  font: inherit; color: inherit; background: var(--card); border: 1px solid var(--dim); border-radius: 6px;
  padding: .3rem .6rem; width: 17rem; max-width: 100%;
}
input::placeholder { color: var(--dim); opacity: 1; }
ul { margin: 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
summary { cursor: pointer; }
details div { overflow-wrap: anywhere; }
@media screen and (min-width: 44.01rem) and (max-width: 59.99rem) {
  #events.sortable, #events.sortable thead, #events.sortable tbody { display: block; }
  #events.sortable thead tr { display: flex; flex-wrap: wrap; gap: .1rem .8rem; }
  #events.sortable thead tr::before { content: "Sort by"; color: var(--dim); }
  #events.sortable th { border: 0; padding: 0; }
  #events.sortable tbody tr {
    display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 0 1rem; padding: .4rem 0;
    border-bottom: 1px solid var(--edge);
  }
  #events.sortable td {
    display: grid; grid-template-columns: 5.5rem minmax(0, 1fr); border: 0; padding: .1rem 0; min-width: 0; width: auto;
    white-space: normal;
  }
  #events.sortable td:is(.vms, .words, .id) { grid-column: 1 / -1; }
  #events.sortable td > div { grid-column: 2; min-width: 0; }
  #events.sortable td:empty { display: none; }
  #events.sortable td::before {
    content: attr(data-label); color: var(--dim); font: .85rem/1.5 system-ui, "DejaVu Sans", sans-serif;
  }
  #events.sortable :is(.vm, .word) { width: auto; max-width: 100%; }
  #events.sortable time { white-space: normal; }
}
@media screen and (min-width: 60rem) and (max-width: 76rem) {
  #events.sortable > * > * > * { padding: .45rem .3rem; min-width: 0; }
  #events.sortable td.vms { min-width: 8rem; }
  #events.sortable td.words { min-width: 8rem; }
  #events.sortable td.id { min-width: 6rem; }
}
@media screen and (max-width: 44rem) {
  main { padding: .8rem; }
  section { padding: .7rem; }
  #old { margin-top: -.8rem; }
  .fine { display: none; }
  .counts { grid-template-columns: repeat(3, 1fr); }
  .counts div { padding: .4rem .6rem; }
  .scroll.few { max-height: 75vh; }
  .vm, #silent .vm, .word { width: auto; max-width: 100%; }
  table, thead, tbody, tr, td, tbody th { display: block; }
  .timeline thead th:first-child { display: none; }
  .timeline .plot { display: block; min-width: 0; }
  .timeline tbody tr { border-bottom: 1px solid var(--edge); padding: 0; }
  .timeline tbody th { border: 0; padding: .3rem .5rem 0; }
  .sortable thead tr { display: flex; flex-wrap: wrap; gap: .1rem .8rem; }
  .sortable thead tr::before { content: "Sort by"; color: var(--dim); }
  .sortable th { border: 0; padding: 0; position: static; }
  .sortable tr { border-bottom: 1px solid var(--edge); padding: .4rem 0; }
  .scroll .sortable { padding: 0 .5rem; }
  .sortable td, .sortable td.short {
    border: 0; padding: .1rem 0; display: grid; grid-template-columns: 6.5rem 1fr; white-space: normal; width: auto;
  }
  .note { grid-column: 2; }
  .sortable td > div { grid-column: 2; min-width: 0; }
  td::before { content: attr(data-label); color: var(--dim); font: .85rem/1.5 system-ui, "DejaVu Sans", sans-serif; }
  .timeline td::before { content: none; }
  td:empty { display: none; }
}
@page { size: landscape; margin: 11mm; }
@media print {
  :root {
    color-scheme: light;
    --page: #fff; --card: #fff; --text: #000; --dim: #444; --edge: #bbb; --link: #000; --now: #c22f2f;
    --freeze: #1769c2; --reboot: #a85400; --redeploy: #7a3fb0; --preempt: #c0245c; --terminate: #a31515; --other: #444;
    --good: #000; --bad: #900; --warn: #000; --bad-card: #fff; --later: #f3f3f3; --on-bad: #900;
  }
  body { font-size: 11px; line-height: 1.35; }
  main { padding: 0; max-width: none; }
  #old { position: static; margin: 0 0 .5rem; border: 2px solid; padding: .3rem; background: none; box-shadow: none; }
  section { border: 0; padding: 0; margin-top: .8rem; }
  section.alert { padding-left: .5rem; }
  h2 { break-after: avoid; }
  .counts { grid-template-columns: repeat(auto-fit, minmax(5rem, 1fr)); margin-top: .4rem; }
  .counts div { padding: .2rem .4rem; }
  .counts dd { font-size: 1.1rem; }
  .scroll, .scroll.few { max-height: none; overflow: visible; border: 0; }
  .scroll thead th { position: static; }
  .wide { overflow: visible; }
  table { font-size: 9.5px; line-height: 1.3; }
  .timeline thead th:first-child { min-width: 12rem; }
  .timeline details { display: inline; }
  .timeline { zoom: .8; }
  .timeline tbody th { font-size: 11px; }
  th, td, td.id { padding: .15rem .3rem; min-width: 4rem; }
  td.id { font-size: 7px; white-space: nowrap; }
  .note { font-size: 8px; }
  td.vms { min-width: 12rem; }
  .vm { max-width: 20rem; }
  .word { max-width: 5rem; }
  td.words { min-width: 18rem; }
  td > .start, td > .start + div { display: inline-block; margin-right: .4rem; }
  .note, #silent td { min-width: 0; }
  .tools, th button { display: none; }
  th::before { content: attr(data-label); }
  thead { display: table-header-group; }
  thead, tr, .counts div { break-inside: avoid; }
  main > section > details::details-content, #events details::details-content {
    content-visibility: visible; block-size: auto;
  }
}
"""
