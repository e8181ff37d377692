# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics as Prometheus reads them, and how they and the facts are written to the disk."""

from __future__ import annotations

import json
import os
import re
import resource
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import escape
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import system
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report import (
    report as reports,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.report import (
    Publisher,
    needing_attention,
    public,
    report,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import (
    records as states,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    HOSTILE,
    NOW,
    make_event,
    open_state,
    started,
)

pytestmark = pytest.mark.filterwarnings("error")

A_START = NOW.timestamp() + 900
NONE_FAILED = [({"phase": phase}, 0) for phase in ("announced", "ended", "restore", "started", "waiting")]


def parse(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Read the text format as strictly as its specification has it: each metric with its samples."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    kinds: dict[str, str] = {}
    helped: list[str] = []
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("#"):
            word, name, rest = re.fullmatch(r"# (HELP|TYPE) ([a-z_:]+) (.+)", line).groups()
            if word == "HELP":
                helped.append(name)
            else:
                assert rest in ("counter", "gauge")
                assert name == helped[-1]
                assert name not in kinds
                kinds[name] = rest
                found[name] = []
            continue
        name, labels, value = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (-?[0-9.]+)", line, re.DOTALL).groups()
        assert name == list(kinds)[-1], "the samples of a metric must stand together"
        pairs = re.findall(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"', labels or "", re.DOTALL)
        assert ",".join(f'{key}="{value}"' for key, value in pairs) == (labels or "")
        unescaped = {key: re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], value) for key, value in pairs}
        sample = (unescaped, float(value))
        assert unescaped not in [labels for labels, _value in found[name]], "the same sample twice"
        found[name].append(sample)
    return {name.replace("azure_maintenance_", "", 1): samples for name, samples in found.items()}


@pytest.fixture
def metrics(state, clock):
    """The metrics of the state as it is, parsed."""

    def read():
        return parse(reports.metrics(state, report(state, clock.now(), needing_attention(state))))

    return read


@pytest.fixture
def metrics_dir(tmp_path):
    path = tmp_path / "metrics"
    path.mkdir()
    return path


@pytest.fixture
def publisher(metrics_dir, folders):
    return Publisher(str(metrics_dir), folders)


def set_polls(state: Any, **polls: Any) -> None:
    with state.transaction():
        state.set_fact("polls", {"number": 0, "errors": {}, "last_answer_at": None, "last_error": None, **polls})


def test_of_an_empty_state(metrics):
    assert metrics() == {
        "polls_total": [({}, 0)],
        "poll_errors_total": [],
        "last_poll_success": [({}, 1)],
        "last_answer_timestamp_seconds": [],
        "state_damaged": [({}, 0)],
        "marks_left": [({}, 0)],
        "events": [],
        "event_seconds_until_start": [],
        "event_not_before_timestamp_seconds": [],
        "event_waits_for_approval": [],
        "event_prepared": [],
        "failed_responses": NONE_FAILED,
        "failed_steps": NONE_FAILED,
        "responses": [],
    }


def test_of_polls(metrics, state):
    set_polls(
        state,
        number=7,
        errors={"timeout": 2, "http_status": 1},
        last_answer_at=NOW.timestamp(),
        last_error={"reason": "timeout", "message": "Too late.", "at": NOW.timestamp()},
    )
    found = metrics()
    assert found["polls_total"] == [({}, 7)]
    assert found["poll_errors_total"] == [({"reason": "http_status"}, 1), ({"reason": "timeout"}, 2)]
    assert found["last_poll_success"] == [({}, 0)]
    assert found["last_answer_timestamp_seconds"] == [({}, NOW.timestamp())]


def test_p7_a_state_that_was_put_aside_is_told_until_it_is_moved_away(metrics_dir, publisher, folders, state, clock):
    def told():
        publisher.publish(state, clock.now())
        return parse((metrics_dir / "azure_maintenance.prom").read_text())["state_damaged"]

    assert told() == [({}, 0)]
    aside = Path(folders.state, "state.db.damaged-20261121T100000Z-1")
    aside.touch()
    set_polls(state, number=1)
    assert told() == [({}, 1)]
    aside.unlink()
    set_polls(state, number=2)
    assert told() == [({}, 0)]


def test_of_events(metrics, story, state, clock):
    story.see(
        make_event(resources=("web-1", "web-2")),
        started(make_event("B")),
        make_event("C", event_type=None, event_status=None, not_before=None),
        make_event("D"),
    )
    story.approve(states.WAITING, "web-2")
    clock.advance(60)
    found = metrics()
    a, b, c, d = (
        {"event_id": event_id, "event_type": kind, "event_status": status}
        for event_id, kind, status in (
            ("A1", "Reboot", "Scheduled"),
            ("B", "Reboot", "Started"),
            ("C", "unknown", "unknown"),
            ("D", "Reboot", "Scheduled"),
        )
    )
    assert found["events"] == [
        ({"event_type": "Reboot", "event_status": "Scheduled"}, 2),
        ({"event_type": "Reboot", "event_status": "Started"}, 1),
        ({"event_type": "unknown", "event_status": "unknown"}, 1),
    ]
    assert found["event_seconds_until_start"] == [(a, 840), (b, 0), (d, 840)]
    assert found["event_not_before_timestamp_seconds"] == [(a, A_START), (d, A_START)]
    assert found["event_waits_for_approval"] == [(a, 1), (b, 0), (c, 0), (d, 0)]


def test_an_ended_event_counts_for_its_responses_only(metrics, story, state, clock):
    story.see(make_event(), on_ended=[{"command": ["x"]}])
    story.see()
    found = metrics()
    assert found["events"] == []
    assert found["event_seconds_until_start"] == []
    assert found["responses"] == [({"phase": "ended", "result": "planned"}, 1)]


def test_of_responses(metrics, story, state, clock):
    steps = {"on_announced": [{"command": ["x"]}], "on_ended": [{"command": ["x"]}]}
    story.see(make_event("A"), make_event("B"), make_event("C"), **steps)
    for number, result in ((1, states.FAILED), (2, states.SUCCEEDED), (3, states.SUCCEEDED)):
        story.finish(number, result)
    story.see(make_event("B"), make_event("C"), **steps)
    assert metrics()["responses"] == [
        ({"phase": "announced", "result": "failed"}, 1),
        ({"phase": "announced", "result": "succeeded"}, 2),
        ({"phase": "ended", "result": "planned"}, 1),
    ]


def test_of_what_failed_and_can_be_tried_again(metrics, story, state, clock):
    steps = {"on_announced": [{"command": ["x"]}], "on_ended": [{"command": ["x"]}]}
    story.see(make_event("A"), make_event("B"), **steps)
    story.finish(1, states.FAILED)
    story.finish(2, states.FAILED)
    failed = {labels["phase"]: count for labels, count in metrics()["failed_responses"]}
    assert failed == {"announced": 2, "ended": 0, "restore": 0, "started": 0, "waiting": 0}
    # It is too late to prepare for what has ended.
    story.see(make_event("B"), **steps)
    failed = {labels["phase"]: count for labels, count in metrics()["failed_responses"]}
    assert failed == {"announced": 1, "ended": 0, "restore": 0, "started": 0, "waiting": 0}


@pytest.mark.parametrize(
    ("rule", "state_of_response", "prepared"),
    [
        ({"on_announced": [{"command": ["x"]}]}, None, 0),
        ({"on_announced": [{"command": ["x"]}]}, states.FAILED, 0),
        ({"on_announced": [{"command": ["x"]}]}, states.SUCCEEDED, 1),
        # The rule has nothing to do before the event.
        ({"approve": "never"}, None, 1),
        # No rule matches.
        ({"match": {"event_types": ["Freeze"]}}, None, 0),
    ],
)
def test_of_what_is_prepared(metrics, story, state, clock, rule, state_of_response, prepared):
    story.see(make_event(), **rule)
    if state_of_response is not None:
        story.finish(1, state_of_response)
    ((_labels, value),) = metrics()["event_prepared"]
    assert value == prepared


def test_p13_a_webhook_that_failed_is_told_although_its_response_succeeded(metrics, story, state, clock):
    story.see(make_event(), on_announced=[{"webhook": "https://example.com/"}])
    with state.transaction():
        state.finish_step(state.steps(1)[0], states.FAILED, "Nobody took it.", clock.now())
        state.finish_response(1, states.SUCCEEDED, None, clock.now())
    found = metrics()
    assert found["failed_responses"] == NONE_FAILED
    assert [labels["phase"] for labels, count in found["failed_steps"] if count] == ["announced"]


def test_p2_what_was_prepared_before_a_boot_is_not_prepared_until_the_event_has_started(metrics, story, state, clock):
    def prepared():
        ((_labels, value),) = metrics()["event_prepared"]
        return value

    story.see(make_event(), on_announced=[{"command": ["x"]}])
    with state.transaction():
        state.finish_step(state.steps(1)[0], states.SUCCEEDED, None, clock.now())
        state.finish_response(1, states.SUCCEEDED, None, clock.now())
    assert prepared() == 1
    clock.reboot()
    assert prepared() == 0
    # This boot may be that of the event.
    story.see(started(make_event()))
    assert prepared() == 1


@pytest.mark.parametrize(
    "text",
    [
        'a"b',
        "a\\b",
        "a\\",
        '\\"',
        "a\nb",
        "a\\nb",
        'x",event_type="y',
        "x} 1\nup 1",
        "é🚧\u2028\x85\r",
        HOSTILE.format(marker="/tmp/x"),
    ],
)
def test_text_from_azure_stays_within_its_label(metrics, story, text):
    story.see(make_event(event_id=text, event_type=text, event_status=text))
    word = escape(text[:100])
    labels = {"event_id": escape(text), "event_type": word, "event_status": word}
    found = metrics()
    assert found["event_seconds_until_start"] == [(labels, 900)]
    assert found["events"] == [({"event_type": word, "event_status": word}, 1)]


def test_f4_the_file_keeps_no_character_that_steers_a_terminal(state, clock, story):
    steers = "a\x1b[31m\x9b1m\u202e\r\nb\u2028"
    story.see(make_event(event_id=steers, event_type=steers, event_status=steers))
    text = reports.metrics(state, report(state, clock.now(), needing_attention(state)))
    assert {char for char in text if not char.isprintable()} == {"\n"}
    assert r"a\\u001b[31m" in text


OBSTACLES = pytest.mark.parametrize(
    "make",
    [
        lambda path, _victim: os.mkfifo(path),
        lambda path, victim: os.link(victim, path),
        lambda path, victim: os.symlink(victim, path),
    ],
    ids=["FIFO", "hard link", "symbolic link"],
)


class TestPublisher:
    """The files that others read."""

    def test_they_are_written_whole_and_readable_for_all(self, publisher, metrics_dir, folders, state, clock, story):
        story.see(make_event(description="é🚧\u2028"))
        before = os.umask(0o077)
        try:
            publisher.publish(state, clock.now())
        finally:
            os.umask(before)
        assert sorted(os.listdir(folders.facts)) == ["azure_maintenance.fact"]
        assert sorted(os.listdir(metrics_dir)) == ["azure_maintenance.prom"]
        facts, metrics = Path(folders.facts, "azure_maintenance.fact"), metrics_dir / "azure_maintenance.prom"
        for path in (facts, metrics):
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert json.loads(facts.read_text("utf-8")) == public(report(state, clock.now(), needing_attention(state)))
        assert parse(metrics.read_text("utf-8"))["events"]

    def test_a_reader_never_sees_half_a_file(self, publisher, folders, state, clock, story):
        publisher.publish(state, clock.now())
        path = Path(folders.facts, "azure_maintenance.fact")
        with path.open() as reader:
            story.see(make_event())
            publisher.publish(state, clock.now())
            assert json.load(reader)["events"] == []
        assert len(json.loads(path.read_text())["events"]) == 1

    def test_they_are_written_when_there_is_something_new(self, publisher, folders, state, clock, story):
        path = Path(folders.facts, "azure_maintenance.fact")
        publisher.publish(state, clock.now())
        path.unlink()
        publisher.publish(state, clock.now())
        assert not path.exists()
        story.see(make_event())
        publisher.publish(state, clock.now())
        path.unlink()
        publisher.publish(state, clock.now())
        assert not path.exists()

    def test_while_an_event_is_open_they_are_written_again(self, publisher, folders, state, clock, story, monkeypatch):
        monkeypatch.setattr(reports, "_REFRESH", 0.0)
        path = Path(folders.facts, "azure_maintenance.fact")
        story.see(make_event())
        publisher.publish(state, clock.now())
        publisher.publish(state, clock.advance(60))
        assert json.loads(path.read_text())["events"][0]["seconds_until_start"] == 840
        story.see()
        publisher.publish(state, clock.now())
        path.unlink()
        publisher.publish(state, clock.now())
        assert not path.exists()

    def test_what_another_process_wrote_is_new(self, publisher, folders, state, clock):
        publisher.publish(state, clock.now())
        path = Path(folders.facts, "azure_maintenance.fact")
        path.unlink()
        other = open_state(folders)
        set_polls(other, number=3)
        other.close()
        publisher.publish(state, clock.now())
        assert json.loads(path.read_text())["polls"] == 3

    def test_without_a_folder_for_metrics_there_are_facts_only(self, folders, state, clock, tmp_path):
        Publisher(None, folders).publish(state, clock.now())
        assert not list(tmp_path.rglob("*.prom"))
        assert list(tmp_path.rglob("*.fact"))

    def test_a_folder_that_is_missing_is_told_once_and_stops_nothing(self, folders, state, clock, metrics_dir, capfd):
        os.rmdir(folders.facts)
        publisher = Publisher(str(metrics_dir), folders)
        for number in range(3):
            set_polls(state, number=number)
            publisher.publish(state, clock.now())
        assert capfd.readouterr().err == (
            f"{folders.facts}/azure_maintenance.fact cannot be written (No such file or directory).\n"
        )
        assert (metrics_dir / "azure_maintenance.prom").exists()

    @pytest.mark.parametrize("name", ["azure_maintenance.prom.new", "azure_maintenance.prom"])
    @OBSTACLES
    def test_nothing_that_somebody_put_there_is_opened(
        self, publisher, metrics_dir, state, clock, tmp_path, capfd, make, name
    ):
        """The folder of the metrics may belong to the exporter's user (P11)."""
        victim = tmp_path / "victim"
        victim.write_text("kept")
        make(metrics_dir / name, victim)
        publisher.publish(state, clock.now())
        assert victim.read_text() == "kept"
        written = metrics_dir / "azure_maintenance.prom"
        assert stat.S_ISREG(written.lstat().st_mode)
        assert parse(written.read_text())
        assert capfd.readouterr().err == ""

    @OBSTACLES
    def test_a_name_that_somebody_has_guessed_is_not_opened(
        self, publisher, metrics_dir, state, clock, tmp_path, capfd, make, monkeypatch
    ):
        """The new file must be new, whatever its name (P11)."""
        victim = tmp_path / "victim"
        victim.write_text("kept")
        make(metrics_dir / f"azure_maintenance.prom.{'ab' * 8}", victim)
        monkeypatch.setattr(system.os, "urandom", lambda number: b"\xab" * number)
        publisher.publish(state, clock.now())
        assert victim.read_text() == "kept"
        assert not (metrics_dir / "azure_maintenance.prom").exists()
        told = f"{metrics_dir}/azure_maintenance.prom cannot be written (File exists).\n"
        assert told in capfd.readouterr().err

    def test_the_name_of_the_new_file_cannot_be_guessed(self, metrics_dir, monkeypatch):
        opened = []
        real_open = os.open
        monkeypatch.setattr(
            system.os, "open", lambda path, flags, mode: opened.append((path, flags)) or real_open(path, flags, mode)
        )
        for _time in range(5):
            system.write_file(str(metrics_dir / "azure_maintenance.prom"), "x", 0o644)
        names = [path for path, _flags in opened]
        assert len(set(names)) == len(names) == 5
        assert all(len(name.rpartition(".")[2]) == 16 for name in names)
        assert all(flags & os.O_EXCL and flags & os.O_NOFOLLOW for _path, flags in opened)

    def test_a_folder_in_place_of_the_file_is_told_once_and_nothing_is_left_behind(
        self, publisher, metrics_dir, state, clock, capfd
    ):
        (metrics_dir / "azure_maintenance.prom").mkdir()
        for number in range(3):
            set_polls(state, number=number)
            publisher.publish(state, clock.now())
        assert os.listdir(metrics_dir) == ["azure_maintenance.prom"]
        assert capfd.readouterr().err == f"{metrics_dir}/azure_maintenance.prom cannot be written (Is a directory).\n"

    def test_a_disk_that_is_full_is_told_once_and_costs_what_stood_there_nothing(
        self, publisher, metrics_dir, state, clock, capsys
    ):
        publisher.publish(state, clock.now())
        before = (metrics_dir / "azure_maintenance.prom").read_text()
        with state.transaction():
            state.set_fact("other", {"x": 1})
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        try:
            publisher.publish(state, clock.now())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert os.listdir(metrics_dir) == ["azure_maintenance.prom"]
        assert (metrics_dir / "azure_maintenance.prom").read_text() == before
        assert f"{metrics_dir}/azure_maintenance.prom cannot be written (File too large).\n" in capsys.readouterr().err

    def test_what_all_may_read_has_no_command_line_and_no_message(self, publisher, folders, state, clock, story):
        """config.json is root's alone, and a step may have a password in its arguments (P12)."""
        story.see(make_event(), on_announced=[{"command": ["/usr/bin/drain", "--password", "s3cret"]}])
        now = clock.now()
        with state.transaction():
            state.begin_step(state.steps(1)[0], now)
            state.finish_step(state.steps(1)[0], states.FAILED, "s3cret was refused.", now)
            state.finish_response(1, states.FAILED, "Step 1 (command /usr/bin/drain --password s3cret): refused.", now)
        publisher.publish(state, clock.now())
        text = Path(folders.facts, "azure_maintenance.fact").read_text()
        assert "s3cret" not in text
        assert "/usr/bin/drain" not in text
        (event,) = json.loads(text)["events"]
        assert event["responses"][0]["steps"][0]["step"] == "command"
        # Root has all of it, by status --json.
        assert "s3cret" in json.dumps(report(state, now, needing_attention(state)))

    def test_the_labels_are_bounded(self, metrics_dir, publisher, state, clock, story):
        story.see(make_event(event_type="x" * 900_000, event_status="y" * 900_000))
        publisher.publish(state, clock.now())
        assert (metrics_dir / "azure_maintenance.prom").stat().st_size < 8000
