# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page as text: nothing from outside is markup, nothing is loaded, and the timeline is where it should be."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.axis import (
    Axis,
    Piece,
    make_axis,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.page import as_html

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}</style></title><!--"


class Page(HTMLParser):
    """The elements, their attributes, and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, Any]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def hostile_html(report_on: Any, said: Any) -> str:
    names = [field for field in said("web-1", {})["events"][0] if field not in ("affects_this_vm", "not_before")]
    texts = [name for name in names if name not in ("seconds_until_start", "resources", "duration_seconds")]
    event = {**dict.fromkeys(texts, HOSTILE), "resources": [HOSTILE], "affects_this_vm": True}
    other = {**event, "event_type": HOSTILE + "2"}
    results = {
        HOSTILE: said(HOSTILE, event, warnings=[HOSTILE]),
        "b": said(HOSTILE + "2", other),
        "quiet" + HOSTILE: said("db-1"),
        "gone" + HOSTILE: {"unreachable": True, "msg": HOSTILE},
        "failed": {"reason": HOSTILE, "msg": HOSTILE},
    }
    return as_html(report_on(results))


def test_no_text_from_outside_is_markup(hostile_html: str) -> None:
    page = Page(hostile_html)
    assert len(page.all("script")) == len(page.all("style")) == 1
    # The event on the timeline has a title, too.
    assert len(page.all("title")) == 2
    assert page.all("img") == []
    for _tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "action")]
    assert page.text.count("<script>alert(1)</script>") >= 12


def test_the_page_loads_nothing_and_allows_its_own_style_and_script_only(hostile_html: str) -> None:
    page = Page(hostile_html)
    (policy,) = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv")]
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", hostile_html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert {link["href"][0] for link in (*page.all("a"), *page.all("use"))} == {"#"}


def test_an_unknown_type_cannot_become_a_class(hostile_html: str) -> None:
    classes = " ".join(attributes["class"] for _tag, attributes in Page(hostile_html).elements if "class" in attributes)
    assert re.fullmatch(r"[a-z -]+", classes)


def lanes_of(html: str) -> list[str]:
    lanes = re.findall(r'<th scope="row">(.*?)</th>', html)
    return [" ".join(re.sub(r"<[^>]*>", "", lane).split()) for lane in lanes]


def test_the_vms_of_an_event_share_a_lane_in_natural_order_and_no_other_vm_has_one(report_on: Any, said: Any) -> None:
    second = {"event_id": "B-2", "event_type": "Freeze", "resources": ["web-9"], "event_status": "Started"}
    third = {"event_id": "C-3", "event_type": "Redeploy", "resources": ["web-10", "web-9"]}
    first = {"resources": ["web-10", "web-9"]}
    html = as_html(report_on({"a": said("web-9", first, second, third), "quiet": said("db-1")}))
    assert lanes_of(html) == ["web-9 (a)", "web-9 (a), web-10 no answer"]
    assert re.findall(r"<title>(?!Azure)([^<]*)</title>", html) == [
        "Freeze, not before unknown, expected length 9 s",
        "Reboot, not before 2026-11-21T10:10:00Z, expected length 9 s",
        "Redeploy, not before 2026-11-21T10:10:00Z, expected length 9 s",
    ]


def test_what_gave_no_answer_stands_before_the_timeline_and_its_reason_is_no_word_for_a_state(
    report_on: Any, said: Any
) -> None:
    silent = {
        "gone-10": {"unreachable": True, "msg": "No route"},
        "laptop": {"reason": "unreachable", "msg": "Nothing answers"},
        "gone-9": {"unreachable": True, "msg": "No route"},
        "slow": {"reason": "http_status", "msg": "500"},
    }
    html = as_html(report_on({"web-1": said("web-1", {}), **silent}))
    assert html.index('id="silent"') < html.index('class="timeline"') < html.index('id="events"')
    rows = re.findall(r'<tr><td data-label="Host"><span class="vm">(.*?)</tr>', html)
    assert [re.sub(r"(<[^>]*>)+", "|", row) for row in rows] == [
        "gone-9|unreachable|no connection|No route|",
        "gone-10|unreachable|no connection|No route|",
        "laptop|not on Azure|nothing listens|Nothing answers|",
        "slow|without a usable answer|http status|500|",
    ]


def test_each_number_leads_to_what_it_counts(report_on: Any, said: Any) -> None:
    gone = {"unreachable": True, "msg": "No route"}
    html = as_html(report_on({"web-1": said("web-1", {}), "db-1": said("db-1"), "gone": gone}, expected=["late"]))
    page = Page(html)
    wanted = [link["href"][1:] for link in page.all("a")]
    assert wanted[:6] == ["hosts", "hosts-affected", "hosts-quiet", "hosts-unreachable", "hosts-not_asked", "events"]
    assert set(wanted) <= {attributes.get("id") for _tag, attributes in page.elements}
    assert '<div class=""><dt>not on Azure</dt><dd id="count-not_on_azure">0</dd></div>' in html


def test_without_an_event_there_is_no_timeline_but_a_sentence(report_on: Any, said: Any) -> None:
    html = as_html(report_on({"web-1": said("web-1")}))
    assert "No maintenance is announced to the VMs that answered." in html
    assert "<svg" not in html
    assert 'type="search"' not in html


def test_many_vms_of_an_event_are_folded_away(report_on: Any, said: Any) -> None:
    names = [f"web-{number}" for number in range(40)]
    html = as_html(report_on({"web-1": said("web-1", {"resources": names})}))
    assert html.count("<summary>and 28 more</summary>") == 2


NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("warn_after", "later", "shown"),
    [(900, 900, False), (900, 901, True), (0, 90000, None)],
)
def test_a_page_whose_answers_are_old_when_it_is_written_says_so_at_once(
    report_on: Any, said: Any, warn_after: int, later: int, shown: bool | None
) -> None:
    report = report_on({"web-1": said("web-1")})
    report["generated_at"] = (NOW + timedelta(seconds=later)).strftime("%Y-%m-%dT%H:%M:%SZ")
    html = as_html(report, warn_after)
    warnings = [attributes for tag, attributes in Page(html).elements if attributes.get("id") == "old"]
    assert [("hidden" not in warning) for warning in warnings] == ([] if shown is None else [shown])
    limit = 'Out of date from <time datetime="2026-11-21T10:15:00Z">2026-11-21 10:15:00 UTC</time> on.'
    assert (limit in html) is (shown is not None)
    assert ("It warns after 15 min (<code>fleet_report_warn_after</code>)." in html) is (shown is not None)


@pytest.mark.parametrize(
    ("starts", "length", "spans"),
    [
        pytest.param([], None, [(0, 3600)], id="at least the first hour"),
        pytest.param(["2026-11-21T11:00:00Z"], None, [(0, 3600)], id="no more where nothing is later"),
        pytest.param(["2026-11-21T11:00:00Z"], 600, [(0, 3600), (3600, 7200)], id="with its expected length"),
        pytest.param(["2026-11-21T15:00:00Z"], None, [(0, 3600), (3600, 18000)], id="until the last start"),
        pytest.param(["2026-11-21T09:58:00Z"], None, [(-120, 0), (0, 3600)], id="back to what is overdue"),
        pytest.param(
            ["2001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"],
            None,
            [(-3600, 0), (0, 3600), (3600, 86400), (86400, 604800)],
            id="not to the end of time",
        ),
    ],
)
def test_the_axis_reaches_as_far_as_the_events(
    report_on: Any, said: Any, starts: list[str], length: int | None, spans: list[tuple[float, float]]
) -> None:
    events = [
        {"event_id": start, "not_before": start, "duration_seconds": length, "resources": ["web-1"]} for start in starts
    ]
    report = report_on({"web-1": said("web-1", *events)})
    axis = make_axis(report)
    assert [(piece.begin, piece.end) for piece in axis.pieces] == spans
    (hour,) = [piece for piece in axis.pieces if piece.name == "first hour"]
    assert hour.right - hour.left > 35
    places = [tick.place for tick in axis.ticks()]
    assert 3 <= len(places) <= 11
    assert min(places) >= 6
    assert max(places) <= 94
    assert min(later - earlier for earlier, later in zip(places, places[1:])) >= 8
    html = as_html(report)
    assert all(0 <= float(place) <= 100 for place in re.findall(r'"(-?[\d.e]+)%"', html))


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        ("2026-11-21T11:00:00Z", "11:00"),
        ("2026-11-22T09:00:00Z", "22 Nov 09:00"),
        ("2027-11-21T11:00:00Z", "21 Nov 2027 11:00 →"),
        ("2025-11-22T09:00:00Z", "22 Nov 2025 09:00"),
    ],
)
def test_a_start_of_another_day_or_year_has_its_date(report_on: Any, said: Any, start: str, shown: str) -> None:
    html = as_html(report_on({"web-1": said("web-1", {"not_before": start})}))
    assert re.findall(r'<tspan class="clock">(.*?)</tspan>', html) == [shown]


def test_an_event_a_week_off_leaves_the_first_hour_its_room() -> None:
    hour = Piece("first hour", 0, 3600, 6, 50)
    rest = Piece("first week", 3600, 604800, 50, 94)
    axis = Axis(NOW, (hour, rest))
    assert [axis.place(seconds) for seconds in (-5, 0, 1800, 3600, 604800, 10**9)] == [6, 6, 28, 50, 94, 94]


def test_round_times_are_written_below_the_axis_with_their_day_and_fewer_of_them_on_a_phone() -> None:
    late = datetime(2026, 11, 21, 23, 20, 0, tzinfo=timezone.utc)
    hour = Piece("first hour", 0, 3600, 6, 54)
    day = Piece("first day", 3600, 86400, 54, 94)
    assert Axis(late, (hour, day)).ticks() == [
        (6.0, "23:20", "21 Nov", True),
        (14.0, "23:30", "21 Nov", False),
        (22.0, "23:40", "21 Nov", True),
        (30.0, "23:50", "21 Nov", False),
        (38.0, "00:00", "22 Nov", True),
        (46.0, "00:10", "22 Nov", False),
        (63.86, "06:00", "22 Nov", True),
        (74.29, "12:00", "22 Nov", False),
        (84.72, "18:00", "22 Nov", True),
    ]
