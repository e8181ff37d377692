# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet on a clock of its own, which does what the engine says.

It stands for Ansible, the hosts and Azure. Nothing here decides what a run does.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Callable, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import (
    CHECKER,
    PREPARED,
    RUN,
    new_mark,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import engine
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.hosts import (
    NEW_HOST,
    news,
    pause_between,
    take_answer,
)

START = 1795255200.0  # 2026-11-21T10:00:00Z
SETTINGS = {
    "event_ids": [],
    "event_types": [],
    "event_sources": [],
    "due_within": None,
    "approve": True,
    "wait": True,
    "wait_timeout": 3600,
    "outside_vms": "refuse",
    "prepare": "drain.yml",
    "restore": "refill.yml",
    "prepare_timeout": 600,
    "restore_timeout": 600,
    "reconnect_timeout": 300,
    "ask_timeout": 30,
    "max_unavailable": "",
    "group": "",
}
_MOST_TURNS = 500


def make_event(
    event_id: str = "A1",
    resources: Sequence[str] = ("web-1", "web-2"),
    status: str | None = "Scheduled",
    not_before: str | None = "2026-11-21T10:15:00Z",
    **more: Any,
) -> dict[str, Any]:
    """Return an event as a host tells of it."""
    return {
        "event_id": event_id,
        "event_type": "Reboot",
        "event_status": status,
        "resource_type": "VirtualMachine",
        "resources": list(resources),
        "not_before": None if status == "Started" else not_before,
        "not_before_raw": "",
        "description": None,
        "event_source": "Platform",
        "duration_seconds": None,
        "affects_this_vm": True,
        **more,
    }


class FleetEvent:
    """An event of Azure: it starts at its time, or when it is approved, and lasts."""

    def __init__(self, event_id: str, vms: list[str], **more: Any) -> None:
        self.event_id = event_id
        self.vms = vms
        self.event_type = more.get("event_type", "Reboot")
        self.announced_at = START + more.get("announced_after", 0.0)
        self.not_before = self.announced_at + more.get("notice", 900.0)
        self.lasts = more.get("lasts", 60.0)
        self.started_at: float | None = None
        self.withdrawn_at: float | None = None

    def status(self, now: float) -> str | None:
        """Return how it is listed, None where it is not."""
        if now < self.announced_at or (self.withdrawn_at is not None and now >= self.withdrawn_at):
            return None
        if self.started_at is None and now >= self.not_before:
            self.started_at = self.not_before
        if self.started_at is None or now < self.started_at:
            return "Scheduled"
        return "Started" if now < self.started_at + self.lasts else None

    def told(self, name: str, now: float) -> dict[str, Any]:
        status = self.status(now)
        moment = datetime.fromtimestamp(self.not_before, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        more = {"event_type": self.event_type, "affects_this_vm": name in self.vms}
        return make_event(self.event_id, self.vms, status, moment, **more)


class Fleet:
    """Hosts web-1, web-2 and so on, each the VM of that name unless ``names`` says otherwise.

    :ivar story: what each host did, in order.
    :ivar posted: which host approved what, and with whom.
    :ivar lines: what was said.
    """

    _runs = 0

    def __init__(
        self, hosts: list[str], *events: FleetEvent, plays: int = 3, check_mode: bool = False, **settings: Any
    ):
        self.now = START
        self.events = list(events)
        self.names = {host: host for host in hosts}
        self.boots = dict.fromkeys(hosts, "boot-1")
        self.story: dict[str, list[str]] = {host: [] for host in hosts}
        self.posted: list[tuple[str, str, list[str]]] = []
        self.lines: list[str] = []
        # When a host cannot be reached: from, until
        self.down: dict[str, tuple[float, float]] = {}
        # Hosts that can be reached and whose metadata service does not answer
        self.silent: set[str] = set()
        # When a host can be reached and not asked, and whether for a wrong password: from, until, whether
        self.refusing: dict[str, tuple[float, float, bool]] = {}
        self.refused: list[str] = []
        # Files that fail, and those in which the host is lost: "prepare web-1"
        self.failing: set[str] = set()
        self.losing: set[str] = set()
        # The marks on each host, by the keys of their events
        self.marks: dict[str, dict[str, dict[str, Any]]] = {host: {} for host in hosts}
        # Hosts whose checker was asked
        self.checked: set[str] = set()
        # Hosts on which no mark can be written, or removed
        self.no_marks: set[str] = set()
        # What others have on a host when it is to begin: the marks that are in the way, once
        self.hindered_by: dict[str, list[str]] = {}
        # Done just before, and just after, a host takes its part in such a turn: {"prepare": function of the host};
        # what the latter returns is in the report of the host, too
        self.before: dict[str, Callable[[str], None]] = {}
        self.after: dict[str, Callable[[str], dict[str, Any] | None]] = {}
        # The first so many turns that a run takes; it is broken off then
        self.most_turns: int | None = None
        self.approval: Callable[[FleetEvent], dict[str, Any]] | None = None
        self.done: list[str] = []
        self._plays = plays
        self._play = 1
        Fleet._runs += 1
        only_marked, open_too = settings.pop("only_marked", False), settings.pop("open_too", False)
        run = engine.new_run(1, "play-1", hosts, None, check_mode, f"run-{Fleet._runs}", only_marked)
        own = settings.pop("own", {})
        for host in hosts:
            given = {**SETTINGS, **settings, **own.get(host, {})}
            run["hosts"][host] = {**NEW_HOST, "settings": given, "open_too": open_too, "run": run["id"]}
        self.run = {**run, "batch": list(hosts)}
        self._gone: set[str] = set()

    def again(self, **settings: Any) -> Fleet:
        """Return another run over the same hosts, from now on."""
        other = Fleet(list(self.names), *self.events, **settings)
        for name in ("now", "names", "boots", "story", "posted", "down", "marks"):
            setattr(other, name, getattr(self, name))
        return other

    @property
    def said(self) -> str:
        """What was said, without its line ends."""
        return " ".join(" ".join(self.lines).split())

    def stop_after(self, turns: int, seconds: float = 0.0) -> Fleet:
        """Take so many turns, as a run that is broken off then, and let time pass."""
        self.most_turns = turns
        self.go()
        self.most_turns = None
        self.now += seconds
        return self

    def is_down(self, host: str) -> bool:
        first, last = self.down.get(host, (0.0, 0.0))
        return first <= self.now < last

    def go(self) -> Fleet:
        """Take turns until the run is done."""
        for turn in range(_MOST_TURNS):
            if turn == self.most_turns:
                return self
            returns = self._play < self._plays
            present = [host for host in self.names if host not in self._gone]
            self.run = engine.enter_play(self.run, f"play-{self._play}", present)
            self.run = engine.decide(self.run, self.now, returns)
            self.lines += self.run["lines"]
            self.done.append(self.run["do"])
            self.run["lines"] = []
            if self.run["do"] in (engine.DONE, engine.REFUSE):
                return self
            if self.run["do"] == engine.LEAVE:
                self._play += 1
                self._gone = set()
                continue
            reports = self._take_turn()
            self.run = engine.take_reports(self.run, reports, self.now)
        raise AssertionError(f"The run does not end: {self.done[-20:]}")

    def _take_turn(self) -> dict[str, dict[str, Any]]:
        do, orders = self.run["do"], self.run["orders"]
        if do == engine.WAIT:
            return self._wait(orders)
        begun = self.now
        self.now += 1.0
        reports = {}
        for host, order in orders.items():
            self.now += 0.1
            if do in self.before:
                self.before[do](host)
            report = getattr(self, f"_{do}")(host, order)
            if report is not None:
                more = self.after[do](host) if do in self.after else None
                reports[host] = {**report, **(more or {})}
        self.now = max(self.now, begun + 1.0)
        return reports

    def answer(self, host: str) -> dict[str, Any]:
        if self.is_down(host):
            return {"unreachable": True, "msg": "The host is down."}
        if host in self.silent:
            return {"msg": "The metadata service does not answer.", "reason": "timeout"}
        first, last, wrong_password = self.refusing.get(host, (0.0, 0.0, False))
        if first <= self.now < last:
            self.refused.append(host)
            return {"msg": "Not allowed.", "wrong_password": wrong_password}
        name = self.names[host]
        listed = [event.told(name, self.now) for event in self.events if event.status(self.now)]
        return {
            "events": [event for event in listed if event["affects_this_vm"]],
            "document_received": True,
            "document_is_clear": True,
            "document_incarnation": 1,
            "resource_name": name,
            "boot_id": self.boots[host],
            "vm_id": f"id-of-{host}",
            "marks": [{**mark, "counts": True, "file": f"/{key}"} for key, mark in self.marks[host].items()],
            "msg": "",
        }

    def _known(self, host: str) -> dict[str, Any]:
        return take_answer(self.run["hosts"][host], self.answer(host), self.now)

    def _ask(self, host: str, order: Any) -> dict[str, Any]:
        return {"host": self._known(host)}

    def _wait(self, orders: dict[str, Any]) -> dict[str, Any]:
        since = self.now
        known = {host: self.run["hosts"][host] for host in orders}
        while True:
            known = {host: take_answer(each, self.answer(host), self.now) for host, each in known.items()}
            ends = min(order["until"] for order in orders.values())
            told = any(news(self.run["hosts"][host], known[host]) for host in orders)
            if told or self.now >= ends:
                return {host: {"host": each} for host, each in known.items()}
            self.now = min(ends, self.now + pause_between(self.now - since))

    def _file(self, phase: str, host: str, order: Any) -> dict[str, Any] | None:
        if self.is_down(host) or f"{phase} {host}" in self.losing:
            self.losing.discard(f"{phase} {host}")
            self.story[host].append(f"{phase} {order['event_id']} lost")
            self._gone.add(host)
            return None
        if f"{phase} {host}" in self.failing:
            self.story[host].append(f"{phase} {order['event_id']} failed")
            return {"host": self._known(host), "reached": False, "why": "Drain: No."}
        self.story[host].append(f"{phase} {order['event_id']}")
        return {"host": self._known(host), "reached": True, "why": None}

    def _prepare(self, host: str, order: Any) -> dict[str, Any] | None:
        if host in self.no_marks:
            return {"host": self._known(host), "reached": False, "began": False, "why": "The disk is full."}
        if not self.is_down(host) and not self.run["check_mode"]:
            since = datetime.fromtimestamp(self.now, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            told = {"run": self.run["id"], "boot_id": self.boots[host], "vm_id": f"id-of-{host}"}
            mark = new_mark(RUN, order["event"], since, controller="control", user="anna", **told)
            self.marks[host][f"{order['event_id']} {self.run['id']}"] = mark
            if host in self.hindered_by:
                return {
                    "host": self._known(host),
                    "reached": False,
                    "began": False,
                    "hindered": self.hindered_by.pop(host),
                }
        return self._file("prepare", host, order)

    def _checker(self, host: str, order: Any) -> dict[str, Any]:
        """The checker of the host has prepared it, unless it is one of ``failing``."""
        if host not in self.checked:
            self.checked.add(host)
            mark = {**new_mark(CHECKER, order["event"], "2026-11-21T09:59:00Z"), "state": PREPARED}
            self.marks[host][f"{order['event_id']} checker"] = mark
        reached = f"prepare {host}" not in self.failing
        return {"host": self._known(host), "reached": reached, "why": None if reached else "Its checker failed."}

    def _restore(self, host: str, order: Any) -> dict[str, Any] | None:
        if host in self.hindered_by:
            return {"reached": False, "hindered": self.hindered_by.pop(host)}
        if order["only_marked"]:
            self.story[host].append(f"mark removed {order['event_id']}")
            del self.marks[host][f"{order['event_id']} {self.run['id']}"]
            return {"reached": True, "why": None}
        if order["is_marked"] and self.run["hosts"][host]["settings"]["restore"] in ("", "nothing"):
            report: dict[str, Any] | None = {"reached": True, "why": None}
        else:
            report = self._file("restore", host, order)
        if report and report["reached"] and order["is_marked"]:
            if host in self.no_marks:
                report["mark_left"] = "The disk is read-only."
            else:
                kept = {
                    key: mark
                    for key, mark in self.marks[host].items()
                    if mark["event_id"] != order["event_id"] or mark["by"] != RUN
                }
                self.marks[host] = kept
        return report and {name: report[name] for name in ("reached", "why", "mark_left") if name in report}

    def _approve(self, host: str, order: Any) -> dict[str, Any]:
        results = []
        for item in order:
            own = [each for each in self.events if each.event_id == item["event"]["event_id"]]
            # Azure may use an id anew.
            event = next((each for each in own if each.status(self.now)), own[0])
            result = {"approvals": [{"result": "approved"}], "in_doubt": False}
            if self.is_down(host):
                result = {"unreachable": True}
            elif self.approval is not None:
                result = self.approval(event)
            elif item.get("event_types", event.event_type) != event.event_type:
                # As scheduled_event_approve tells that it left a listed event alone.
                result = {"approvals": [], "in_doubt": False, "document_is_clear": True, "msg": "no such event"}
            elif not self.run["check_mode"]:
                event.started_at = self.now
                self.posted.append((host, event.event_id, item["resources_ready"]))
            results.append({**result, "item": item})
        return {"results": results}
