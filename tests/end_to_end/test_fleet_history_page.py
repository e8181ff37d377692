# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of a fleet history in a real browser: what is on it, and that the numbers of plots are in their tables."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.history_row import ROW
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.history import host_results
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.history.merge import merge_slices
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.history.page import as_html
from ansible_collections.fleetops.azure_maintenance.tests.browser import PROGRAMS, browser, check_alone, show_page
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

PROGRAM = need_program(*PROGRAMS, package="chromium")
NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
HOSTILE = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
# Type, notice and length in seconds
KINDS = (("Reboot", 890, 240), ("Freeze", 880, 9), ("Preempt", 12, 30), ("Terminate", 290, 90000), ("Hibernate", 5, 1))
PLOTS = ("notice", "weeks", "lasted")
# The numbers that stand in a text, durations as a whole: a function of JavaScript
NUMBERS = r"(text) => text.match(/\d{4}-W\d\d|\d+(?:,\d{3})*(?: (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?)?/g) ?? []"
# For each part of a plot, told by its title, the numbers that its row of the table lacks; and those of all other texts
LACKING = """
((name) => {
  const numbers = {numbers};
  const section = document.getElementById(name);
  const rows = [...section.querySelectorAll("tbody tr")];
  const lacking = [];
  const compare = (text, cells) => {
    const known = new Set(cells.flatMap((cell) => numbers(cell.textContent)));
    lacking.push(...numbers(text).filter((each) => !known.has(each)).map((each) => `${text}: ${each}`));
  };
  const titles = [...section.querySelectorAll(".plot title")];
  for (const title of titles) {
    const row = rows.find((each) => each.cells[0].textContent === title.textContent.split(":")[0]);
    compare(title.textContent, row ? [...row.cells] : []);
  }
  for (const text of section.querySelectorAll(".plot text:not(.tick), .plot .week")) {
    compare(text.textContent, rows.flatMap((row) => [...row.cells]));
  }
  return {lacking, titles: titles.length, numbers: titles.flatMap((each) => numbers(each.textContent)).length};
})
""".replace("{numbers}", NUMBERS)


def row(host, number):
    kind, notice, length = KINDS[number % len(KINDS)]
    seen = NOW - timedelta(days=3 * number, hours=host)
    started = seen + timedelta(seconds=40 + number)
    return {
        **dict.fromkeys(ROW),
        "event_id": f"C7061BAC-AFDC-4513-{host:04X}-{number:012X}",
        "event_type": kind,
        "description": HOSTILE,
        "event_source": HOSTILE,
        "first_seen_at": format_utc(seen),
        "not_before_first": format_utc(seen + timedelta(seconds=notice + host)),
        "started_at": format_utc(started),
        "ended_at": format_utc(started + timedelta(seconds=length * (host + 1))),
        "outcome": "completed",
        "responses": 0,
        "failed_responses": [],
        "late": False,
        "simulated": False,
    }


def said(name, rows):
    found = {"resource_name": name, "history_format": 1, "version": "1.1.0", "warnings": [], "history": rows}
    return {"rc": 0, "stdout": json.dumps(found)}


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(window, tmp_path):
    """Open the history of some VMs."""
    path = tmp_path / "history.html"

    def show_fleet(results, **how):
        report = merge_slices([host_results.make_slice(results, "whole", NOW)], NOW)
        return show_page(window, path, as_html(report), **how)

    yield show_fleet
    check_alone(window, path)


def fleet(hosts=4, events=40):
    found = {
        f"host-{host}": said(f"web-{host}", [row(host, number) for number in range(events)]) for host in range(hosts)
    }
    return {**found, HOSTILE: {"unreachable": True, "msg": HOSTILE}}


def test_every_number_on_a_plot_is_in_its_table(page):
    shown = page(fleet())
    for name in PLOTS:
        found = shown.look(f"{LACKING}('{name}')")
        assert found["lacking"] == []
        # It is a plot with something on it.
        assert found["titles"] >= 5
        assert found["numbers"] >= 2 * found["titles"]
    assert shown.look("document.querySelectorAll('#weeks .plot title').length") == 17
    assert shown.look("document.querySelectorAll('#weeks tbody tr').length") == 17


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_is_as_wide_as_the_window_and_text_from_outside_is_text(page, width, scheme):
    shown = page(fleet(2, 5), width=width, scheme=scheme)
    assert shown.look("document.documentElement.scrollWidth") <= width
    assert shown.look("document.title") == "What Azure really did, 2026-11-21T10:00:00Z"
    assert shown.look("document.querySelectorAll('script, img').length") == 0
    assert HOSTILE in shown.look("document.body.textContent")
    light = shown.look("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"
    assert light == (scheme == "light")
    # The lanes of a plot are within it, on a phone too.
    inside = (
        "[...document.querySelectorAll('.plot text')].every((each) => each.getBoundingClientRect().right <= innerWidth)"
    )
    assert shown.look(inside)


@pytest.mark.parametrize("width", [705, 800, 950, 1180])
def test_no_column_is_out_of_sight_on_a_tablet(page, width):
    shown = page(fleet(2, 40), width=width)
    shown.look("for (const folded of document.querySelectorAll('details')) folded.open = true")
    wide = "[...document.querySelectorAll('.wide')].filter((each) => each.scrollWidth > each.clientWidth)"
    assert shown.look(f"{wide}.map((each) => each.getAttribute('aria-label'))") == []


@pytest.mark.parametrize("width", [1280, 390])
def test_no_time_and_no_week_covers_another_one(page, width):
    # Weeks of two years, and notices from seconds to many minutes
    shown = page(fleet(2, 240), width=width)
    for plot in ("#notice .axis", "#lasted .axis", ".weeks"):
        ticks = f"[...document.querySelectorAll('{plot} .tick')].filter((text) => text.checkVisibility())"
        places = shown.look(f"{ticks}.map((text) => text.getBoundingClientRect()).map((box) => [box.left, box.right])")
        assert len(places) >= 3
        assert all(right < left for (_left, right), (left, _right) in zip(places, places[1:])), (plot, places)


@pytest.mark.parametrize(("weeks", "least"), [(1, 1), (2, 2), (3, 3), (5, 5), (7, 4), (12, 3), (31, 3)])
def test_on_a_phone_as_many_weeks_have_their_names_as_there_is_room_for(page, weeks, least):
    seen = [format_utc(NOW - timedelta(weeks=number)) for number in range(weeks)]
    rows = [{**row(0, number), "first_seen_at": at, "started_at": None} for number, at in enumerate(seen)]
    shown = page({"host-0": said("web-0", rows)}, width=390)
    names = "[...document.querySelectorAll('.weeks .week')].filter((text) => text.checkVisibility())"
    places = shown.look(f"{names}.map((text) => text.getBoundingClientRect()).map((box) => [box.left, box.right])")
    assert len(places) >= least
    assert all(right < left for (_left, right), (left, _right) in zip(places, places[1:])), places


def test_hosts_without_a_history_come_first_and_a_number_leads_to_what_it_counts(page):
    shown = page(fleet())
    heads = shown.look("[...document.querySelectorAll('h2')].map((head) => head.textContent)")
    assert heads[:3] == ["1 host without a whole history", "By type", "Notice given against documented"]
    links = shown.look("[...document.querySelectorAll('.counts a')].map((link) => [link.textContent, link.hash])")
    assert links[:2] == [["without a whole history", "#hosts"], ["events", "#events"]]
    assert (
        shown.look("[...document.querySelectorAll('.counts a')].filter((a) => !document.querySelector(a.hash))") == []
    )
    assert HOSTILE in shown.look("document.querySelector('#hosts').innerText")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_few_hosts_without_a_history_are_whole(page, width):
    lost = "Failed to connect to the host via ssh: ssh: connect to host 10.1.0.4 port 22: Connection timed out. " * 2
    shown = page({f"web-{number}": {"unreachable": True, "msg": lost} for number in range(2)}, width=width)
    height, room = (shown.look(f"document.querySelector('.few').{name}") for name in ("scrollHeight", "clientHeight"))
    assert height <= room


@pytest.mark.parametrize("width", [800, 1400])
def test_a_long_name_or_word_leaves_room_for_what_stands_beside_it(page, width):
    word = "Long" * 60
    shown = page({
        "a" * 150: {"unreachable": True, "msg": "No route to host"},
        "b" * 150: said("c" * 64, [{**row(0, 0), "event_type": word, "event_source": word, "outcome": word}]),
    }, width=width)  # fmt: skip
    right = "document.querySelector('#hosts td:last-child').getBoundingClientRect().right"
    assert shown.look(f"{right} <= window.innerWidth"), "the message is out of sight"
    widths = "[...document.querySelector('#events tbody tr').cells].map((cell) => cell.getBoundingClientRect().width)"
    assert max(shown.look(widths)) < 600


def test_all_columns_of_usual_events_are_in_sight_on_a_usual_screen(page):
    usual = {"description": "Host server is undergoing maintenance.", "event_source": "Platform"}
    rows = [{**row(0, number), **usual} for number in range(4)]
    shown = page({"host-0": said("web-0", rows)}, width=1400)
    table, room = (shown.look(f"document.querySelector('#events').parentElement.{name}Width")
                   for name in ("scroll", "client"))  # fmt: skip
    assert table <= room


def test_on_a_phone_a_cell_without_a_text_takes_no_room(page):
    shown = page(fleet(2, 5), width=390)
    cells = "[...document.querySelectorAll('#events td')]"
    assert shown.look(f"{cells}.filter((cell) => !cell.textContent).length") > 0
    assert shown.look(f"{cells}.filter((cell) => !cell.textContent && cell.checkVisibility()).length") == 0


def test_in_print_each_plot_stands_below_its_head_with_its_table_and_no_word_of_a_head_is_broken(page, tmp_path):
    program = need_program("pdftotext", package="poppler-utils")
    (tmp_path / "history.pdf").write_bytes(page(fleet(2, 60), scheme="dark").print_page())
    printed = subprocess.check_output([program, "-layout", str(tmp_path / "history.pdf"), "-"], text=True)
    pages = printed.split("\f")[:-1]
    for number, text in enumerate(pages):
        assert text.strip(), f"page {number + 1} is empty"
        # The lowest lane of the plot
        for head in ("Notice given against", "How long events lasted"):
            assert head not in text or "Terminate" in text.split(head)[1]
    for words in ("Withdrawn", "Shorter", "Upper quarter", "2026-W47"):
        assert words in printed


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (800, "light"), (390, "light")])
def test_axe_core_finds_nothing_that_hinders_people(axe, page, width, scheme):
    shown = page(fleet(2, 5), width=width, scheme=scheme)
    shown.look("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert shown.violations(axe) == []


def test_a_fleet_without_events(page):
    shown = page({"host-0": said("web-0", [])})
    assert "No VM that answered remembers an event." in shown.look("document.body.textContent")
    shown = page({"host-0": None})
    assert "No VM told its history, so nothing is known." in shown.look("document.body.textContent")
