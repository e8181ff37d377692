# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments of the command azure-maintenance, and its help."""

from __future__ import annotations

import argparse
import re
from types import SimpleNamespace
from typing import Any, Sequence

from . import __version__

_STATUS = "Exit status: 0 fine, 1 failed, 2 bad configuration or usage."
_STATUS_OF_STATUS = (
    "Exit status of status: 0 fine, 1 a response failed or something waits for a person, 2 bad usage, "
    "3 no usable answer from Azure lately."
)


def parse(arguments: Sequence[str]) -> SimpleNamespace:
    """Return the command and its options.

    :raises SystemExit: they cannot be used (a message says so), or help was asked for.
    """
    return _parser().parse_args(arguments, SimpleNamespace())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="azure-maintenance",
        description="Follows Azure's scheduled events on this VM, and answers them by rules.",
        epilog=f"{_STATUS} {_STATUS_OF_STATUS}",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--config", metavar="FILE", help="read the configuration from here, - for standard input")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", prog="azure-maintenance")
    check = _add(
        commands,
        "check",
        "poll until the next check is due, and start due responses",
        "Polls the metadata service until the next check is due, writes down all changes of the events, and starts "
        "the responses that are due. A systemd timer runs it.",
    )
    check.add_argument("--once", action="store_true", help="poll once")
    respond = _add(
        commands,
        "respond",
        "run a response, as its unit does",
        "Runs the steps of one response, as the unit azure-maintenance-respond@ID does.",
    )
    respond.add_argument("number", type=_number, metavar="ID", help="its number in status")
    status = _add(
        commands,
        "status",
        "show coming events, and their steps that are done, failed or waiting",
        "Shows the coming events, and which steps are done, have failed or wait for a person or another VM.",
        _STATUS_OF_STATUS,
    )
    history = _add(
        commands,
        "history",
        "show past events",
        "Shows every event that is remembered, the newest first: its notice, how long it lasted, and the responses "
        "to it.",
    )
    for command in (status, history):
        command.add_argument("--json", action="store_true", help="print JSON")
    validate = _add(
        commands,
        "validate",
        "check the configuration",
        "Checks the configuration, and whether the files and programs that it names are there.",
    )
    validate.add_argument(
        "--syntax-only", action="store_true", help="do not look for the files and programs that it names"
    )
    retry = _add(
        commands,
        "retry",
        "try a failed response again, from the step that failed",
        "Makes a failed response due again. It begins with the step that failed, as soon as it may run.",
    )
    retry.add_argument("number", type=_number, metavar="ID", help="its number in status")
    restore = _add(
        commands,
        "restore",
        "put this VM back after a preparation that failed, before the event",
        "Runs the steps of on_ended for an event that has not started, because on_announced failed. That preparation "
        "approves nothing any more. At the end of the event on_ended runs once more.",
    )
    restore.add_argument("number", type=_number, metavar="ID", help="the number of on_announced in status")
    _add(
        commands,
        "allow-list",
        "print the entries for an allow list of the guest proxy agent",
        "Prints the rules that an access control profile of the Metadata Security Protocol must have, so that the "
        "checker of this VM can ask: user, program and paths, as JSON.",
    )
    return parser


def _add(commands: Any, name: str, short: str, sentence: str, epilog: str = _STATUS) -> argparse.ArgumentParser:
    """Add a command with a few words for the list of commands, and a sentence for its own help."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=short, description=sentence, epilog=epilog)
    return command


def _number(text: str) -> int:
    # Larger ones fit neither SQLite nor a message.
    if not re.fullmatch("[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError("must be the number of a response")
    return int(text)
