# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The style of the history, beside that of the report. It is not put together from data."""

from __future__ import annotations

from ..style import STYLE as _STYLE

STYLE = (
    _STYLE
    + """
.plot { border: 1px solid var(--edge); border-radius: 6px; overflow: hidden; }
.plot svg { display: block; }
.plot .axis { position: static; }
.plot text { fill: var(--text); font-size: 12px; paint-order: stroke; stroke: var(--card); stroke-width: 4px; }
.plot .vm { font-weight: 600; }
.plot .dim { fill: var(--dim); font-weight: 400; font-size: 11px; }
.plot .tick { fill: var(--dim); text-anchor: middle; font-size: 11px; }
.plot .left { text-anchor: start; }
.plot .right { text-anchor: end; }
.weeks .bar { stroke: var(--card); stroke-width: 1; }
.plot .most { fill: var(--dim); font-size: 11px; }
.whisker { stroke: var(--kind); stroke-width: 2; }
.plot .bar { fill: var(--kind); opacity: 1; }
.plot .lane .bar { opacity: .45; }
.median { stroke: var(--kind); stroke-width: 3; }
.end { fill: var(--kind); }
.promised { fill: var(--now); opacity: .18; }
.promise { stroke: var(--now); stroke-width: 2; stroke-dasharray: 3 2; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1rem; }
.key::before {
  content: ""; display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; border-radius: 2px;
  background: var(--kind); vertical-align: -.1rem; print-color-adjust: exact;
}
.promise-word { color: var(--now); font-weight: 600; }
details { margin: .6rem 0 0; }
details .wide { margin: .5rem 0 0; }
.figures { font-size: .82rem; font-variant-numeric: tabular-nums; }
.figures th, .figures td { padding: .4rem .3rem; }
.figures td { min-width: 0; white-space: nowrap; }
.figures td.text { white-space: normal; min-width: 5rem; }
.figures td.words { min-width: 9rem; }
.figures td.id { min-width: 6.5rem; }
.figures th { white-space: normal; overflow-wrap: normal; vertical-align: bottom; }
@media screen and (max-width: 44rem) {
  .figures thead { display: none; }
  .figures tr { border-bottom: 1px solid var(--edge); padding: .4rem 0; }
  .figures td { display: grid; grid-template-columns: 9rem 1fr; border: 0; padding: .1rem 0; white-space: normal; }
  .figures td:empty { display: none; }
  .scroll .figures { padding: 0 .5rem; }
}
@media screen and (min-width: 44.01rem) and (max-width: 74rem) {
  .figures td { white-space: normal; }
  .many, .many tbody { display: block; }
  .many thead { display: none; }
  .many tr {
    display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 0 1.2rem; padding: .5rem 0;
    border-bottom: 1px solid var(--edge);
  }
  .many td { display: grid; grid-template-columns: 8rem minmax(0, 1fr); border: 0; padding: .1rem 0; }
  .many .vm, .many .word { width: auto; max-width: 100%; }
  .many td:first-child { font-weight: 600; }
  .many td:empty { display: none; }
  .many td::before {
    content: attr(data-label); color: var(--dim); font: .8rem/1.5 system-ui, "DejaVu Sans", sans-serif;
  }
}
@media print {
  .plot { break-inside: avoid; }
  section > p { break-after: avoid; }
  .figures th, .figures td { padding: .15rem .3rem; }
  .figures td.id { font-size: 7px; }
}
"""
)
