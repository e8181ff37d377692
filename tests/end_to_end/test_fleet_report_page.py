# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of a fleet report in a real browser: what stands on it after its script ran, and how it is shown."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils import _fleet, _fleet_page, _fleet_parts
from ansible_collections.fleetops.azure_maintenance.tests.browser import PROGRAMS, browser
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

PROGRAM = need_program(*PROGRAMS, package="chromium")
NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
HOSTILE = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
ROWS = "[...document.querySelectorAll('#events tbody tr')]"
VISIBLE = f"{ROWS}.filter((row) => row.checkVisibility()).map((row) => row.id)"


def event(number, event_type, resources, this_vm, seconds, **more):
    return {
        "event_id": f"C7061BAC-AFDC-4513-B24B-{number:012X}",
        "event_type": event_type,
        "event_status": "Scheduled",
        "resources": resources,
        "not_before": format_utc(NOW + timedelta(seconds=seconds)),
        "description": "Host server is undergoing maintenance.",
        "event_source": "Platform",
        "duration_seconds": None,
        "affects_this_vm": this_vm in resources,
        **more,
    }


def said(name, *events):
    return {"events": list(events), "resource_name": name, "document_received": True, "msg": ""}


def three_events():
    pair = ["web-1", "web-2"]
    return {
        "web-1": said("web-1", event(1, "Reboot", pair, "web-1", 600, duration_seconds=180)),
        "web-2": said("web-2", event(1, "Reboot", pair, "web-2", 660, duration_seconds=180)),
        "db-1": said(
            "db-1",
            event(2, "Freeze", ["db-1"], "db-1", 90, duration_seconds=9),
            event(3, "Terminate", ["db-1"], "db-1", 1200, description=HOSTILE, event_source="User"),
        ),
        "cache-1": said("cache-1"),
        "db-9": {"unreachable": True, "msg": "No route to host"},
        "laptop": {"reason": "unreachable", "msg": "Nothing answers"},
    }


def many_events(count):
    fleet = {}
    for number in range(count):
        name = f"vm-{number:04}"
        fleet[name] = said(name, event(number, "Reboot", [name], name, number))
    return fleet


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(window, tmp_path):
    """Open the report on a fleet, as this browser shows it; nothing may be loaded, and nothing be complained about."""
    path = tmp_path / "report.html"

    def show(results, **how):
        part = _fleet_parts.make_part(results, "whole", NOW)
        path.write_text(_fleet_page.as_html(_fleet.merge_parts([part], NOW)), encoding="utf-8")
        window.requested.clear()
        window.complaints.clear()
        window.show_as(**how)
        window.open(path)
        return window

    yield show
    assert [url for url in window.requested if not url.startswith("data:")] == [path.as_uri()]
    assert window.complaints == []


def wide_as_its_window(window):
    return window.look("document.documentElement.scrollWidth <= window.innerWidth")


def test_what_a_person_needs_is_on_the_page(page):
    window = page(three_events())
    text = window.look("document.body.innerText")
    assert "6 hosts asked: 3 affected, 1 quiet, 1 unreachable, 1 not on Azure." in text
    for words in ("Reboot", "in 10 min", "web-1, web-2", "No route to host", "Nothing answers", HOSTILE):
        assert words in text
    assert "not_before: 2026-11-21T10:10:00Z (web-1), 2026-11-21T10:11:00Z (web-2)" in text
    counts = "Object.fromEntries([...document.querySelectorAll('dd')].map((count) => [count.id, count.textContent]))"
    assert window.look(counts) == {
        "count-asked": "6",
        "count-affected": "3",
        "count-quiet": "1",
        "count-unreachable": "1",
        "count-not_on_azure": "1",
        "count-events": "3",
    }
    assert window.look("document.title") == "Azure maintenance, 2026-11-21T10:00:00Z"
    assert window.look("document.querySelectorAll('img, .timeline script').length") == 0


def test_the_timeline_has_a_lane_a_vm_and_places_what_starts_later_further_right(page):
    window = page(three_events())
    lanes = window.look("[...document.querySelectorAll('.vm')].map((name) => name.textContent)")
    assert lanes == ["db-1", "web-1", "web-2"]
    places = window.look("[...document.querySelectorAll('.start')].map((dot) => dot.getBoundingClientRect().x)")
    now = window.look("document.querySelector('.lanes .now').getBoundingClientRect().x")
    freeze, terminate, reboot_1, reboot_2 = places
    assert now < freeze < reboot_1 == reboot_2 < terminate < 1280
    width = window.look("document.querySelector('.reboot .bar').getBoundingClientRect().width")
    # Three minutes, and seven and a half from Freeze to Reboot less one and a half.
    assert width == pytest.approx((reboot_1 - freeze) * 180 / 510, rel=0.02)


def test_a_click_on_a_head_sorts_the_table_and_another_one_turns_it_round(page):
    window = page(three_events())
    assert window.look(f"{ROWS}.map((row) => row.cells[0].textContent)") == ["Freeze", "Reboot", "Terminate"]
    by_length = "document.querySelectorAll('#events th button')[4].click()"
    window.look(by_length)
    assert window.look(f"{ROWS}.map((row) => row.cells[4].textContent)") == ["9 s", "3 min", "unknown"]
    window.look(by_length)
    assert window.look(f"{ROWS}.map((row) => row.cells[4].textContent)") == ["unknown", "3 min", "9 s"]
    assert window.look("document.querySelectorAll('#events th')[4].getAttribute('aria-sort')") == "descending"


def test_the_filter_keeps_the_rows_that_have_the_word(page):
    window = page(three_events())
    window.look(
        "const box = document.querySelector('input'); box.value = 'WEB-1'; box.dispatchEvent(new Event('input'))"
    )
    assert window.look(VISIBLE) == ["event-2"]
    assert window.look("document.querySelector('output').textContent") == "1 of 3"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_it_is_readable_in_light_and_dark_wide_and_narrow(page, scheme, width):
    window = page(three_events(), width=width, scheme=scheme)
    assert wide_as_its_window(window)
    page_colour, text_colour = (
        window.look(f"getComputedStyle(document.body).{name}.match(/\\d+/g).slice(0, 3).map(Number)")
        for name in ("backgroundColor", "color")
    )
    assert (sum(page_colour) > sum(text_colour)) is (scheme == "light")
    assert abs(sum(page_colour) - sum(text_colour)) > 450
    # On a phone each cell says what it is, for the heads of the table are not above it, but still sort.
    sort_by, label = (
        window.look(f"getComputedStyle(document.querySelector('#events {element}'), '::before').content")
        for element in ("thead tr", "td")
    )
    assert (sort_by, label) == (("none", "none") if width == 1280 else ('"Sort by"', '"Type"'))
    if width == 360:
        sources = window.look(f"{ROWS}.map((row) => row.cells[6].getBoundingClientRect().height)")
        assert max(sources) < 30, "a word is broken up"


def test_in_print_it_is_black_on_white_and_nothing_is_cut_off_or_folded_away(page):
    window = page(three_events(), scheme="dark", media="print")
    assert window.look("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert window.look("getComputedStyle(document.querySelector('.timeline')).maxHeight") == "none"
    assert window.look("document.querySelector('.tools').checkVisibility()") is False
    assert window.look("document.querySelector('#more details p').getBoundingClientRect().height") > 5
    assert window.look("document.querySelector('#more details p').checkVisibility()") is True


def test_an_empty_fleet_is_a_page_too(page):
    window = page({"web-1": said("web-1")})
    assert "No maintenance is announced to the VMs that answered." in window.look("document.body.innerText")
    assert window.look("document.querySelectorAll('svg, table').length") == 0


def test_a_fleet_that_nobody_asked_is_a_page_that_claims_nothing(page):
    assert "No VM answered, so nothing is known of any maintenance." in page({}).look("document.body.innerText")


def test_two_thousand_events_are_all_there_and_can_be_sorted(page):
    window = page(many_events(2000))
    assert window.look("document.querySelectorAll('.vm').length") == 2000
    window.look("document.querySelectorAll('#events th button')[2].click()")
    window.look("document.querySelectorAll('#events th button')[2].click()")
    assert window.look(f"{ROWS}.length") == 2000
    assert window.look(f"{ROWS}[0].cells[5].textContent") == "vm-1999"
    assert wide_as_its_window(window)
