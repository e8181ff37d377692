# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The reason in a failed result of Ansible, on one line; pure."""

from __future__ import annotations

import re
from typing import Any, Mapping

from ._masking import mask_secrets

_SSH_ENDS = re.compile(r"(Shared c|C)onnection to \S+ closed\.")
# The message of ansible.builtin.assert without fail_msg
_NO_FAIL_MSG = "Assertion failed"
# The words of ansible-core 2.19 and later in place of the message of a module
_NO_MESSAGE = "Task failed: "
# The whole of it, where the module has no message
_NO_REASON = "Task failed: Action failed: Unknown error."
# These words, and no more, since ansible-core 2.19, where a program cannot be started
_NOT_STARTED = "Error executing command."
_MOST_LINES = 3


def tell_failure(result: Mapping[str, Any]) -> str:
    """Return the reason in a failed result on one line, in the words of its module."""
    items: Any = result.get("results")
    if isinstance(result.get("failed_modules"), dict):
        # Of several modules, as for facts, the message has the names alone.
        items = list(result["failed_modules"].values())
    if are_results(items):
        told = [tell_failure(item) for item in items if item.get("failed") or item.get("unreachable")]
        if told:
            return "; ".join(dict.fromkeys(told))
    words = [str(result.get("msg") or result.get("censored") or "")]
    if result.get("assertion") is not None and words == [_NO_FAIL_MSG]:
        words.append(f"{result['assertion']} is false")
    # The module may have succeeded each time: until was not true.
    gave_up = [f"gave up after attempt {result['attempts']}"] if result.get("attempts") else []
    if words == [_NOT_STARTED]:
        words = [f"{_NOT_STARTED[:-1]} {_program(result.get('cmd'))}", _last_lines(result)]
    elif result.get("failed_when_result") is True:
        words = [text for text in words if not text.startswith(_NO_MESSAGE)]
        words += ["failed_when is true", *gave_up, _last_lines(result)]
    # The message of a command that failed says no more than that.
    elif result.get("rc"):
        words += [f"rc={result['rc']}", *gave_up, str(result.get("stderr") or result.get("stdout") or "")]
    elif gave_up:
        words = [*(text for text in words if text != _NO_REASON), *gave_up, _last_lines(result)]
    words.append(what_was_printed(result))
    # Before the spaces go: a secret is known by its exact spelling only.
    lines = [line for line in (" ".join(mask_secrets(text).split()) for text in words) if line]
    told_first = [line.removesuffix(".") for line in lines[:-1]]
    return ": ".join([*told_first, *lines[-1:]]) or "no answer and no reason in the result"


def _program(command: Any) -> str:
    """Return the program of a command without its arguments, which may hold a secret."""
    argv = command if isinstance(command, list) else str(command or "").split()
    return str(argv[0]) if argv else ""


def timed_out(result: Mapping[str, Any]) -> bool:
    """Tell whether Ansible has stopped a task at its time limit, as each release of ansible-core says it."""
    return "timedout" in result or "failed to execute in the expected time frame" in str(result.get("msg"))


def tell_error(error: Exception) -> str:
    """Return the message of an error of Ansible on one line, without the place where it was raised."""
    told = getattr(error, "original_message", "") or getattr(error, "message", "") or error
    return " ".join(mask_secrets(str(told)).split())


def without_frames(result: Any) -> Any:
    """Return a result, also that of a loop, without the frame of a time limit, of which ansible-core 2.21 warns."""
    if not isinstance(result, Mapping):
        return result
    plain = {name: result[name] for name in result if name not in ("timedout", "results")}
    if "timedout" in result:
        plain["timedout"] = {"period": result["timedout"].get("period")} if result["timedout"] else result["timedout"]
    if "results" in result:
        items = result["results"]
        plain["results"] = list(map(without_frames, items)) if are_results(items) else items
    return plain


def _last_lines(result: Mapping[str, Any]) -> str:
    texts = [result.get(name) for name in ("stdout", "stderr")]
    lines = [line.strip() for text in texts if isinstance(text, str) for line in mask_secrets(text).splitlines()]
    return " ".join([line for line in lines if line][-_MOST_LINES:])


def are_results(items: Any) -> bool:
    """Tell whether they are the results of a loop: modules that install packages return texts by the same name."""
    return isinstance(items, list) and all(isinstance(item, Mapping) for item in items)


def what_was_printed(result: Mapping[str, Any]) -> str:
    """Return the line that a module printed in place of a result: without a Python it is the only reason."""
    texts = [result.get(name) for name in ("module_stderr", "module_stdout")]
    lines = [line.strip() for text in texts if isinstance(text, str) for line in mask_secrets(text).splitlines()]
    # Over ssh with a terminal the words of the shell are in stdout, and in stderr is how ssh takes its leave.
    lines = [line for line in lines if line and not _SSH_ENDS.fullmatch(line)]
    return (lines[-1] if lines[0].startswith("Traceback") else lines[0]) if lines else ""
