# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command azure-maintenance."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import signal
import sqlite3
import sys
from contextlib import closing
from types import SimpleNamespace
from typing import Any, Callable, Iterable, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import why_not_now

from .config.config import Config, config_name, read_config
from .config.values import ConfigError
from .state.database import open_snapshot
from .state.marks import read_marked_by_runs
from .state.open_state import has_moved, open_store
from .state.records import Moment, ResponseRecord
from .state.schema import is_locked, is_unwritable
from .state.store import Store
from .system import (
    CHECK,
    ERROR,
    Clock,
    Folders,
    is_running,
    lock,
    prolong_time,
    response_lock,
    say,
    start_unit,
    warn,
    write_file,
    writes_to_journal,
)
from .track.situation import read_situation

FINE, FAILED, UNUSABLE = 0, 1, 2
# Seconds after which the fault of a configuration is logged again
_TOLD_AGAIN = 3600.0


class _StoppedError(BaseException):
    """The program was told to end; a step that runs is left as interrupted."""


def main(arguments: Sequence[str] | None = None, folders: Folders | None = None) -> int:
    options = _read_arguments(sys.argv[1:] if arguments is None else list(arguments))
    folders = folders or Folders()
    if options.config:
        folders = folders._replace(config=options.config)
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # A person runs the response by hand, and the terminal was closed.
        signal.signal(signal.SIGHUP, _stop)
    try:
        return _COMMANDS[options.command](options, folders)
    except ConfigError as error:
        if options.command != "check" or _is_news(str(error), folders):
            say(str(error), ERROR)
        return UNUSABLE
    except sqlite3.Error as error:
        say(f"The state in {folders.state} cannot be used ({error}). {_advice(error)}", ERROR)
    except OSError as error:
        advice = " Do this as root." if isinstance(error, PermissionError) and os.geteuid() else ""
        say(f"{error.filename or 'The system'}: {error.strerror or error}.{advice}", ERROR)
    except (_StoppedError, KeyboardInterrupt):
        say("Stopped.")
        # A stopped check has lost nothing; another command has not done its work.
        return FINE if options.command == "check" else FAILED
    return FAILED


def _advice(error: sqlite3.Error) -> str:
    if is_locked(error):
        return "Another program holds its lock."
    return "Is the disk full?" if is_unwritable(error) else "The next check puts it aside."


def _read_arguments(arguments: list[str]) -> SimpleNamespace:
    if arguments in (["check"], ["check", "--once"]):
        # systemd starts a check every minute. To make the parser takes as long as some polls.
        return SimpleNamespace(command="check", config=None, once=len(arguments) > 1)
    from .arguments import parse

    return parse(arguments)


def _is_news(complaint: str, folders: Folders) -> bool:
    """Tell whether to log a fault of the configuration, and not every six seconds: it is new, the file has changed, or
    an hour has passed."""
    if not writes_to_journal():
        return True
    path = os.path.join(folders.run, "complaint.json")
    with contextlib.suppress(OSError):
        complaint += f" {os.stat(folders.config).st_mtime_ns}"
    now = Clock(folders).now().uptime
    try:
        with open(path, encoding="utf-8") as file:
            told, at = json.load(file)
        if told == complaint and 0 <= now - at < _TOLD_AGAIN:
            return False
    except (OSError, ValueError, TypeError):
        # Nothing was told yet, or it cannot be read.
        pass
    with contextlib.suppress(OSError):
        write_file(path, json.dumps([complaint, now]), 0o600)
    return True


def _stop(_number: int, _frame: Any) -> None:
    raise _StoppedError


def _check(options: SimpleNamespace, folders: Folders) -> int:
    config = read_config(folders.config)
    from .poll.check import LOCK_WAIT, START_TIMEOUT, begin_check

    with contextlib.ExitStack() as held:
        try:
            free = held.enter_context(lock(folders.run, CHECK))
        except PermissionError:
            raise
        except OSError:
            # Nothing can be written there. systemd runs one check at a time, and the state cannot be opened either.
            free = True
        if not free:
            say("Another check is running. Nothing to do.")
            return FINE
        # A lock of another program must not stop the polling.
        opener = functools.partial(open_store, folders, busy_timeout=LOCK_WAIT)
        starter = functools.partial(start_unit, timeout=START_TIMEOUT)
        checker = begin_check(config, folders, Clock(folders), opener, starter, options.once)
        answered = checker.run(options.once)
        # After a check that failed systemd waits 5 s, and the next request would come too late (P8).
        return FINE if answered or not options.once else FAILED


def _respond(options: SimpleNamespace, folders: Folders) -> int:
    prolong_time(0)
    config = read_config(folders.config)
    from .respond.responder import Responder
    from .respond.steps import remove_folders_of_killed_runs
    from .respond.writer import Writer

    remove_folders_of_killed_runs(folders)
    # is_running() in another process holds the lock for an instant.
    with lock(folders.run, response_lock(options.number), patience=2.0) as free:
        if not free:
            say(f"Response {options.number} is running already.")
            return FINE
        with closing(Writer(functools.partial(open_store, folders), folders)) as writer:
            _known_response(writer.store, options.number)
            done = Responder(writer, config, folders, Clock(folders)).run(options.number)
        return FINE if done else FAILED


def _retry(options: SimpleNamespace, folders: Folders) -> int:
    from .respond.retry import make_due_again

    return _make_due(options.number, folders, make_due_again)


def _restore(options: SimpleNamespace, folders: Folders) -> int:
    from .respond.retry import plan_restore

    return _make_due(options.number, folders, plan_restore)


def _make_due(known: int, folders: Folders, make_due: Callable[[Store, ResponseRecord, Moment], int]) -> int:
    """Make a response due, and start its unit if it may run now.

    :param make_due: does so for the response that was given, in a transaction, and returns which is due.
    """
    now = Clock(folders).now()
    with closing(open_store(folders)) as store:
        with store.transaction():
            # It may have waited for the lock while the file was put aside.
            if has_moved(store, folders):
                raise ConfigError("The state was put aside or moved meanwhile. Try it again.")
            number = make_due(store, _known_response(store, known), now)
        marked = read_marked_by_runs(store, folders, now)
        situation = read_situation(store, now.boot_id, lambda other: is_running(folders, other), marked)
    why = None
    for _record, course, _responses in situation.found:
        for response in course.responses:
            if response.number == number:
                why = why_not_now(response, course, situation.others(course))
    if why is not None:
        say(f"Response {number} is due, and the checker starts it when it may run. Until then it waits {why}.")
        return FINE
    failure = start_unit(number)
    if failure:
        say(f"{failure} The next check tries it again.", ERROR)
        return FAILED
    say(f"Response {number} runs. To watch it: journalctl -fu azure-maintenance-respond@{number}")
    return FINE


def _known_response(store: Store, number: int) -> ResponseRecord:
    """:raises ConfigError: there is no such response."""
    response = store.response(number)
    if response is None:
        raise ConfigError(f"There is no response {number}. azure-maintenance history lists them.")
    return response


def _status(options: SimpleNamespace, folders: Folders) -> int:
    from .report.history_text import history_text
    from .report.report import BesideState, exit_status, history_report, status_report
    from .report.status_text import status_text

    whole = options.command == "history"
    now = Clock(folders).now()
    warnings: list[str] = []

    def note(warning: str) -> None:
        warnings.append(warning)
        warn(warning)

    if not whole:
        try:
            read_config(folders.config)
        except ConfigError as error:
            warnings.append(f"The check does not run, because its configuration is wrong: {error}")
    with closing(Store(open_snapshot(folders.state, folders.run, note))) as store:
        beside = BesideState.read(store, folders)
        make_report = history_report if whole else status_report
        found = make_report(store, now, warnings, beside)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The terminal may know fewer characters than Azure.
        sys.stdout.reconfigure(errors="backslashreplace")
    if options.json:
        # A history may be long, and is read by programs.
        _print(json.JSONEncoder(indent=None if whole else 1).iterencode(found), "\n")
    else:
        _print([(history_text if whole else status_text)(found, now.wall)])
    return FINE if whole else exit_status(found)


def _validate(options: SimpleNamespace, folders: Folders) -> int:
    config = read_config(folders.config)
    if not options.syntax_only:
        from .config.requirements import find_missing

        missing = find_missing(config, folders)
        for sentence in missing:
            say(sentence, ERROR)
        if missing:
            return UNUSABLE
    say(f"{config_name(folders.config)} is fine: {_count(config)}.")
    return FINE


def _allow_list(_options: SimpleNamespace, _folders: Folders) -> int:
    from .allow_list import allow_list_rules

    _print([json.dumps(allow_list_rules(), indent=2)], "\n")
    return FINE


def _print(pieces: Iterable[str], end: str = "") -> None:
    """Write to stdout; a reader that has enough, such as head, is no fault.

    :raises OSError: it cannot be written to.
    """
    if sys.stdout is None:
        raise OSError("There is no stdout to write to")
    try:
        sys.stdout.writelines(pieces)
        sys.stdout.write(end)
        sys.stdout.flush()
    except OSError as error:
        # Python would try again when it ends, and end with a status of its own.
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise


def _count(config: Config) -> str:
    return f"{len(config.rules)} rule{'' if len(config.rules) == 1 else 's'}"


_COMMANDS: dict[str, Callable[[SimpleNamespace, Folders], int]] = {
    "check": _check,
    "respond": _respond,
    "status": _status,
    "history": _status,
    "validate": _validate,
    "retry": _retry,
    "restore": _restore,
    "allow-list": _allow_list,
}
