# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The decisions of a run; pure. A run is one loop of turns: it decides, its hosts act, and it decides again.

This is the only place that decides. It knows no Ansible and no clock: from the known progress of each host, and the
time, it returns an order for each host, and the sentences for the operator. Times are seconds since 1970.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, NamedTuple

from ...module_utils._event.document import fold_case
from ...module_utils._event.lifecycle import ANNOUNCED, ENDED
from ...module_utils._event.marks import RESTORING, RUN, find_mark
from .approval import OTHER_BATCH, apply_approval_results, hold_back, hold_back_refused, plan_approval
from .event_ids import resolve_event_ids
from .hosts import (
    NEW_HOST,
    Host,
    awaited_until,
    is_of_checker,
    is_present,
    is_tracked,
    is_wanted,
    lost_at,
    note_deletion,
    others_end_at,
    restores,
    seconds,
    shared,
    track_events,
)
from .limit import BOTH, NEITHER, next_urgent, queue_events
from .marks import (
    base_name,
    compare_marks,
    event_of,
    find_at_work,
    find_removable,
    keys_left,
    note_without_mark,
    take_up_marks,
)
from .messages import (
    format_given_up,
    format_held_back,
    format_limit,
    format_marked,
    format_not_asked,
    format_plan,
    format_queued,
    format_unwanted,
)
from .progress import (
    is_undecided,
    must_restore,
    note_interrupted_preparation,
    progress_key,
    start_preparation,
    update_event,
)
from .settings import CHECKER, NOTHING, as_boolean

Run = dict[str, Any]
# The orders of the hosts, by their names
Orders = dict[str, Any]

# The kinds of turns: all hosts of a turn do the same
ASK, PREPARE, CHECK, APPROVE, RESTORE, WAIT = "ask", "prepare", "checker", "approve", "restore", "wait"
# Nothing is left to do, or only in a later play, to which Ansible returns lost hosts
DONE, LEAVE = "done", "leave"
# The variables or the files of the run cannot be used, so nothing is done
REFUSE = "refuse"

# Seconds after which a host is asked that has no event, while others are waited for
IDLE_PAUSE = 300.0
CHECKER_PAUSE = 10.0
# Seconds for which an answer counts as that of now, while other hosts still prepare, or have their turn to wait
_FRESH = 60.0
# Turns that are loaded at a time. The first of them are imported by run_turns.yml: most runs need no more.
_TURNS = 6
_MOST_TRIES = 2


def new_run(
    serial: int,
    play: str,
    hosts: Iterable[str],
    earlier: Mapping[str, Host] | None = None,
    check_mode: bool = False,
    run_id: str = "",
    only_marked: bool = False,
    rehearsal: bool = False,
) -> Run:
    """Return a run that has not begun.

    :param serial: greater than that of each earlier run.
    :param play: which play it begins in.
    :param hosts: all hosts of the play, in their order.
    :param earlier: the known state of the hosts of earlier batches of the play.
    :param run_id: names the run on the marks of the VMs; no other run has it.
    :param only_marked: it restores hosts that earlier runs have left out of service, and prepares none.
    :param rehearsal: its events are those of a simulator that the playbook rehearse has started.
    """
    return {
        "serial": serial,
        "id": run_id,
        "play": play,
        "check_mode": check_mode,
        "only_marked": only_marked,
        "rehearsal": rehearsal,
        "turn": 0,
        "turns": _TURNS,
        # When hosts last got an order after which their answers may be old
        "acted_at": 0.0,
        # When the hosts last prepared or waited together: the one that was asked first may have been so long before
        "gathered_at": 0.0,
        "hosts": {host: (earlier or {}).get(host, NEW_HOST) for host in hosts},
        # Those that this batch is at
        "batch": [],
        "failed_before": [],
        # The keys of the only events that are wanted; None for all. Known when all hosts were asked.
        "wanted": None,
        "all_asked": False,
        # The events that are to be prepared and approved, in their order: limit.queue_events()
        "queue": {},
        "do": ASK,
        "orders": {},
        # The plans of the events that can be decided now: approval.plan_approval()
        "plans": [],
        "lines": [],
        # Why it does nothing
        "refused": [],
        "said": [],
        "done": False,
    }


def may_wait(run: Run) -> bool:
    return as_boolean(shared(_own(run), "wait")) and not run["check_mode"]


def max_wait(run: Run) -> float:
    """Return the seconds for which an event may be waited for that is not approved."""
    return float(shared(_own(run), "wait_timeout")) if as_boolean(shared(_own(run), "wait")) else 0.0


def _own(run: Run) -> dict[str, Host]:
    return {host: run["hosts"][host] for host in run["batch"]}


def _present(run: Run) -> dict[str, Host]:
    return {host: known for host, known in _own(run).items() if is_present(known)}


def enter_play(run: Run, play: str, present: Iterable[str]) -> Run:
    """Return the run in the play that goes on with it: a later one has the hosts again that fell out of an earlier one.

    :param present: the hosts that Ansible has there.
    """
    there = set(present)
    back = play != run["play"]
    hosts = dict(run["hosts"])
    for host, known in run["hosts"].items():
        returned = back and known["away"] and host in there
        if returned:
            # Its earlier answer is old.
            known = {**known, "away": False, "asked_at": None}
        hosts[host] = known if host in there else {**known, "away": True}
    return {**run, "play": play, "hosts": hosts}


def take_reports(run: Run, reports: Mapping[str, Mapping[str, Any]], now: float) -> Run:
    """Return the run after a turn.

    :param reports: of each host that had an order: ``host``, its known state; of one that ran a file,
        ``reached``, ``why``, whether it ``began``, whether its mark was there until then, ``was_marked``, why a mark
        could not be removed, ``mark_left``, and the marks of others that kept it from beginning, ``hindered``; of one
        that approved, ``results``. A host without one fell out of the play.
    """
    taken = {**_copy(run), "orders": {}}
    for name, order in run["orders"].items() if run["do"] != REFUSE else ():
        report = reports.get(name)
        known = {**run["hosts"][name], "away": True} if report is None else report.get("host", run["hosts"][name])
        if report is not None and report.get("hindered"):
            known = _note_hindered(known, run["do"], order, report["hindered"])
        elif run["do"] in (PREPARE, CHECK):
            known = _take_preparation(name, known, order["event_id"], report)
        elif run["do"] == RESTORE and report is not None:
            known = _take_restore(name, known, order, report)
        taken["hosts"][name] = known
    if run["do"] in (PREPARE, CHECK, WAIT):
        taken["gathered_at"] = now
    if run["do"] == APPROVE:
        _settle(taken, taken["plans"], {name: report["results"] for name, report in reports.items()}, now)
        taken["plans"] = []
    return taken


def _copy(run: Run) -> Run:
    """Return a run that can be changed: each change replaces the known state of a host."""
    return {**run, "hosts": dict(run["hosts"]), "lines": list(run["lines"]), "said": list(run["said"])}


def _update(known: Host, event_id: str, **changes: Any) -> Host:
    return {**known, "events": update_event(known["events"], event_id, **changes)}


def _take_preparation(name: str, known: Host, event_id: str, report: Mapping[str, Any] | None) -> Host:
    if report is None:
        return {**known, "events": note_interrupted_preparation(known["events"], event_id, name)}
    if report["reached"] and not report.get("was_marked", True):
        return note_without_mark(name, known, event_id)
    if report["reached"]:
        return _update(known, event_id, prepared=True)
    if report["reached"] is None:
        # Its checker has not finished, and is asked again.
        return known
    if report.get("began") is False:
        nothing = {"only_marked": True} if _may_be_marked(known, event_id) else {"restored": True, "marked": None}
        known = _update(known, event_id, prepared=False, **nothing)
    return _update(known, event_id, failed=True, why=f"{name} could not be prepared: {report['why']}")


def _may_be_marked(known: Host, event_id: str) -> bool:
    """Tell whether a host may have the mark of this run, though it could not be written: from a try before, which made
    way for somebody else, or because the connection was lost after it was written."""
    begun = max(each["prepared_since"] for each in known["events"] if progress_key(each) == fold_case(event_id))
    own = [mark for mark in known["marks"] or () if mark["run"] == known["run"]]
    return (known["marks_read_at"] or 0.0) <= begun or find_mark(own, event_id, RUN) is not None


def _take_restore(name: str, known: Host, order: Mapping[str, Any], report: Mapping[str, Any]) -> Host:
    event_id = order["event_id"]
    why = None if report["reached"] else f"{name} could not be restored: {report['why']}"
    if report.get("mark_left"):
        why = f"{name} is restored, and its mark could not be removed: {report['mark_left']}"
    known = _update(known, event_id, restored=report["reached"], why=why)
    if why:
        return _update(known, event_id, failed=True)
    if not order["is_marked"]:
        return known
    own = {"event_id": event_id, "run": known["run"]}
    removed = find_removable(known, own, order["only_marked"], order["waited_out"])
    left = [mark for mark in known["marks"] or () if mark not in removed]
    return {**known, "marks": None if known["marks"] is None else left}


def _note_hindered(known: Host, do: str, order: Mapping[str, Any], hindered: list[str]) -> Host:
    """Note that somebody else is at work on a host, for which nothing was begun; it is asked anew."""
    known = {**known, "heeded": [*known["heeded"], *hindered], "asked_at": None}
    if do == PREPARE:
        known = _update(known, order["event_id"], prepared=None, only_marked=order["is_new"])
    return known


def _is_of_checkers(run: Run, key: str) -> bool:
    """Tell whether the checkers of its hosts prepare for an event, and restore."""
    own = [(known, each) for known in run["hosts"].values() for each in known["events"] if progress_key(each) == key]
    return all(is_of_checker(known, each) for known, each in own)


def _settle(run: Run, plans: Iterable[Mapping[str, Any]], results: Mapping[str, Any], now: float) -> None:
    """Note which events are approved and which are held back, and say the latter."""
    plans = hold_back_refused(plans, results, max_wait(run), now)
    progress = {host: known["events"] for host, known in run["hosts"].items()}
    for plan in plans:
        if not plan["approver"]:
            of_checkers = _is_of_checkers(run, progress_key(plan))
            modes = (run["check_mode"], of_checkers, run["rehearsal"])
            run["lines"] += format_held_back(plan, progress, max_wait(run), now, *modes)
    for host, known in _own(run).items():
        events = apply_approval_results(known["events"], plans, results, may_wait(run), now)
        run["hosts"][host] = {**known, "events": events}


def decide(run: Run, now: float, returns: bool = False) -> Run:
    """Return the run with the orders of this turn, and the sentences to say before.

    :param returns: a later play brings back the hosts that fell out of this one.
    """
    run = {**_copy(run), "turn": run["turn"] + 1, "turns": _TURNS + run["turn"] // _TURNS}
    if run["done"]:
        return {**run, "do": DONE, "orders": {}}
    _look_around(run, now)
    _follow_rules(run, now, returns)
    if run["do"] not in (ASK, LEAVE):
        run["acted_at"] = now
    return run


def _follow_rules(run: Run, now: float, returns: bool) -> None:
    for rule in RULES:
        orders = {} if rule.do == LEAVE and not returns else rule.decide(run, now)
        if orders is None:
            # Events were held back, or hosts are back with nothing done: others may have their turn.
            run["queue"] = queue_events(run["hosts"], now)
            return _follow_rules(run, now, returns)
        if orders:
            run.update(do=rule.do, orders={} if rule.do == LEAVE else orders)
            return None
    run.update(do=DONE, orders={}, done=True)
    return None


def _look_around(run: Run, now: float) -> None:
    """Take up new events, note deleted VMs, and say new events that the run leaves out."""
    first = not run["all_asked"] and all(known["asked_at"] is not None for known in _present(run).values())
    run["all_asked"] = run["all_asked"] or first
    if first and not run["refused"]:
        names = _resolve(run, now)
        run["refused"] = [*names["faults"], "No host was prepared."] if names["faults"] else []
        run["wanted"] = None if names["event_ids"] is None else [fold_case(name) for name in names["event_ids"]]
    marked: list[tuple[str, str]] = []
    for host, known in _present(run).items():
        if known["answered_at"] is not None and run["all_asked"]:
            known, told = _take_up_news(run, host, known, first, now)
            marked += [(host, sentence) for sentence in told]
        run["hosts"][host] = note_deletion(known)
    at_work = {host: _others_end_at(run, run["hosts"][host]) for host, _sentence in marked}
    sentences = [sentence for _host, sentence in marked]
    run["lines"] += format_marked(sentences, {host: until for host, until in at_work.items() if until > now})
    silent = {
        host: known["no_answer"]
        for host, known in _present(run).items()
        if known["answered_at"] is None and known["no_answer"] and host not in run["said"]
    }
    run["lines"] += format_not_asked(silent)
    run["said"] += silent
    given_up = {host: known["no_answer"] for host, known in _own(run).items() if _is_given_up(run, host, known, now)}
    run["lines"] += format_given_up(given_up)
    run["said"] += map(_given_up_key, given_up)
    run["queue"] = queue_events(run["hosts"], now)
    for key, entry in run["queue"].items():
        sayings = _sayings(key, entry) - set(run["said"])
        run["lines"] += format_queued(entry, now) if sayings else []
        run["said"] += sorted(sayings)


def _is_given_up(run: Run, host: str, known: Host, now: float) -> bool:
    """Tell whether a host that cannot be asked is not waited for any more, though it waits for something."""
    is_news = known["given_up_at"] is not None and _given_up_key(host) not in run["said"]
    until = awaited_until(known, max_wait(run), False) if is_news and may_wait(run) else None
    return until is not None and until <= now


def _given_up_key(host: str) -> str:
    return f"{host} is given up"


def _take_up_news(run: Run, host: str, known: Host, first: bool, now: float) -> tuple[Host, list[str]]:
    """Return the known state of a host with its new events, and sentences on the marks of others there."""
    known, left_out = track_events(known, [] if run["only_marked"] else run["wanted"], now)
    if not first and not run["only_marked"]:
        run["lines"] += [line for event in left_out for line in format_unwanted(host, event)]
    known = compare_marks(host, known)
    if known["answer"]["document_is_clear"]:
        return take_up_marks(host, known, run["wanted"], run, now)
    return known, []


def _sayings(key: str, entry: Mapping[str, Any]) -> set[str]:
    """Return the keys of the sentences that are said once about an event over the limit."""
    over = entry["behind"] or entry["is_too_large"]
    return {" ".join([key, entry["may"], host]) for host in ["", *entry["unknown"]]} if over else set()


def _resolve(run: Run, now: float) -> dict[str, Any]:
    """Return the whole ids of the events that the run is limited to, and the faults of the given ids."""
    answers: dict[str, Mapping[str, Any] | None] = {}
    for host, known in run["hosts"].items():
        if known["settings"] is None:
            answers[host] = None
        elif known["answer"] is None:
            # As one that could not be asked
            answers[host] = {"failed": True} if known["times_asked"] or known["away"] else None
        else:
            listed = [event for event in known["listed"] if is_wanted(known, event, None, now)]
            # One that is over may have left a VM out of service.
            listed += [event_of(mark, known["name"]) for mark in known["marks"] or () if mark["by"] == RUN]
            answers[host] = {**known["answer"], "events": listed}
    return resolve_event_ids(shared(_own(run), "event_ids"), answers)


def _refuse(run: Run, now: float) -> Orders | None:
    if not run["refused"]:
        return {}
    run.update(lines=[], done=True)
    return {host: {} for host in run["batch"]}


def _ask_first(run: Run, now: float) -> Orders | None:
    """All hosts are asked before one prepares, and again when they are back, where another host has told of an event
    of theirs since, or when they have been lost for as long as a boot may take."""
    return {
        host: {}
        for host, known in _present(run).items()
        if known["asked_at"] is None
        or _is_lost_anew(known, now)
        or (not known["unreachable"] and _misses_event(run, known))
    }


def _is_lost_anew(known: Host, now: float) -> bool:
    """Tell whether the time for a boot is up since a host was last asked, so that it counts as lost for good."""
    at = lost_at(known)
    return bool(at is not None and known["asked_at"] < at <= now and known["events"])


def _misses_event(run: Run, known: Host) -> bool:
    own = {progress_key(each) for each in known["events"] if is_tracked(each)} | set(known["left_out"])
    name = fold_case(known["name"] or "")
    return any(
        each["listed_at"] > known["asked_at"]
        and progress_key(each) not in own
        and name in map(fold_case, each["event"]["resources"])
        for other in _present(run).values()
        for each in other["events"]
        if is_undecided(each)
    )


def _leave(run: Run, now: float) -> Orders | None:
    """A host that fell out while it was out of service is brought back at once."""
    lost = {host: known for host, known in _own(run).items() if known["away"]}
    return {host: {} for host, known in lost.items() if any(map(must_restore, known["events"]))}


def _next_to_prepare(run: Run, known: Host) -> dict[str, Any] | None:
    for each in known["events"]:
        if run["queue"].get(progress_key(each), {}).get("may") == NEITHER:
            continue
        unfinished = known["settings"]["prepare"] == CHECKER and each["prepared"] is False and not each["failed"]
        if is_undecided(each) and (each["prepared"] is None or unfinished):
            return dict(each)
    return None


def _prepare(run: Run, now: float) -> Orders | None:
    orders: Orders = {}
    for host, known in _present(run).items():
        prepare = known["settings"]["prepare"]
        if known["unreachable"] or prepare == CHECKER or _others_end_at(run, known, RESTORING) > now:
            continue
        each = _next_to_prepare(run, known)
        while each and prepare == NOTHING:
            event_id = each["event"]["event_id"]
            known = _update(_begin(known, each, now, each["marked"]), event_id, prepared=True)
            run["hosts"][host] = known
            each = _next_to_prepare(run, known)
        if each is not None:
            run["hosts"][host] = _begin(known, each, now, each["marked"] if run["check_mode"] else run["id"])
            orders[host] = {
                "event_id": each["event"]["event_id"],
                "event": each["event"],
                "is_new": each["marked"] is None or each["only_marked"],
                "heeded": [*known["heeded"], *_waited_out(known)],
            }
    return orders


def _begin(known: Host, each: Mapping[str, Any], now: float, marked: str | None = None) -> Host:
    event_id = each["event"]["event_id"]
    return {**known, "events": start_preparation(known["events"], event_id, known["boot_id"], now, marked)}


def _others_end_at(run: Run, known: Host, state: str | None = None) -> float:
    """Return until when a host is left to others. In check mode nothing is done there that could disturb them, and a
    person may have said that nobody is there.
    """
    return 0.0 if run["check_mode"] or known["open_too"] else others_end_at(known, state)


def _waited_out(known: Host) -> list[str]:
    """Return the marks of others that restore a host with an order: they have taken too long."""
    return [base_name(mark["file"]) for mark in find_at_work(known) if mark["state"] == RESTORING]


def _check(run: Run, now: float) -> Orders | None:
    """The checkers of the hosts prepare: each is asked how far it is."""
    orders: Orders = {}
    for host, known in _present(run).items():
        each = None if known["unreachable"] else _next_to_prepare(run, known)
        if each is None or known["settings"]["prepare"] != CHECKER or _rests(run, known, now):
            continue
        if each["prepared"] is None:
            known = _begin(known, each, now)
        run["hosts"][host] = {**known, "checker_asked_at": now}
        since = each["prepared_since"] or now
        last = run["check_mode"] or now - since >= seconds(known, "prepare_timeout")
        orders[host] = {"event_id": each["event"]["event_id"], "event": each["event"], "last": last}
    return orders


def _rests(run: Run, known: Host, now: float) -> bool:
    """Tell whether the checker was asked a moment ago, and had not finished."""
    each = _next_to_prepare(run, known)
    return bool(each and each["prepared"] is False and now - (known["checker_asked_at"] or 0.0) < CHECKER_PAUSE)


def _ask_anew(run: Run, now: float) -> Orders | None:
    """Before an event is approved its hosts are asked that may have changed since, and before it is held back for the
    sake of a VM that is no host those that never said which VM they are."""
    run["plans"] = _plan_approvals(run, now)
    since = max(run["acted_at"], run["gathered_at"] - _FRESH)
    orders: Orders = {}
    for plan in run["plans"]:
        if plan["approver"]:
            involved = {host: known for host, known in _present(run).items() if _has(known, progress_key(plan))}
            orders.update({host: {} for host, known in involved.items() if known["asked_at"] <= since})
        elif plan["blocked"] and not set(map(fold_case, plan["event"]["resources"])) <= _names(run):
            orders.update(_silent(run))
    return orders


def _plan_approvals(run: Run, now: float, last: bool = False) -> list[dict[str, Any]]:
    """Return the plans of the events that can be decided: all their hosts have tried to prepare.

    :param last: nothing more is waited for, so that the others are decided, too.
    """
    for_plan = {host: _known_for_plan(run, host) for host in run["hosts"]}
    waiting = [_next_to_prepare(run, known) for known in _present(run).values()]
    unprepared = {progress_key(each) for each in waiting if each}
    unprepared.update(key for known in _present(run).values() for key in _listed_anew(known))
    keys = [progress_key(each) for known in _own(run).values() for each in known["events"] if _is_open(each)]
    approve, outside_vms = as_boolean(shared(_own(run), "approve")), shared(_own(run), "outside_vms")
    plans = []
    for key in dict.fromkeys(keys):
        waits_its_turn = run["queue"].get(key, {}).get("may", BOTH) != BOTH
        if last or not (key in unprepared or waits_its_turn) or _has_started(run, key):
            plans.append(plan_approval(key, for_plan, approve, outside_vms, max_wait(run), now))
    return plans


def _listed_anew(known: Host) -> set[str]:
    """Return the keys of events that Azure has announced anew under an id after which the host is not restored yet.

    Only then is it prepared for the new one.
    """
    listed = {fold_case(event["event_id"]) for event in known["listed"] if not event.get("is_missing")}
    over = {progress_key(each) for each in known["events"] if each["phase"] == ENDED and must_restore(each)}
    return listed & over


def _is_open(each: Mapping[str, Any]) -> bool:
    return each["phase"] != ENDED and not each["settled"]


def _approve(run: Run, now: float) -> Orders | None:
    """An event is approved, or held back, when all its hosts have tried to prepare, and were asked since."""
    held = [plan for plan in run["plans"] if not plan["approver"]]
    _settle(run, held, {}, now)
    run["plans"] = [plan for plan in run["plans"] if plan["approver"]]
    orders: Orders = {}
    for plan in run["plans"]:
        orders.setdefault(plan["approver"], []).append({**plan, "label": format_plan(plan), "turn": run["turn"]})
    return None if held and not orders else orders


def _has(known: Host, key: str) -> bool:
    return any(progress_key(each) == key for each in known["events"])


def _names(run: Run) -> set[str]:
    return {fold_case(known["name"]) for known in run["hosts"].values() if known["name"]}


def _has_started(run: Run, key: str) -> bool:
    return any(
        progress_key(each) == key and each["phase"] not in (ANNOUNCED, ENDED)
        for known in run["hosts"].values()
        for each in known["events"]
    )


def _known_for_plan(run: Run, host: str) -> dict[str, Any]:
    known = run["hosts"][host]
    lost = None
    if known["away"]:
        lost = "failed or became unreachable"
    elif host not in run["batch"]:
        lost = OTHER_BATCH
    elif known["settings"] is None:
        lost = "was not asked"
    elif known["fault"] or not known["name"]:
        lost = "could not be asked"
    return {"resource_name": known["name"], "progress": known["events"], "lost": lost, "marked_for": keys_left(known)}


def _silent(run: Run) -> Orders:
    """Return the hosts that have never answered, and are asked once more before something is decided without them."""
    return {
        host: {}
        for host, known in _present(run).items()
        if known["answered_at"] is None and known["given_up_at"] is None and known["times_asked"] < _MOST_TRIES
    }


def _restore(run: Run, now: float) -> Orders | None:
    orders, is_back = {}, False
    for host, known in _present(run).items():
        for each in [] if _others_end_at(run, known) > now else restores(known, run["check_mode"]):
            event_id = each["event"]["event_id"]
            if is_of_checker(known, each):
                run["hosts"][host] = known = _update(known, event_id, with_checker=True)
                is_back = True
                continue
            if known["settings"]["restore"] in ("", NOTHING) and not each["marked"]:
                run["hosts"][host] = known = _update(known, event_id, restored=True)
                is_back = True
                continue
            orders[host] = {
                "event_id": event_id,
                "event": each["event"],
                "phase": each["open_phase"] or each["phase"],
                "outcome": each["outcome"],
                # An earlier run may have left a mark where this one had nothing to prepare.
                "is_marked": bool(each["marked"]) or progress_key(each) in keys_left(known),
                "only_marked": each["only_marked"],
                "heeded": [*known["heeded"], *_waited_out(known)],
                "waited_out": _waited_out(known),
            }
            break
    return None if is_back and not orders else orders


def _deadlines(run: Run, now: float) -> dict[str, float]:
    """Return until when each host is waited for."""
    found = {}
    in_the_way = {host for entry in run["queue"].values() for host in entry["behind"]}
    for host, known in _present(run).items():
        if _rests(run, known, now):
            found[host] = float(known["checker_asked_at"]) + CHECKER_PAUSE
            continue
        others_end = _others_end_at(run, known, RESTORING if _next_to_prepare(run, known) else None)
        if others_end > now and (_next_to_prepare(run, known) or restores(known)):
            found[host] = others_end
            continue
        until = awaited_until(known, max_wait(run), host in in_the_way) if may_wait(run) else None
        if until is not None and until > now:
            found[host] = until
    for entry in run["queue"].values() if found else ():
        # They wait for the hosts before them, and their events may change meanwhile.
        found = {**{host: max(found.values()) for host in entry["hosts"] if is_present(run["hosts"][host])}, **found}
    # A line names the first of them, in the order of the play.
    return {host: found[host] for host in run["hosts"] if host in found}


def _ask_idle(run: Run, now: float) -> Orders | None:
    """While others are waited for, a host without an event may get one."""
    idle = _idle(run, _deadlines(run, now))
    return {host: {} for host in idle if now - run["hosts"][host]["asked_at"] >= IDLE_PAUSE}


def _idle(run: Run, awaited: Mapping[str, float]) -> list[str]:
    return [host for host in _present(run) if host not in awaited] if may_wait(run) else []


def _wait(run: Run, now: float) -> Orders | None:
    awaited = _deadlines(run, now)
    if not awaited:
        return {}
    latest = max(awaited.values())
    looks = [run["hosts"][host]["asked_at"] + IDLE_PAUSE for host in _idle(run, awaited)]
    # A VM that Azure deletes is done when it has not been reached for long enough.
    for host in awaited:
        gone_at = lost_at(run["hosts"][host])
        looks += [gone_at] if gone_at is not None and gone_at > now else []
    urgent_at = next_urgent(run["queue"], run["hosts"], now)
    looks += [urgent_at] if urgent_at is not None and urgent_at > now else []
    ends = min([latest, *looks])
    return {host: {"until": min(until, ends), "latest": latest, "since": now} for host, until in awaited.items()}


def _ask_again(run: Run, now: float) -> Orders | None:
    """Before the end each host is asked once more that has not answered, or keeps others waiting because it cannot be
    reached."""
    present = _present(run)
    in_the_way = {host for entry in run["queue"].values() for host in entry["unknown"] if host in present}
    lost: Orders = {host: {} for host in in_the_way if present[host]["asked_at"] < run["acted_at"]}
    return {**_silent(run), **lost}


def _hold_back_rest(run: Run, now: float) -> Orders | None:
    """The run waits for no host any more: hold back the events that do not get their turn, or for which an unprepared
    host cannot be reached."""
    plans = []
    for plan in _plan_approvals(run, now, last=True):
        entry = run["queue"].get(progress_key(plan))
        if entry and entry["may"] != BOTH:
            followed = [each for known in run["hosts"].values() for each in known["events"]]
            own = [each for each in followed if progress_key(each) == progress_key(plan)]
            plan = hold_back(plan["event"], format_limit(entry), own, max_wait(run), now)
        if not plan["approver"]:
            plans.append(plan)
    _settle(run, plans, {}, now)
    return None if plans else {}


class Rule(NamedTuple):
    """One kind of turn.

    :ivar do: the order of its hosts.
    :ivar when: its condition, for the picture in the guide.
    :ivar decide: returns the orders for the hosts, which are empty where it is not the time for them. None: the run has
        changed without the hosts, so that the first rule may hold now.
    """

    do: str
    when: str
    decide: Callable[[Run, float], Orders | None]


# In each turn the first that has orders decides. Without any the run is done.
RULES = (
    Rule(REFUSE, "a variable or a file cannot be used, or an id names no event, or several", _refuse),
    Rule(
        ASK,
        "a host was not asked yet, is back or lost for long, or another one has told of an event of its VM",
        _ask_first,
    ),
    Rule(LEAVE, "a host fell out while it was out of service; a later play of respond brings it back", _leave),
    Rule(PREPARE, "an event is to come for which a host is not prepared, and its turn has come", _prepare),
    Rule(CHECK, "the same, and the checker of the host prepares", _check),
    Rule(ASK, "all hosts of an event have tried to prepare, and one of them may have changed since", _ask_anew),
    Rule(APPROVE, "all hosts of an event have tried to prepare, and were asked since", _approve),
    Rule(RESTORE, "the events of a host are over, and it was prepared for one", _restore),
    Rule(ASK, "a host without an event was not asked for five minutes, while others are waited for", _ask_idle),
    Rule(WAIT, "an event is not over, and its time to wait is not up", _wait),
    Rule(ASK, "a host has never answered, or is lost and in the way of others; this is the last time", _ask_again),
    Rule(
        RESTORE,
        "the turn of an event does not come, or a host cannot prepare: it is held back, prepared hosts are put back",
        _hold_back_rest,
    ),
)
