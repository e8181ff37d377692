# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors

"""Which file may import which: the standard library and its own folder always, all else as the table says."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Iterator

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = "ansible_collections.fleetops.azure_maintenance"

UTILS, ON_CONTROLLER = "plugins/module_utils", "plugins/plugin_utils"
ERRORS, TIME_LIMIT = f"{UTILS}/_errors", f"{UTILS}/_time_limit"
EVENT, IMDS, APPROVAL, MODULE = f"{UTILS}/_event", f"{UTILS}/_imds", f"{UTILS}/_approval", f"{UTILS}/_module"
ANSWER, FAILURE, MASKING, TEXT_INPUT, UNSAFE, LOAD_ACTION, HOST_NAME, CONDITIONS = (
    f"{ON_CONTROLLER}/_{name}"
    for name in (
        "answer_form",
        "failure_text",
        "masking",
        "text_input",
        "unsafe",
        "load_action",
        "host_name",
        "conditions",
    )
)
AZURE, EDA, REPORT, RUN, STEP, WINDOWS = (
    f"{ON_CONTROLLER}/{name}" for name in ("_azure", "_eda", "_report", "_run", "_step", "_windows")
)
CHECKER, SIMULATOR = "roles/event_checker/files", "roles/imds_simulator/files"
CONFIG, STATE, TRACK, POLL, RESPOND, STATUS, SYSTEM = (
    f"{CHECKER}/azure_maintenance/{name}"
    for name in ("config", "state", "track", "poll", "respond", "report", "system")
)

# Of the lines that name a file or a folder in which it lies, the longest counts, alone.
MAY_IMPORT = {
    ERRORS: [],
    TIME_LIMIT: [],
    EVENT: [ERRORS],
    IMDS: [ERRORS, EVENT],
    f"{IMDS}/client": [ERRORS, f"{IMDS}/transport"],
    f"{IMDS}/transport": [ERRORS],
    APPROVAL: [ERRORS, EVENT, IMDS],
    f"{APPROVAL}/guard": [ERRORS, EVENT],
    MODULE: [ERRORS, IMDS, "ansible"],
    f"{MODULE}/info": [EVENT, IMDS],
    ANSWER: [ERRORS, EVENT],
    FAILURE: [MASKING],
    MASKING: ["ansible"],
    TEXT_INPUT: [ERRORS],
    UNSAFE: ["ansible", "jinja2"],
    LOAD_ACTION: [],
    HOST_NAME: [],
    CONDITIONS: [ERRORS],
    AZURE: [
        ERRORS,
        TIME_LIMIT,
        EVENT,
        f"{IMDS}/transport",
        f"{APPROVAL}/guard",
        HOST_NAME,
        UNSAFE,
        "ansible",
        "azure",
        "requests",
    ],
    EDA: [ERRORS, EVENT, IMDS, HOST_NAME],
    REPORT: [ERRORS, EVENT, ANSWER, FAILURE, MASKING],
    RUN: [ERRORS, EVENT, f"{APPROVAL}/guard", ANSWER, FAILURE, TEXT_INPUT],
    STEP: [ERRORS, EVENT, TIME_LIMIT, ANSWER, FAILURE, LOAD_ACTION, RUN, WINDOWS, "ansible"],
    WINDOWS: [EVENT, APPROVAL, MODULE, FAILURE, LOAD_ACTION, UNSAFE, "ansible"],
    f"{WINDOWS}/marks": [ERRORS, EVENT, f"{WINDOWS}/transport"],
    f"{WINDOWS}/transport": [ERRORS, f"{IMDS}/transport"],
    "plugins/action": [UTILS, ON_CONTROLLER, "ansible", "jmespath"],
    "plugins/callback": [ERRORS, EVENT, FAILURE, MASKING, REPORT, "ansible"],
    "plugins/doc_fragments": [],
    "plugins/filter": [REPORT, RUN, UNSAFE, "ansible"],
    "plugins/lookup": [ERRORS, TEXT_INPUT, "ansible"],
    "plugins/modules": [EVENT, IMDS, APPROVAL, MODULE, "ansible"],
    "extensions/eda": [ERRORS, IMDS, EDA, HOST_NAME],
    "extensions/eda/plugins/event_filter/event_grid": [f"{AZURE}/messages"],
    CHECKER: [ERRORS, TIME_LIMIT, EVENT, IMDS, APPROVAL, "jmespath", "requests"],
    CONFIG: [ERRORS, TIME_LIMIT, EVENT, IMDS, SYSTEM, "jmespath"],
    f"{CONFIG}/requirements": [ERRORS, EVENT, IMDS, CONFIG, RESPOND, SYSTEM, "jmespath"],
    STATE: [ERRORS, EVENT, IMDS, CONFIG, SYSTEM],
    SYSTEM: [ERRORS, EVENT, f"{IMDS}/boot_id", f"{STATE}/records"],
    TRACK: [ERRORS, EVENT, APPROVAL, CONFIG, STATE, SYSTEM],
    RESPOND: [ERRORS, EVENT, IMDS, APPROVAL, CONFIG, STATE, TRACK, SYSTEM, "requests"],
    f"{RESPOND}/playbook_callback": ["ansible"],
    POLL: [EVENT, IMDS, CONFIG, STATE, TRACK, SYSTEM, f"{STATUS}/report"],
    STATUS: [ERRORS, EVENT, CONFIG, STATE, TRACK, SYSTEM, f"{POLL}/memory", f"{POLL}/statistics", f"{RESPOND}/retry"],
    f"{STATUS}/report": [EVENT, CONFIG, STATE, TRACK, SYSTEM, POLL, f"{RESPOND}/retry", CHECKER],
    # It shares no code with the client: a mistake of both would never be seen.
    SIMULATOR: ["simulator"],
}
FILES = sorted(
    str(path.relative_to(ROOT).with_suffix(""))
    for folder in ("plugins", "extensions/eda", "roles")
    for path in (ROOT / folder).rglob("*.py")
)


def is_in(name: str, place: str) -> bool:
    return f"{name}/".startswith(f"{place}/")


def find_imports(file: str) -> Iterator[str]:
    """Yield what a file imports, anywhere in it: of ours as a path, of others the package."""
    for node in ast.walk(ast.parse((ROOT / f"{file}.py").read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = [OURS, *file.split("/")[: -node.level]] if node.level else []
            names = [".".join(filter(None, [*above, node.module, alias.name])) for alias in node.names]
        for name in names:
            ours = name.startswith(f"{OURS}.")
            yield name[len(OURS) + 1 :].replace(".", "/") if ours else name.split(".")[0]


@pytest.mark.parametrize("file", FILES)
def test_a_file_imports_what_it_may(file):
    lines = [place for place in MAY_IMPORT if is_in(file, place)]
    assert lines, "the table has no line for it"
    line = max(lines, key=len)
    allowed = [line, *MAY_IMPORT[line], *sys.stdlib_module_names]
    assert [name for name in find_imports(file) if not any(is_in(name, place) for place in allowed)] == []


def test_each_line_is_of_a_file():
    assert [place for place in MAY_IMPORT if not any(is_in(file, place) for file in FILES)] == []
