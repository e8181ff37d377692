# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of a fleet report in a real browser: what stands on it after its script ran, and how it is shown."""

from __future__ import annotations

import re
import subprocess
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import WORDS
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet import host_results
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.merge import merge_slices
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.page import as_html
from ansible_collections.fleetops.azure_maintenance.tests.browser import PROGRAMS, browser, check_alone, show_page
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

PROGRAM = need_program(*PROGRAMS, package="chromium")
NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
HOSTILE = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
ROWS = "[...document.querySelectorAll('#events tbody tr')]"
NOTHING_ANSWERS = (
    "Nothing answers at http://169.254.169.254 (No route to host). This machine is not an Azure VM, a firewall or a "
    "missing route keeps it from the metadata service, or the endpoint is wrong."
)
VISIBLE = f"{ROWS}.filter((row) => row.checkVisibility()).map((row) => row.id)"
LANES = "[...document.querySelectorAll('.timeline tbody tr')].filter((lane) => lane.checkVisibility())"
NAMES = f"{LANES}.map((lane) => lane.cells[0].textContent)"


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


def four_events():
    pair = ["web-1", "web-2"]
    return {
        "web-1": said("web-1", event(1, "Reboot", pair, "web-1", 600, duration_seconds=180)),
        "web-2": said("web-2", event(1, "Reboot", pair, "web-2", 660, duration_seconds=180)),
        "db-1": said(
            "db-1",
            event(2, "Freeze", ["db-1"], "db-1", 90, duration_seconds=9),
            event(3, "Terminate", ["db-1"], "db-1", 1200, description=HOSTILE, event_source="User"),
        ),
        "web-10": said("web-10", event(4, "Redeploy", ["web-10", "web-9", "db-9"], "web-10", 90000)),
        "cache-1": said("cache-1"),
        "db-9": {"unreachable": True, "msg": "No route to host"},
        "laptop": {"reason": "unreachable", "msg": "Nothing answers"},
    }


def many_events(count, length=0):
    fleet = {}
    for number in range(count):
        name = f"vm-{number:04}".ljust(length, "x")
        fleet[name] = said(name, event(number, "Reboot", [name], name, number))
    return fleet


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        opened.stop_clock(NOW)
        yield opened


@pytest.fixture
def page(window, tmp_path):
    """Open the report on a fleet."""
    path = tmp_path / "report.html"

    def show_fleet(results, **how):
        part = host_results.make_slice(results, "whole", NOW)
        return show_page(window, path, as_html(merge_slices([part], NOW)), **how)

    yield show_fleet
    check_alone(window, path)


def wide_as_its_window(window):
    return window.look("document.documentElement.scrollWidth <= window.innerWidth")


def look_for(window, words):
    window.look(
        f"(() => {{ const box = document.querySelector('input'); box.value = '{words}';"
        " box.dispatchEvent(new Event('input')); })()"
    )


def test_what_a_person_needs_is_on_the_page(page):
    window = page(four_events())
    text = window.look("document.body.innerText")
    assert "7 hosts asked: 4 affected, 1 quiet, 1 unreachable, 1 not on Azure." in text
    for words in ("Reboot", "in 10 min", "2026-11-21 10:10:00", "No route to host", "Nothing answers", HOSTILE):
        assert words in text
    assert "not_before: 2026-11-21T10:10:00Z (web-1), 2026-11-21T10:11:00Z (web-2)" in text
    assert "Out of date from 2026-11-21 10:15:00 UTC on." in text
    counts = "Object.fromEntries([...document.querySelectorAll('dd')].map((count) => [count.id, count.textContent]))"
    assert window.look(counts) == {
        "count-asked": "7",
        "count-affected": "4",
        "count-quiet": "1",
        "count-unreachable": "1",
        "count-not_on_azure": "1",
        "count-events": "4",
    }
    assert window.look("document.title") == "Azure maintenance, 2026-11-21T10:00:00Z"
    assert window.look("document.querySelectorAll('img, .timeline script').length") == 0
    order = "[...document.querySelectorAll('h2')].map((head) => head.textContent)"
    assert window.look(order)[:3] == ["2 hosts without an answer", "Timeline", "Events"]


def test_a_number_leads_to_what_it_counts_also_where_that_is_folded_away(page):
    window = page(four_events())
    for name, shown in (
        ("quiet", "cache-1"),
        ("unreachable", "db-9"),
        ("not_on_azure", "laptop"),
        ("events", "Freeze"),
    ):
        link = f"document.querySelector('#count-{name}').parentElement.querySelector('a')"
        changed = "new Promise((done) => addEventListener('hashchange', () => done(), {once: true}))"
        window.look(f"(() => {{ const changed = {changed}; {link}.click(); return changed; }})()")
        assert shown in window.look("document.querySelector(':target').innerText")
        assert window.look("document.querySelector(':target').checkVisibility()") is True


def test_an_address_with_a_percent_sign_does_not_stop_the_script(page):
    window = page(four_events())
    changed = "new Promise((done) => addEventListener('hashchange', () => done(), {once: true}))"
    window.look(f"(() => {{ const changed = {changed}; location.hash = '#100%'; return changed; }})()")
    assert window.complaints == []


def test_vms_that_share_an_event_share_a_lane_and_what_starts_later_stands_further_right(page):
    window = page(four_events())
    assert window.look(NAMES) == ["db-1", "web-1, web-2", "db-9 no answer, web-9 no answer, web-10"]
    places = "[...document.querySelectorAll('circle')].map((dot) => dot.getBoundingClientRect().x)"
    freeze, terminate, reboot, redeploy = window.look(places)
    now = window.look("document.querySelector('.behind use:last-child').getBoundingClientRect().x")
    assert now < freeze < reboot < terminate < redeploy < 1280
    length = window.look("document.querySelector('.reboot .bar').getBoundingClientRect().width")
    # Three minutes, and ten less one and a half from Freeze to Reboot.
    assert length == pytest.approx((reboot - freeze) * 180 / 510, rel=0.02)
    # An event of tomorrow leaves the first hour half of the room.
    axis = window.look("document.querySelector('.axis').getBoundingClientRect().width")
    assert (reboot - freeze) / axis > 0.4 * 510 / 3600


@pytest.mark.parametrize("width", [1280, 390])
def test_the_axis_says_that_it_is_broken_and_no_time_on_it_is_cut_off(page, width):
    window = page(four_events(), width=width)
    written = "[...document.querySelectorAll('.axis text')].filter((text) => text.checkVisibility())"
    assert {"first hour", "first day", "first week", "//", "10:30", "21 Nov", "now 10:00"} <= set(
        window.look(f"{written}.map((text) => text.textContent)")
    )
    axis = "document.querySelector('.axis').getBoundingClientRect()"
    outside = f"(box) => box.left < {axis}.left || box.right > {axis}.right"
    assert window.look(f"{written}.map((text) => text.getBoundingClientRect()).filter({outside})") == []
    ticks = sorted(
        window.look(f"{written}.filter((text) => / Nov/.test(text.textContent))"
                    ".map((text) => [text.getBoundingClientRect().left, text.getBoundingClientRect().right])")
    )  # fmt: skip
    assert all(right < left for (_left, right), (left, _right) in zip(ticks, ticks[1:]))


def test_names_are_whole_in_the_columns_of_vms(page):
    window = page(many_events(3, length=64))
    vms = "[...document.querySelectorAll('#events .vm, .timeline .vm')]"
    assert window.look(f"{vms}.length") == 6
    assert max(window.look(f"{vms}.map((vm) => vm.getBoundingClientRect().height)")) < 30
    assert window.look(f"{vms}.filter((vm) => vm.scrollWidth > vm.clientWidth + 1).length") == 0
    assert wide_as_its_window(window)


@pytest.mark.parametrize("width", [705, 768, 900, 960, 1100, 1280])
def test_in_half_a_screen_all_columns_of_usual_events_are_in_sight(page, width):
    window = page(many_events(3, length=8), width=width)
    table, room = (window.look(f"document.querySelector('#events').parentElement.{name}Width")
                   for name in ("scroll", "client"))  # fmt: skip
    assert table <= room


@pytest.mark.parametrize("width", [800, 1400])
def test_a_long_name_or_word_leaves_room_for_what_stands_beside_it(page, width):
    resource, host, word = "a" * 64, f"{'b' * 63}.{'c' * 63}.example.com", "Long" * 60
    fleet = {
        host: said(resource, event(1, "Reboot", [resource], resource, 600)),
        "web-1": said("web-1", event(2, word, ["web-1"], "web-1", 700, event_status=word, event_source=word)),
        "d" * 150: {"unreachable": True, "msg": NOTHING_ANSWERS},
    }
    window = page(fleet, width=width)
    assert wide_as_its_window(window)
    right = "document.querySelector('.timeline .plot').getBoundingClientRect().right"
    assert window.look(f"{right} <= window.innerWidth"), "the timeline is out of sight"
    messages = "document.querySelector('#silent td:last-child').getBoundingClientRect()"
    assert window.look(f"{messages}.right <= window.innerWidth"), "the message is out of sight"
    widths = f"{ROWS}.flatMap((row) => [0, 1, 5].map((column) => row.cells[column].getBoundingClientRect().width))"
    assert max(window.look(widths)) < 300


def test_now_and_every_start_go_on_with_the_clock_and_a_page_that_is_old_says_so(page):
    window = page(four_events())
    told = "[...document.querySelectorAll('#events .start')].map((start) => start.textContent)"
    drawn = "[...document.querySelectorAll('.what')].map((text) => text.textContent)"
    now = "parseFloat(document.querySelector('#now').getAttribute('x1'))"
    old = "[document.querySelector('#old').checkVisibility(), document.querySelector('#old').innerText]"
    assert window.look(told) == ["in 1 min 30 s", "in 10 min", "in 20 min", "in 1 d 1 h"]
    begin = window.look(now)
    assert window.look(old)[0] is False

    window.pass_time(15 * 60)
    assert window.look(told) == ["due", "due", "in 5 min", "in 1 d 45 min"]
    assert window.look(drawn)[:3] == ["Freeze due 10:01", "Terminate in 5 min 10:20", "Reboot due 10:10"]
    assert window.look("document.querySelector('#at-now').textContent") == "now 10:15"
    quarter = window.look(now)
    assert quarter > begin + 5
    assert window.look(old)[0] is False

    window.pass_time(1)
    shown, words = window.look(old)
    assert shown is True
    assert words.startswith("This page is out of date: what it says is 15 min 1 s old.")
    assert "It warns after 15 min (fleet_report_warn_after)." in words
    assert window.look("document.querySelector('#old').getBoundingClientRect().top") == 0

    window.pass_time(3 * 86400)
    assert window.look(told) == ["due"] * 4
    assert quarter < window.look(now) < 100
    assert "3 d 15 min old" in window.look(old)[1]
    # The axis ends before, so the time alone would stand below another day.
    assert window.look("document.querySelector('#at-now').textContent") == "now 2026-11-24 10:15"
    edges = "['#at-now', '.axis'].map((name) => document.querySelector(name).getBoundingClientRect().right)"
    label, axis = window.look(edges)
    assert label <= axis


def test_a_click_on_a_head_sorts_the_table_and_another_one_turns_it_round(page):
    window = page(four_events())
    types = f"{ROWS}.map((row) => row.cells[0].textContent)"
    assert window.look(types) == ["Freeze", "Reboot", "Terminate", "Redeploy"]
    by_length = "document.querySelectorAll('#events th button')[3].click()"
    window.look(by_length)
    assert window.look(f"{ROWS}.map((row) => row.cells[3].textContent)") == ["9 s", "3 min", "unknown", "unknown"]
    window.look(by_length)
    assert window.look(f"{ROWS}.map((row) => row.cells[3].textContent)") == ["unknown", "unknown", "3 min", "9 s"]
    assert window.look("document.querySelectorAll('#events th')[3].getAttribute('aria-sort')") == "descending"


def test_the_filter_keeps_what_has_the_word_in_the_tables_and_on_the_timeline(page):
    window = page(four_events())
    silent = "[...document.querySelectorAll('#silent tbody tr')].filter((row) => row.checkVisibility()).length"
    look_for(window, "WEB-1")
    assert window.look(VISIBLE) == ["event-2", "event-4"]
    assert window.look(NAMES) == ["web-1, web-2", "db-9 no answer, web-9 no answer, web-10"]
    assert window.look(silent) == 0
    assert window.look("document.querySelector('output').textContent") == "2 of 4 events"
    # Of a VM with two events, the other one pales.
    look_for(window, "freeze")
    assert window.look(NAMES) == ["db-1"]
    faint = (
        "[...document.querySelectorAll('.timeline a')].filter((link) => link.checkVisibility() && link.style.opacity)"
    )
    assert window.look(f"{faint}.map((link) => link.getAttribute('href'))") == ["#event-3"]
    look_for(window, "no route")
    assert window.look(silent) == 1
    look_for(window, "")
    assert len(window.look(VISIBLE)) == 4
    assert len(window.look(NAMES)) == 3
    assert window.look(f"{faint}.length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_it_is_readable_in_light_and_dark_wide_and_narrow(page, scheme, width):
    window = page(four_events(), width=width, scheme=scheme)
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
        sources = window.look(f"{ROWS}.map((row) => row.cells[5].getBoundingClientRect().height)")
        assert max(sources) < 30, "a word is broken up"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_few_hosts_without_an_answer_are_whole(page, width):
    fleet = {f"web-{number}": {"reason": "unreachable", "msg": NOTHING_ANSWERS} for number in range(2)}
    window = page(fleet, width=width)
    height, room = (window.look(f"document.querySelector('.few').{name}") for name in ("scrollHeight", "clientHeight"))
    assert height <= room


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["silent", "out of service"])
def test_many_hosts_of_one_kind_do_not_push_the_events_out_of_sight(page, kind, width):
    mark = {**dict.fromkeys(WORDS), "event_id": "A", "by": "checker", "counts": True}
    of_kind = {
        "silent": lambda name: {"reason": "unreachable", "msg": NOTHING_ANSWERS},
        "out of service": lambda name: {**said(name), "marks": [mark]},
    }[kind]
    more = {f"more-{number}": of_kind(f"more-{number}") for number in range(100)}
    window = page({**four_events(), **more}, width=width)
    top = window.look("document.querySelector('.timeline').getBoundingClientRect().top")
    assert top < 2.5 * window.look("window.innerHeight")


def test_axe_core_finds_nothing_that_hinders_people(axe, page):
    found = {}
    for scheme, width, old in (("light", 1280, True), ("dark", 1280, True), ("light", 390, False)):
        window = page(four_events(), scheme=scheme, width=width)
        if old:
            window.pass_time(3600)
        found[scheme, width] = window.violations(axe)
    assert set(map(str, found.values())) == {"[]"}, found


def test_in_print_it_is_black_on_white_and_nothing_is_cut_off_or_folded_away(page):
    window = page(four_events(), scheme="dark", media="print")
    assert window.look("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert window.look("getComputedStyle(document.querySelector('.scroll')).maxHeight") == "none"
    assert window.look("document.querySelector('.tools').checkVisibility()") is False
    assert window.look("document.querySelector('#hosts-quiet').getBoundingClientRect().height") > 5
    assert window.look("document.querySelector('#hosts-quiet').checkVisibility()") is True


def test_in_print_a_long_word_pushes_no_column_off_the_paper(page, tmp_path):
    program = need_program("pdftotext", package="poppler-utils")
    name, word = "a" * 64, "Long" * 60
    window = page({name: said(name, event(2, word, [name], name, 700, event_status=word, event_source=word))})
    (tmp_path / "report.pdf").write_bytes(window.print_page())
    printed = subprocess.check_output([program, "-layout", str(tmp_path / "report.pdf"), "-"], text=True)
    assert "Host server is undergoing maintenance." in printed
    assert "C7061BAC-AFDC-4513-B24B-000000000002" in printed


def test_sixty_events_are_printed_on_six_pages_none_empty_each_with_its_axis_or_the_heads_of_its_table(page, tmp_path):
    program = need_program("pdftotext", package="poppler-utils")
    (tmp_path / "report.pdf").write_bytes(page(many_events(60, length=32)).print_page())
    printed = subprocess.check_output([program, "-layout", str(tmp_path / "report.pdf"), "-"], text=True)
    pages = printed.split("\f")[:-1]
    assert 2 <= len(pages) <= 6
    assert "Azure maintenance" in pages[0]
    for number, text in enumerate(pages):
        assert text.strip(), f"page {number + 1} is empty"
        # Some releases of pdftotext break the line before the number of seconds.
        on_timeline, in_table = re.search(r"Reboot (in|due)\b", text) is not None, "Scheduled" in text
        assert ("first hour" in text and "10:30" in text) is on_timeline
        assert ("Description" in text) is in_table
    assert sum("first hour" in text for text in pages) >= 2
    assert sum("Description" in text for text in pages) >= 2


def test_an_empty_fleet_is_a_page_too(page):
    window = page({"web-1": said("web-1")})
    assert "No maintenance is announced to the VMs that answered." in window.look("document.body.innerText")
    assert window.look("document.querySelectorAll('svg, table').length") == 0


def test_a_fleet_that_nobody_asked_is_a_page_that_claims_nothing(page):
    assert "No VM answered, so nothing is known of any maintenance." in page({}).look("document.body.innerText")


def test_two_thousand_events_are_all_there_and_can_be_sorted(page):
    window = page(many_events(2000))
    assert window.look(f"{LANES}.length") == 2000
    window.look("document.querySelectorAll('#events th button')[2].click()")
    window.look("document.querySelectorAll('#events th button')[2].click()")
    assert window.look(f"{ROWS}.length") == 2000
    assert window.look(f"{ROWS}[0].cells[4].textContent") == "vm-1999"
    look_for(window, "vm-1999")
    assert window.look(NAMES) == ["vm-1999"]
    assert wide_as_its_window(window)
