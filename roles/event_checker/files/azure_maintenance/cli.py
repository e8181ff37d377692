# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command azure-maintenance."""

from __future__ import annotations

import argparse
import functools
import io
import json
import re
import signal
import sqlite3
import sys
from contextlib import closing
from typing import Any, Callable, Sequence

from . import store as states
from .config import Config, ConfigError, read_config
from .database import open_database, return_home
from .store import Store
from .system import ERROR, Clock, Folders, is_any_running, lock, response_lock, say, start_unit, warn

FINE, FAILED, UNUSABLE = 0, 1, 2


class _StoppedError(BaseException):
    """The program was told to end; what it was doing is left as interrupted."""


def main(arguments: Sequence[str] | None = None, folders: Folders | None = None) -> int:
    options = _parser().parse_args(arguments)
    folders = folders or Folders()
    if options.config:
        folders = folders._replace(config=options.config)
    signal.signal(signal.SIGTERM, _stop)
    try:
        return _COMMANDS[options.command](options, folders)
    except ConfigError as error:
        say(str(error), ERROR)
        return UNUSABLE
    except sqlite3.Error as error:
        say(f"The state in {folders.state} cannot be used ({error}). Is the disk full?", ERROR)
    except OSError as error:
        say(f"{error.filename or 'The system'}: {error.strerror or error}.", ERROR)
    except (_StoppedError, KeyboardInterrupt):
        say("Stopped.")
        # A check that is stopped has lost nothing; what a response was doing has not been done.
        return FAILED if options.command == "respond" else FINE
    return FAILED


def _stop(_number: int, _frame: Any) -> None:
    raise _StoppedError


class _Parser(argparse.ArgumentParser):
    """Asks nobody for the width of the terminal: to find it out, argparse imports a lot that a check has no use for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=functools.partial(argparse.HelpFormatter, width=79))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="azure-maintenance",
        description="Notices what becomes of Azure's scheduled events on this VM, and answers them by rules.",
        epilog="Exit status: 0 fine, 1 failed, 2 bad configuration or usage.",
    )
    parser.add_argument("--config", metavar="FILE", help="read the configuration from here, - for standard input")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", prog="azure-maintenance")
    check = commands.add_parser("check", help="poll until the next check is due, and start what is due")
    check.add_argument("--once", action="store_true", help="poll once")
    respond = commands.add_parser("respond", help="run a response, as its unit does")
    respond.add_argument("number", type=_number, metavar="ID", help="its number in status")
    status = commands.add_parser("status", help="what is coming, what was done, what failed, what waits")
    history = commands.add_parser("history", help="every event of the last 30 days")
    for command in (status, history):
        command.add_argument("--json", action="store_true", help="print JSON")
    validate = commands.add_parser("validate", help="check the configuration")
    validate.add_argument(
        "--syntax-only", action="store_true", help="do not look for the files and programs that it names"
    )
    retry = commands.add_parser("retry", help="try a failed response again, from the step that failed")
    retry.add_argument("number", type=_number, metavar="ID", help="its number in status")
    return parser


def _number(text: str) -> int:
    # Larger ones fit neither SQLite nor a message.
    if not re.fullmatch("[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError("must be the number of a response")
    return int(text)


def _open_store(folders: Folders, unwritable: bool = False, may_return: bool = False) -> Store:
    """Open the state, while nobody moves it from one place to the other.

    :param unwritable: go on in memory; the disk was found to be unwritable.
    :param may_return: move back to the disk where that is possible again.
    """
    with lock(folders.run, "state", wait=True):
        if may_return and not is_any_running(folders):
            return_home(folders.state, folders.run, warn)
        return Store(open_database(folders.state, folders.run, warn, unwritable))


def _check(options: argparse.Namespace, folders: Folders) -> int:
    config = read_config(folders.config)
    from .check import Checker

    with lock(folders.run, "check") as free:
        if not free:
            say("Another check is running; it sees what there is to see.")
            return FINE
        checker = Checker(
            config, folders, Clock(), lambda unwritable: _open_store(folders, unwritable, not unwritable), start_unit
        )
        return FINE if checker.run(options.once) else FAILED


def _respond(options: argparse.Namespace, folders: Folders) -> int:
    config = read_config(folders.config)
    from .respond import Responder

    with lock(folders.run, response_lock(options.number)) as free:
        if not free:
            say(f"Response {options.number} is running already.")
            return FINE
        with closing(_open_store(folders)) as store:
            response = _find_response(store, options.number)
            if response.state not in (states.DUE, states.RUNNING):
                say(f"Response {options.number} is {response.state}; there is nothing to run.")
                return FINE
            responder = Responder(
                store, config, folders, Clock(), open_store=lambda unwritable: _open_store(folders, unwritable)
            )
            with closing(responder):
                return FINE if responder.run(response) else FAILED


def _find_response(store: Store, number: int) -> states.ResponseRecord:
    response = store.response(number)
    if response is None:
        raise ConfigError(f"There is no response {number}. azure-maintenance history lists them.")
    return response


def _retry(options: argparse.Namespace, folders: Folders) -> int:
    with closing(_open_store(folders)) as store:
        response = _find_response(store, options.number)
        if response.state != states.FAILED:
            raise ConfigError(
                f"Response {options.number} is {response.state}; only one that failed can be tried again."
            )
        with store.transaction():
            store.renew_failed_steps(options.number)
            store.begin_response(options.number, states.DUE, Clock().now())
    failure = start_unit(options.number)
    if failure:
        say(f"{failure} The next check tries it again.", ERROR)
        return FAILED
    say(f"Response {options.number} runs again. To watch it: journalctl -fu azure-maintenance-respond@{options.number}")
    return FINE


def _status(options: argparse.Namespace, folders: Folders) -> int:
    from .report import needing_attention, report
    from .status import history_text, status_text

    whole = options.command == "history"
    now = Clock().now()
    with closing(_open_store(folders)) as store:
        found = report(store, now, store.all_events() if whole else needing_attention(store))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The terminal may know fewer characters than Azure.
        sys.stdout.reconfigure(errors="backslashreplace")
    if options.json:
        json.dump(found, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write((history_text if whole else status_text)(found, now.wall))
    return FINE


def _validate(options: argparse.Namespace, folders: Folders) -> int:
    config = read_config(folders.config)
    if not options.syntax_only:
        from .validate import find_missing

        missing = find_missing(config, folders)
        for sentence in missing:
            say(sentence, ERROR)
        if missing:
            return UNUSABLE
    say(f"{folders.config} is fine: {_count(config)}.")
    return FINE


def _count(config: Config) -> str:
    return f"{len(config.rules)} rule{'' if len(config.rules) == 1 else 's'}"


_COMMANDS: dict[str, Callable[[argparse.Namespace, Folders], int]] = {
    "check": _check,
    "respond": _respond,
    "status": _status,
    "history": _status,
    "validate": _validate,
    "retry": _retry,
}
