# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The parts of a report over a fleet: a run writes one to a file, a merge reads and checks it."""

from __future__ import annotations

import gc
import json
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from ...module_utils._errors import excerpt, one_line
from ...module_utils._event.document import format_utc, read_utc
from .._failure_text import without_frames
from .._masking import mask_secrets

Slice = dict[str, Any]
HostResult = dict[str, Any]
# Takes the parts, the time, the hosts that must be in it, max_age, and options of its own; returns a report.
Merge = Callable[..., dict[str, Any]]

# Where a host's part has text that a person or a program wrote freely
_SENTENCES = ("message", "warnings", "description", "summary")
# By how much the clocks of two machines may differ
_CLOCKS_DIFFER = timedelta(minutes=5)


class SliceError(ValueError):
    """A part cannot be used; the message is one sentence with its name, the reason and the remedy."""


class SliceFormat(NamedTuple):
    """The kind of a report, as its parts need it.

    :ivar format: stands in each part.
    :ivar version: of the content of a part: parts may come from machines with another version of the collection.
    :ivar report: the name of the report, in words.
    :ivar content: the content of the parts, in words.
    :ivar states: the states of a host.
    :ivar texts: the keys of a host with a text or null.
    :ivar complaint: returns another fault of a host, as the end of a sentence about it; None where there is none.
    """

    format: str
    version: int
    report: str
    content: str
    states: Sequence[str]
    texts: Sequence[str]
    complaint: Callable[[dict[str, Any]], str | None]


class Formatted(NamedTuple):
    """A report as it is written and told.

    :ivar files: the content of each file, by its ending.
    :ivar lines: for a person at a terminal.
    :ivar due: a line for each event for which a run must fail.
    """

    counts: dict[str, int]
    files: dict[str, str]
    lines: list[str]
    due: list[str]


def new_slice(
    form: SliceFormat, name: str, now: datetime, hosts: list[HostResult], azure_messages: list[str] | None = None
) -> Slice:
    """Return a part.

    :param azure_messages: what Azure Resource Graph did not tell; None where it was not asked.
    """
    return {
        "format": form.format,
        "version": form.version,
        "name": name,
        "asked_at": format_utc(now),
        "azure_messages": azure_messages,
        "hosts": [mask_texts(told) for told in hosts],
    }


def mask_texts(value: Any) -> Any:
    """Return the answer of a host with the secrets masked in its sentences.

    Names, ids, times and numbers stay: a vault may hold a value as short as 3, and no part could be read without them.
    """
    if isinstance(value, list):
        return [mask_texts(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _mask_sentences(item) if key in _SENTENCES else mask_texts(item) for key, item in value.items()}


def _mask_sentences(value: Any) -> Any:
    if isinstance(value, list):
        return [_mask_sentences(item) for item in value]
    return mask_secrets(value) if isinstance(value, str) else value


def plain_data(value: Any, default: Callable[[Any], Any] | None = None) -> Any:
    """Return a value without the types of Ansible's own, and without halves of characters that no file can hold.

    :param default: makes JSON of an object that JSON does not know.
    :raises TypeError: there is such an object, and no default.
    """
    return json.loads(json.dumps(value, ensure_ascii=False, default=default).encode("utf-8", "replace"))


def plain_results(results: Any) -> dict[str, Any]:
    """Return the result of a task for each host, without Ansible's own types.

    :raises TypeError: it is not a dictionary.
    """
    if not isinstance(results, Mapping):
        raise TypeError("a dictionary of hosts and their results is needed.")
    # ansible-core 2.19 and 2.20 keep an object of their own in the result of a task that failed.
    return {str(host): plain_data(without_frames(result), default=str) for host, result in results.items()}


def replace_lone_surrogates(text: str) -> str:
    """Return a text that a file can hold: one from a part may have halves of characters."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def clean_json(text: str) -> str:
    """Return JSON with control characters of a terminal as escapes; it has the same value."""
    return "\n".join(map(clean_json_line, text.split("\n")))


def clean_json_line(line: str) -> str:
    """Return a line of JSON, or a piece of one, cleaned."""
    # Of ASCII, JSON escapes by itself all but this one. In a large report nearly all lines are ASCII.
    if line.isascii() and "\x7f" not in line:
        return line
    line = replace_lone_surrogates(line)
    return line if line.isprintable() else "".join(map(_json_char, line))


def _json_char(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]


def read_now(text: str | None) -> datetime:
    if not text:
        return datetime.now(timezone.utc)
    moment = read_utc(text)
    if moment is None:
        raise ValueError(f"now must be a time such as 2026-11-21T10:00:00Z, not {text!r}.")
    return moment


def merge_given(
    form: SliceFormat,
    merge: Merge,
    parts: Iterable[Any],
    now: str | None,
    hosts: Iterable[Any],
    max_age: Any,
    *options: Any,
) -> dict[str, Any]:
    """Check parts, and return the report that is merged of them.

    :param parts: data, or two strings each, the name of a file and its content.
    :param hosts: hosts that must be in the report.
    :param max_age: seconds after which a part is left out; 0 takes all.
    :raises TypeError, ValueError: an argument cannot be used.
    """
    if isinstance(hosts, str):
        # Each of its letters would be a host that nobody asked.
        raise ValueError(f"hosts must be a list of names, not {hosts!r}.")
    moment, seconds = read_now(now), float(max_age)
    named = [named_slice(number, part) for number, part in enumerate(parts, start=1)]
    return merge(checked_slices(form, named, moment, seconds), moment, [str(host) for host in hosts], seconds, *options)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Keep the garbage collector from going through a large report again and again: there are no cycles in it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def decode_slice(name: str, text: str | bytes) -> Any:
    """Return the value of the JSON, yet to be checked.

    :raises SliceError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SliceError(
            f"Part {one_line(name)} is not JSON ({error}): delete it, and run that slice again."
        ) from error


def named_slice(number: int, part: Any) -> tuple[str, Any]:
    """Return the name of a part for messages, and the part, yet to be checked.

    :param number: is its name where it has none.
    :param part: data, or two strings, the name of a file and its content.
    :raises SliceError: the content is not JSON.
    """
    if _is_text(part):
        name = str(part[0])
        return name, decode_slice(name, str(part[1]))
    return str(number), plain_data(part)


def _is_text(part: Any) -> bool:
    return isinstance(part, (list, tuple)) and len(part) == 2


def checked_slices(form: SliceFormat, named: Iterable[tuple[str, Any]], now: datetime, max_age: float) -> list[Slice]:
    """Return the parts, checked but for those that are too old.

    :raises SliceError: one of them cannot be used.
    """
    parts = []
    for name, part in named:
        if not is_too_old(form, part, now, max_age):
            check_slice(form, name, part)
            if (read_utc(part["asked_at"]) or now) - now > _CLOCKS_DIFFER:
                # It would hide every later answer of its hosts.
                raise SliceError(
                    f"Part {one_line(name)} was made in the future ({part['asked_at']}): set the clock of that machine "
                    "right, delete the part, and run that slice again."
                )
        parts.append(part)
    return parts


def is_too_old(form: SliceFormat, part: Any, now: datetime, max_age: float) -> bool:
    """Whether a part, checked or not, was made more than so many seconds ago. With 0 seconds none is.

    After an upgrade the parts of the version before must not hinder a merge that leaves them out anyway.
    """
    if not max_age or not isinstance(part, dict) or part.get("format") != form.format:
        return False
    asked_at = read_utc(part["asked_at"]) if isinstance(part.get("asked_at"), str) else None
    return isinstance(part.get("name"), str) and asked_at is not None and (now - asked_at).total_seconds() > max_age


def check_slice(form: SliceFormat, name: str, part: Any) -> None:
    """Check that a part is whole and of this version.

    :raises SliceError: it is not.
    """
    again = "delete it, and run that slice again"
    if not isinstance(part, dict) or part.get("format") != form.format:
        raise SliceError(f"Part {one_line(name)} is not a part of a {form.report}: {again}.")
    version = part.get("version")
    if version != form.version:
        raise SliceError(
            f"Part {one_line(name)} holds {form.content} of another version of the collection (format "
            f"{excerpt(str(version))}, this one reads {form.version}): {again} with the same version as the merge."
        )
    hosts, asked_at = part.get("hosts"), part.get("asked_at")
    at = read_utc(asked_at) if isinstance(asked_at, str) else None
    # There is no time after the year 9999, and a page computes times after that of a part.
    known = isinstance(part.get("name"), str) and at is not None and at.year < 9999
    if not known or not isinstance(hosts, list) or not _are_messages(part.get("azure_messages")):
        raise SliceError(f"Part {one_line(name)} is damaged: {again}.")
    for told in hosts:
        why = _complaint(form, told)
        if why:
            raise SliceError(f"Part {one_line(name)} cannot be merged ({why}): {again}.")


def _are_messages(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(text, str) for text in value))


def _complaint(form: SliceFormat, told: Any) -> str | None:
    if not isinstance(told, dict) or not isinstance(told.get("host"), str) or told.get("state") not in form.states:
        return "it has an entry that is not a host"
    wrong = next(
        (name for name in form.texts if name not in told or not isinstance(told[name], (str, type(None)))), None
    )
    why = form.complaint(told) if wrong is None else f" has a {wrong} that is not a text"
    return None if why is None else f"host {one_line(told['host'])}{why}"


def newest_results(
    form: SliceFormat, parts: Sequence[Slice], now: datetime, max_age: float
) -> tuple[dict[str, HostResult], dict[str, Any]]:
    """Return for each host the result of the newest part that has it, with the time of that part; and the keys of the
    report about the parts: the names of those that are too old, and what Azure Resource Graph did not tell.

    :param max_age: seconds after which a part is left out; 0 takes all.
    """
    results: dict[str, HostResult] = {}
    left_out = []
    messages: list[str] | None = None
    for part in parts:
        if is_too_old(form, part, now, max_age):
            left_out.append(part["name"])
            continue
        if part.get("azure_messages") is not None:
            messages = list(dict.fromkeys([*(messages or []), *part["azure_messages"]]))
        for told in part["hosts"]:
            known = results.get(told["host"])
            if known is None or known["asked_at"] <= part["asked_at"]:
                results[told["host"]] = {**told, "asked_at": part["asked_at"]}
    return results, {"left_out_parts": left_out, "azure_messages": messages}


def report_header(now: datetime, results: Iterable[HostResult], of_parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that every report has: its time, the times of the answers, and those about its parts."""
    asked_at = [result["asked_at"] for result in results if result["asked_at"]]
    return {
        "generated_at": format_utc(now),
        "asked_from": min(asked_at, default=None),
        "asked_until": max(asked_at, default=None),
        **of_parts,
    }
