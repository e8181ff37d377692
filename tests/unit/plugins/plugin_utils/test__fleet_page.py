# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page as text: nothing from outside is markup, nothing is loaded, and the timeline is where it should be."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime, timezone
from html.parser import HTMLParser
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils import _fleet_page, _fleet_timeline

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
    return _fleet_page.as_html(report_on(results))


def test_no_text_from_outside_is_markup(hostile_html: str) -> None:
    page = Page(hostile_html)
    assert len(page.all("script")) == len(page.all("style")) == len(page.all("title")) - len(page.all("a")) == 1
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
    assert all(link["href"].startswith("#event-") for link in page.all("a"))


def test_an_unknown_type_cannot_become_a_class(hostile_html: str) -> None:
    classes = " ".join(attributes["class"] for _tag, attributes in Page(hostile_html).elements if "class" in attributes)
    assert re.fullmatch(r"[a-z -]+", classes)


def lanes_of(html: str) -> list[str]:
    return re.findall(r'<text class="vm"[^>]*>([^<]*)<', html)


def test_each_vm_of_an_event_has_a_lane_and_no_other_vm(report_on: Any, said: Any) -> None:
    second = {"event_id": "B-2", "event_type": "Freeze", "resources": ["web-1"], "event_status": "Started"}
    html = _fleet_page.as_html(report_on({"a": said("web-1", {}, second), "quiet": said("db-1")}))
    assert lanes_of(html) == ["web-1 (a)", "web-2"]
    assert re.findall(r"<title>(?!Azure)([^<]*)</title>", html) == [
        "Freeze started; not before unknown; expected length 9 s",
        "Reboot in 10 min; not before 2026-11-21T10:10:00Z; expected length 9 s",
        "Reboot in 10 min; not before 2026-11-21T10:10:00Z; expected length 9 s",
    ]


def test_without_an_event_there_is_no_timeline_but_a_sentence(report_on: Any, said: Any) -> None:
    html = _fleet_page.as_html(report_on({"web-1": said("web-1")}))
    assert "No maintenance is announced to the VMs that answered." in html
    assert "<svg" not in html


def test_many_vms_of_an_event_are_folded_away(report_on: Any, said: Any) -> None:
    names = [f"web-{number}" for number in range(40)]
    html = _fleet_page.as_html(report_on({"web-1": said("web-1", {"resources": names})}))
    assert "<summary>40 VMs</summary>" in html


NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("starts", "length", "first", "last"),
    [
        pytest.param([], None, 0, 900, id="at least a quarter of an hour"),
        pytest.param(["2026-11-21T11:00:00Z"], None, 0, 3600, id="until the last start"),
        pytest.param(["2026-11-21T11:00:00Z"], 600, 0, 4200, id="with its expected length"),
        pytest.param(["2026-11-21T09:58:00Z"], None, -120, 900, id="back to what is overdue"),
        pytest.param(
            ["2001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"], None, -3600, 604800, id="not to the end of time"
        ),
    ],
)
def test_the_axis_reaches_as_far_as_the_events(
    report_on: Any, said: Any, starts: list[str], length: int | None, first: float, last: float
) -> None:
    events = [
        {"event_id": start, "not_before": start, "duration_seconds": length, "resources": ["web-1"]} for start in starts
    ]
    report = report_on({"web-1": said("web-1", *events)})
    axis = _fleet_timeline.make_axis(report)
    margin = (last - first) / 18
    assert (axis.first, axis.last) == (first - margin, last + margin)
    assert 1 <= len(axis.ticks()) <= 8
    html = _fleet_page.as_html(report)
    assert all(0 <= float(place) <= 100 for place in re.findall(r'"(-?[\d.e]+)%"', html))


def test_round_times_are_written_below_the_axis() -> None:
    assert _fleet_timeline.Axis(NOW, -60, 900).ticks() == [
        (6.25, "10:00"),
        (37.5, "10:05"),
        (68.75, "10:10"),
    ]
    days = _fleet_timeline.Axis(NOW, 0, 7 * 86400).ticks()
    assert [text for _place, text in days] == ["11-23", "11-25", "11-27"]
