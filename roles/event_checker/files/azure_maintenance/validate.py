# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the files, programs and libraries that the configuration names are there."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import Any, Iterator

from .config import AWX_CALLBACK, AWX_JOB, COMMAND, PLAYBOOK, WEBHOOK, Config
from .http_client import NotifyError, read_secret
from .steps import find_ansible_playbook, no_ansible_playbook, playbook_path
from .system import Folders


def find_missing(config: Config, folders: Folders) -> list[str]:
    """Return a sentence for everything that a response would miss on this VM."""
    steps = [(rule.name, step) for rule in config.rules for step in rule.steps]
    found = [f"rule {name}: {missing}" for name, step in steps for missing in _missing_for(step, folders)]
    if any(PLAYBOOK in step for _name, step in steps) and find_ansible_playbook(config) is None:
        found.append(no_ansible_playbook(config))
    remote = any(kind in step for _name, step in steps for kind in (WEBHOOK, AWX_CALLBACK, AWX_JOB))
    if remote and importlib.util.find_spec("requests") is None:
        found.append("The Python library requests is missing. Install python3-requests.")
    if config.metrics_dir is not None and not os.path.isdir(config.metrics_dir):
        found.append(f"metrics_dir: there is no folder {config.metrics_dir}.")
    return found


def _missing_for(step: dict[str, Any], folders: Folders) -> Iterator[str]:
    if PLAYBOOK in step:
        path = playbook_path(step[PLAYBOOK], folders)
        if not os.path.isfile(path):
            yield f"there is no playbook {path}."
    if COMMAND in step and shutil.which(step[COMMAND][0]) is None:
        yield f"there is no program {step[COMMAND][0]}."
    for key, path in step.items():
        if key == "ca_file" and not os.path.isfile(path):
            yield f"there is no ca_file {path}."
        elif key.endswith("_file") and key != "ca_file":
            try:
                read_secret(path)
            except NotifyError as error:
                yield str(error)
