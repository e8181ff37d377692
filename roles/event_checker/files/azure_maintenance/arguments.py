# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the command azure-maintenance takes, and its help."""

from __future__ import annotations

import argparse
import re
from types import SimpleNamespace
from typing import Sequence

from . import __version__


def parse(arguments: Sequence[str]) -> SimpleNamespace:
    """Return the command and its options.

    :raises SystemExit: they cannot be used, which has been said, or help was asked for.
    """
    return _parser().parse_args(arguments, SimpleNamespace())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="azure-maintenance",
        description="Notices what becomes of Azure's scheduled events on this VM, and answers them by rules.",
        epilog="Exit status: 0 fine, 1 failed, 2 bad configuration or usage. Of status: 0 fine, 1 a response failed or "
        "something waits for a person, 2 bad usage, 3 no document was heard of lately.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--config", metavar="FILE", help="read the configuration from here, - for standard input")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", prog="azure-maintenance")
    check = commands.add_parser("check", help="poll until the next check is due, and start what is due")
    check.add_argument("--once", action="store_true", help="poll once")
    respond = commands.add_parser("respond", help="run a response, as its unit does")
    respond.add_argument("number", type=_number, metavar="ID", help="its number in status")
    status = commands.add_parser("status", help="what is coming, what was done, what failed, what waits")
    history = commands.add_parser("history", help="what became of every event that is remembered")
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
