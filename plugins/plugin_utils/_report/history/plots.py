# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The plots of a fleet history, drawn as SVG. Each plot has a table beside it with the same numbers.

Places along an axis are percentages, so that a narrow window squeezes the plot and leaves the text as large as it is.
"""

from __future__ import annotations

from html import escape
from math import log
from typing import Any, NamedTuple, Sequence

from ....module_utils._event.document import EVENT_TYPES, fold_case
from ....module_utils._event.sentences import format_duration
from ..text import counted
from .merge import OTHER_TYPES, UNKNOWN_WEEK, Report, all_weeks
from .text import MOST_WEEKS, documented

TYPES = (*EVENT_TYPES, OTHER_TYPES)
_TICKS = (1, 10, 60, 300, 900, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)
_MOST_TICKS = 6
_MOST_WEEK_NAMES = 6
# Percent of a phone's width: half of a time or of the name of a week, and the room for two times beside each other
_HALF_TIME, _HALF_WEEK, _NEAR = 6, 9, 12
_LANE = 56
_BAR = 40
_HEIGHT = 180
_SPREAD = ("least", "quarter", "median", "three_quarters", "most")


class Plot(NamedTuple):
    """:ivar drawn: the picture, as HTML; empty where nothing is known.
    :ivar heads: of the table that has the same numbers.
    :ivar rows: its rows.
    """

    drawn: str
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]


def plot_notice(report: Report) -> Plot:
    """Return the notice that was given for each type, and the one that is documented."""
    return _plot_spread(report, "notice", "Notice")


def plot_lasted(report: Report) -> Plot:
    """Return how long the events of each type lasted."""
    return _plot_spread(report, "lasted", "Lasted")


def class_of(event_type: str) -> str:
    return "other" if event_type == OTHER_TYPES else fold_case(event_type)


def _plot_spread(report: Report, name: str, title: str) -> Plot:
    with_notice = name == "notice"
    lanes = [one for one in report["types"] if one[name] is not None]
    heads = ("Type", "Events", "Least", "Lower quarter", "Median", "Upper quarter", "Most")
    rows = []
    for one in lanes:
        spread = one[name]
        told = [one["event_type"], f"{spread['known']:,}", *(format_duration(spread[part]) for part in _SPREAD)]
        rows.append((*told, documented(one["documented_notice"])) if with_notice else tuple(told))
    if not lanes:
        return Plot("", heads, rows)
    known = [one[name][part] for one in lanes for part in ("least", "most")]
    if with_notice:
        known += [value for one in lanes for value in (one["documented_notice"] or {}).values()]
    axis = _LogAxis.over(known)
    drawn = [_lane(one, name, axis, place * _LANE, with_notice) for place, one in enumerate(lanes)]
    said = f"{title} by type: {counted(len(lanes), 'type')}. The table below has the same numbers."
    return Plot(
        f'<div class="plot">{_axis(axis)}<svg class="lanes" width="100%" height="{len(lanes) * _LANE}" role="img" '
        f'aria-label="{said}">{_grid(axis)}{"".join(drawn)}</svg></div>',
        (*heads, "Documented") if with_notice else heads,
        rows,
    )


class _LogAxis(NamedTuple):
    first: float
    last: float

    @classmethod
    def over(cls, values: Sequence[int]) -> _LogAxis:
        low, high = max(1, min(values)), max(2, *values)
        return cls(log(low / 1.6), log(high * 1.6))

    def place(self, seconds: float) -> float:
        """Return where a number of seconds lies, in percent. A time below a second lies at the edge."""
        part = (log(max(1.0, seconds)) - self.first) / (self.last - self.first)
        return round(100 * min(1.0, max(0.0, part)), 2)

    def ticks(self) -> list[int]:
        inside = [each for each in _TICKS if self.first < log(each) < self.last]
        step = -(-len(inside) // _MOST_TICKS) or 1
        return inside[::step]


def _axis(axis: _LogAxis) -> str:
    texts, last = [], -100.0
    for each in axis.ticks():
        place = axis.place(each)
        # Where the window is narrow, there is no room for it.
        kind = " fine" if place - last < _NEAR else ""
        last = last if kind else place
        texts.append(
            f'<text class="{_tick_class(place, _HALF_TIME)}{kind}" x="{place}%" y="18">{format_duration(each)}</text>'
        )
    return f'<svg class="axis" width="100%" height="26" aria-hidden="true">{"".join(texts)}</svg>'


def _tick_class(place: float, half: float) -> str:
    # On a phone a text at an edge would be cut.
    return "tick left" if place < half else "tick right" if place > 100 - half else "tick"


def _grid(axis: _LogAxis) -> str:
    return "".join(
        f'<line class="grid" x1="{axis.place(each)}%" x2="{axis.place(each)}%" y1="0" y2="100%"/>'
        for each in axis.ticks()
    )


def _lane(one: dict[str, Any], name: str, axis: _LogAxis, top: int, with_notice: bool) -> str:
    spread, kind = one[name], one["event_type"]
    least, quarter, median, three, most = (axis.place(spread[part]) for part in _SPREAD)
    texts = [format_duration(spread[part]) for part in _SPREAD]
    known = documented(one["documented_notice"]) if with_notice else ""
    told = (
        f"{kind}: {counted(spread['known'], 'event')}; least {texts[0]}, lower quarter {texts[1]}, median {texts[2]}, "
    )
    told += f"upper quarter {texts[3]}, most {texts[4]}" + (f"; documented {known}" if known else "")
    middle, mark = top + _BAR, ""
    box = round(max(three - quarter, 0.4), 2)
    if known:
        first, last = (axis.place(one["documented_notice"][part]) for part in ("least", "most"))
        mark = (
            f'<rect class="promised" x="{first}%" y="{top + 26}" width="{round(last - first, 2)}%" height="28"/>'
            f'<line class="promise" x1="{first}%" x2="{first}%" y1="{top + 26}" y2="{top + 54}"/>'
        )
    return (
        f'<g class="lane {class_of(kind)}"><title>{escape(told)}</title>'
        f'<text class="vm" x="6" y="{top + 17}">{escape(kind)}'
        f'<tspan class="dim" dx="8">median {texts[2]}{f", documented {known}" if known else ""}</tspan></text>{mark}'
        f'<line class="whisker" x1="{least}%" x2="{most}%" y1="{middle}" y2="{middle}"/>'
        f'<rect class="bar" x="{quarter}%" y="{middle - 6}" width="{box}%" height="12"/>'
        f'<line class="median" x1="{median}%" x2="{median}%" y1="{middle - 10}" y2="{middle + 10}"/>'
        f'<circle class="end" cx="{least}%" cy="{middle}" r="3"/><circle class="end" cx="{most}%" cy="{middle}" r="3"/>'
        f'<line class="edge" x1="0" x2="100%" y1="{top + _LANE - 0.5}" y2="{top + _LANE - 0.5}"/></g>'
    )


def plot_weeks(report: Report) -> Plot:
    """Return how many events of each type each of the latest weeks had; a week without any is shown as such."""
    counts: dict[str, dict[str, int]] = {}
    for one in report["weeks"]:
        counts.setdefault(one["week"], {})[one["event_type"]] = one["events"]
    kinds = [kind for kind in TYPES if any(kind in week for week in counts.values())]
    dated = sorted(week for week in counts if week != UNKNOWN_WEEK)
    weeks = all_weeks(dated[0], dated[-1])[-MOST_WEEKS:] if dated else []
    if UNKNOWN_WEEK in counts:
        weeks.append(UNKNOWN_WEEK)
    rows = []
    for week in reversed(weeks):
        of_week = counts.get(week, {})
        rows.append((week, *(f"{of_week.get(kind, 0):,}" for kind in kinds), f"{sum(of_week.values()):,}"))
    heads = ("Week", *kinds, "In all")
    if not weeks:
        return Plot("", heads, rows)
    most = max(sum(counts.get(week, {}).values()) for week in weeks)
    width = 100 / len(weeks)
    drawn = [_week(week, counts.get(week, {}), kinds, most, place * width, width) for place, week in enumerate(weeks)]
    legend = "".join(f'<span class="key {class_of(kind)}">{kind}</span>' for kind in kinds)
    said = f"Events per week: {counted(len(weeks), 'week')}. The table below has the same numbers."
    return Plot(
        f'<p class="legend">{legend}</p><div class="plot"><svg class="weeks" width="100%" height="{_HEIGHT + 44}" '
        f'role="img" aria-label="{said}"><text class="most" x="6" y="14">{most:,}</text>'
        f'<line class="grid" x1="0" x2="100%" y1="20" y2="20"/>{"".join(drawn)}'
        f'<line class="edge" x1="0" x2="100%" y1="{_HEIGHT + 20.5}" y2="{_HEIGHT + 20.5}"/>{_week_names(weeks)}'
        "</svg></div>",
        heads,
        rows,
    )


def _week_names(weeks: Sequence[str]) -> str:
    """Return the names below a few of the weeks, the latest among them; a narrow window may show every other one."""
    step = -(-len(weeks) // _MOST_WEEK_NAMES)
    names = [(weeks[place], round(100 * (place + 0.5) / len(weeks), 2)) for place in range(len(weeks) - 1, -1, -step)]
    # A name at an edge begins or ends there.
    middles = [min(max(middle, _HALF_WEEK + 2), 99 - _HALF_WEEK) for _name, middle in names]
    crowded = any(right - left < 2 * _HALF_WEEK for right, left in zip(middles, middles[1:]))
    texts = []
    for order, (name, middle) in enumerate(names):
        kind = _tick_class(middle, _HALF_WEEK) + (" fine" if crowded and order % 2 else "")
        at = "6" if "left" in kind else "99%" if "right" in kind else f"{middle}%"
        texts.append(f'<text class="{kind} week" x="{at}" y="{_HEIGHT + 38}">{name}</text>')
    return "".join(reversed(texts))


def _week(week: str, of_week: dict[str, int], kinds: Sequence[str], most: int, left: float, width: float) -> str:
    if not of_week:
        return ""
    parts, bottom = [], float(_HEIGHT + 20)
    for kind in kinds:
        count = of_week.get(kind, 0)
        if count:
            height = round(_HEIGHT * count / most, 2)
            bottom -= height
            parts.append(
                f'<rect class="bar {class_of(kind)}" x="{round(left + width * 0.1, 3)}%" y="{round(bottom, 2)}" '
                f'width="{round(width * 0.8, 3)}%" height="{height}"/>'
            )
    told = ", ".join(f"{kind} {of_week[kind]:,}" for kind in kinds if kind in of_week)
    return f"<g><title>{week}: {counted(sum(of_week.values()), 'event')} ({told})</title>{''.join(parts)}</g>"
