# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event source: the phases of the maintenance events of this VM."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import runpy
import sys
import threading
import types
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

DOCUMENTATION = r"""
name: scheduled_events
short_description: Report the phases of the maintenance events of this Azure VM
version_added: 1.0.0
description:
  - Asks Azure's metadata service over and over, and reports when an event that affects this VM is C(announced), has
    C(started) or has C(ended). It reports only changes; an event whose type or source changes is reported again.
  - 'An event of ansible-rulebook has C(maintenance_event) (with the keys that
    C(fleetops.azure_maintenance.scheduled_events_info) returns), C(maintenance_phase) (C(announced), C(started),
    C(ended)), C(maintenance_outcome) (of an ended one: C(completed) or C(withdrawn), else null) and C(resource_name),
    the same that the webhook of the role C(fleetops.azure_maintenance.event_checker) posts.'
  - C(meta.hosts) is a list with the resource name of this VM, so that actions run on this VM only and never on the
    others of the event; call it so in the inventory. C(meta.uuid) is the same for each report of the same phase of the
    same event, as long as its type and source are the same.
  - Events that are listed when the source starts are reported as announced or started, even if that was reported before
    a restart. The end of an event that is gone by then is reported only with O(state_file).
  - An end is reported when no other event of this VM is open, so that nothing restores this VM while it is prepared for
    another event. Then all ends that waited are reported, in their order. A Freeze that has not started keeps no end
    back. An event that is listed again with the same id has not ended.
  - Only a document ends an event. A failure, an empty answer and a document with an entry that cannot be read end none.
    When all answers of five minutes were empty or held such an entry, the events end that had started or were due.
  - A metadata service that fails is asked again for ever, with pauses that grow to 5 seconds (or O(poll_interval), if
    that is longer). A C(Retry-After) counts up to a minute. The log says when it begins to fail, when it fails for
    another reason, and when it answers again, and says the same no more than once an hour.
  - Azure does not tell who approved an event. One that was approved and is gone before it was seen started counts as
    withdrawn, unless its time had come or this VM has booted meanwhile.
  - An event that names no VM is reported with C(affects_this_vm) null; whether it concerns this VM is unknown.
  - Text from Azure that begins a template gets a space put into it, so that it stays text in a playbook.
options:
  endpoint:
    description:
      - Where the metadata service answers, as C(http://HOST[:PORT][/PREFIX]).
      - If not set, the environment variable E(AZURE_IMDS_ENDPOINT) is used, if it is set.
    type: str
    default: http://169.254.169.254
  api_version:
    description: Version of C(/metadata/scheduledevents).
    type: str
    default: "2020-07-01"
  connect_timeout:
    description: Seconds to wait for a connection, more than 0 and at most 86400.
    type: float
    default: 3.0
  timeout:
    description:
      - Seconds to wait for the first answer, more than 0 and at most 86400. Later ones may take 10 seconds at most, and
        so may all where O(state_file) knows of an event, or of an answer since this VM booted.
      - Azure may hold the first answer up to two minutes while it switches Scheduled Events on for the VM.
    type: float
    default: 150.0
  resource_name:
    description:
      - The name that the events call this VM by. It is the VM's resource name, not its host name.
      - If not set, the metadata service is asked for it.
    type: str
  poll_interval:
    description: Seconds from one question to the next, from 0.2 to 60. Microsoft recommends one second.
    type: float
    default: 1.0
  state_file:
    description:
      - A file for the events whose end was not reported. With it the end of an event is reported even if it came while
        the source did not run, as when the maintenance reboots this VM. The file is created, its folder is not.
      - Each source needs a file of its own. A file C(.lock) beside it keeps other sources from it.
      - An event in it that cannot be read costs no other event. A file that cannot be read at all, or has more than
        64 MiB, is renamed, and the log says so.
      - If not set, nothing is written.
    type: str
notes:
  - An argument that is an empty string counts as not set.
  - The metadata service answers on the VM only, so this source is for an ansible-rulebook beside the workload. A fleet
    has its checkers post to C(eda.builtin.webhook) instead.
  - Asking switches Scheduled Events on for this VM, and for all that share its document.
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- fleetops.azure_maintenance.scheduled_events:
    state_file: /var/lib/ansible-rulebook/scheduled_events.json
"""

# ansible-rulebook runs this file by its path, where no collection can be imported. So the files that it needs get a
# package of their own, whichever other copy of the collection Python would find.
_HERE = Path(__file__).resolve()
if TYPE_CHECKING:
    from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
    from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client as imds
    from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import fetch
    from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils import _host_name
    from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._eda import source
else:
    _PACKAGE = f"fleetops_azure_maintenance_{uuid.uuid5(uuid.NAMESPACE_URL, str(_HERE)).hex}"
    if _PACKAGE not in sys.modules:
        sys.modules[_PACKAGE] = types.ModuleType(_PACKAGE)
        sys.modules[_PACKAGE].__path__ = [str(_HERE.parents[4] / "plugins")]
    _errors, imds, fetch = (
        importlib.import_module(f"{_PACKAGE}.module_utils.{name}")
        for name in ("_errors", "_imds.client", "_imds.fetch")
    )
    _host_name, source = (
        importlib.import_module(f"{_PACKAGE}.plugin_utils.{name}") for name in ("_host_name", "_eda.source")
    )
_no_templates = runpy.run_path(str(_HERE.parents[1] / "event_filter" / "no_templates.py"))["main"]


_NUMBERS = ("connect_timeout", "timeout", "poll_interval")


class Options(NamedTuple):
    """The arguments of the source."""

    endpoint: str = imds.DEFAULT_ENDPOINT
    api_version: str = imds.DEFAULT_API_VERSION
    connect_timeout: float = imds.DEFAULT_CONNECT_TIMEOUT
    timeout: float = imds.DEFAULT_TIMEOUT
    resource_name: str | None = None
    poll_interval: float = fetch.POLL_INTERVAL
    state_file: str | None = None

    def client(self) -> imds.ImdsClient:
        """:raises ValueError: the endpoint or a limit is wrong."""
        return imds.ImdsClient(self.endpoint, self.api_version, self.connect_timeout, self.timeout, retries=False)


def read_options(args: dict[str, Any]) -> Options:
    """Check the arguments.

    :raises ValueError: one of them is wrong; the sentence says which.
    """
    unknown = sorted(set(map(str, args)) - set(Options._fields))
    if unknown:
        raise ValueError(
            f"There is no argument {_errors.one_line(unknown[0])}; there are {', '.join(Options._fields)}."
        )
    given = {name: value for name, value in args.items() if value is not None and value != ""}
    given.setdefault("endpoint", os.environ.get("AZURE_IMDS_ENDPOINT") or imds.DEFAULT_ENDPOINT)
    for name, value in given.items():
        number = name in _NUMBERS
        if isinstance(value, bool) or not isinstance(value, (int, float) if number else str):
            wanted = "a number" if number else "a string"
            raise ValueError(f"{name} must be {wanted}, not {_errors.excerpt(str(value))}.")
    options = Options(**given)
    if not 0.2 <= options.poll_interval <= 60:
        raise ValueError(f"poll_interval must be from 0.2 to 60 seconds, not {options.poll_interval}.")
    if options.resource_name is not None and not _host_name.is_host_name(options.resource_name):
        raise ValueError(f"resource_name must be the name of a VM, not {_errors.excerpt(options.resource_name)}.")
    options.client()
    return options


def make_watcher(options: Options) -> source.Watcher:
    """:raises ValueError: the state file cannot be used."""
    return source.Watcher(options.client(), options.resource_name, options.poll_interval, options.state_file)


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Do as asyncio.to_thread, but with a thread that the end of the program does not wait for: Azure may take long."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        result, failure = None, None
        try:
            result = function()
        except Exception as error:
            failure = error
        # When the loop is closed, nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="scheduled_events", daemon=True).start()
    return await future


async def main(queue: asyncio.Queue[Any], args: dict[str, Any]) -> None:
    """Report the phases of the events of this VM, until it is cancelled.

    :raises ValueError: an argument is wrong.
    """
    watcher = make_watcher(read_options(args))
    try:
        await _tell(queue, watcher)
    finally:
        watcher.close()


async def _tell(queue: asyncio.Queue[Any], watcher: source.Watcher) -> None:
    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        told, pause = await _in_thread(watcher.poll)
        for event in told:
            await queue.put(_no_templates(event))
        if told:
            await _in_thread(watcher.keep)
        await asyncio.sleep(max(0.0, begun + pause - loop.time()))


if __name__ == "__main__":
    # To try it: every argument as NAME=VALUE, such as endpoint=http://127.0.0.1:8181/vm/web-1

    class Printer:
        async def put(self, event: dict[str, Any]) -> None:
            print(json.dumps(event, indent=2), flush=True)

    def read(argument: str) -> tuple[str, Any]:
        name, _equals, value = argument.partition("=")
        if name in _NUMBERS:
            # A text that is no number is refused with the other wrong arguments.
            with suppress(ValueError):
                return name, float(value)
        return name, value

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        given = make_watcher(read_options(dict(map(read, sys.argv[1:]))))
    except ValueError as error:
        sys.exit(str(error))
    with suppress(KeyboardInterrupt):
        asyncio.run(_tell(Printer(), given))  # type: ignore[arg-type]
