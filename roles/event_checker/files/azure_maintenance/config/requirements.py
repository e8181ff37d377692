# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the files, programs and libraries that the configuration names are there."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from typing import Any, Callable, Iterator

from ..respond.http_client import NotifyError, Service
from ..respond.playbook_evidence import why_it_would_run_nothing
from ..respond.steps import (
    find_ansible_playbook,
    no_ansible_playbook,
    playbook_command,
    playbook_environment,
    playbook_path,
    why_no_playbook_runs,
)
from ..system import Folders
from .config import Config
from .step import AWX_CALLBACK, AWX_JOB, COMMAND, PLAYBOOK, WEBHOOK


def find_missing(config: Config, folders: Folders) -> list[str]:
    """Return a sentence for everything that a response would miss on this VM."""
    steps = [(rule.name, step) for rule in config.rules for step in rule.steps]
    program = find_ansible_playbook(config)

    @functools.lru_cache(maxsize=None)
    def look_at(path: str) -> str | None:
        if program is None:
            return None
        return why_it_would_run_nothing(playbook_command(program, path), playbook_environment(), path)

    found = [f"rule {name}: {missing}" for name, step in steps for missing in _missing_for(step, folders, look_at)]
    if any(PLAYBOOK in step for _name, step in steps):
        if program is None:
            found.append(no_ansible_playbook(config))
        elif not found:
            found += why_no_playbook_runs(program)
    remote = any(kind in step for _name, step in steps for kind in (WEBHOOK, AWX_CALLBACK, AWX_JOB))
    if remote and importlib.util.find_spec("requests") is None:
        found.append("The Python library requests is missing. Install python3-requests.")
    if config.metrics_dir is not None and not os.path.isdir(config.metrics_dir):
        found.append(f"metrics_dir: there is no folder {config.metrics_dir}.")
    return found


def _missing_for(step: dict[str, Any], folders: Folders, look_at: Callable[[str], str | None]) -> Iterator[str]:
    """:param look_at: tells of a playbook that it would run nothing."""
    if PLAYBOOK in step:
        path = playbook_path(step[PLAYBOOK], folders)
        why = look_at(path) if os.path.isfile(path) else f"there is no playbook {path}."
        if why is not None:
            yield why
    if COMMAND in step and shutil.which(step[COMMAND][0]) is None:
        yield f"there is no program {step[COMMAND][0]}."
    address = next((step[kind] for kind in (WEBHOOK, AWX_CALLBACK, AWX_JOB) if kind in step), None)
    if address is not None:
        yield from _missing_for_service(address, step)


def _missing_for_service(address: str, step: dict[str, Any]) -> Iterator[str]:
    """Yield each fault for which the step would fail before it sends a request, however often it is tried."""
    ca_file = step.get("ca_file")
    if ca_file is not None and not os.path.isfile(ca_file):
        yield f"there is no ca_file {ca_file}."
        ca_file = None
    try:
        service = Service(address, ca_file)
    except NotifyError as error:
        yield str(error)
        return
    uses = {"token_file": service.use_token, "key_file": service.read_sent_secret, "hmac_file": service.read_secret}
    for key, use in uses.items():
        if key in step:
            try:
                use(step[key])
            except NotifyError as error:
                yield str(error)
