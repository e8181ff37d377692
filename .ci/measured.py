# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Say how much of the product the tests of some gates have run, in lines and branches."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from venvs import ROOT, clean_environment

CONFIG = ROOT / ".ci" / "coveragerc"
DATA = ROOT / "build" / "coverage"
PRODUCT = ["plugins/**/*.py", "roles/*/files/**/*.py", "extensions/eda/plugins/**/*.py"]
# Modules below it are named.
ENOUGH = 90


def forget() -> None:
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)


def variables() -> dict[str, str]:
    """Return the variables that make every Python of a gate measure itself, where coverage is installed."""
    # coverage appends a unique end to the name, and combines only files with the same beginning.
    return {"COVERAGE_PROCESS_START": str(CONFIG), "COVERAGE_FILE": str(DATA / "all")}


def show(programs: Path, tree: Path) -> None:
    """Print the coverage of all gates since forget(); programs has the command coverage."""
    report = DATA / "report.json"
    env = {**clean_environment(), "COVERAGE_FILE": str(DATA / "all"), "COVERAGE_RCFILE": str(CONFIG)}
    coverage = [str(programs / "python"), "-m", "coverage"]
    # Ansible adds empty files to the zip file of a module, which are nowhere in the tree.
    for command in (["combine", "--quiet", str(DATA)], ["json", "--quiet", "--ignore-errors", "-o", str(report)]):
        ended = subprocess.run([*coverage, *command], cwd=tree, env=env, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            print(f"\nCoverage could not be computed: {ended.stdout}{ended.stderr}", flush=True)
            return
    found = json.loads(report.read_text())
    total = found["totals"]
    print(f"\nCoverage: {total['covered_lines']} of {total['num_statements']} lines,", end=" ")
    print(f"{total['covered_branches']} of {total['num_branches']} branches")
    for pattern in PRODUCT:
        for path in sorted(tree.glob(pattern)):
            name = os.path.relpath(path, tree)
            summary = found["files"].get(name, {}).get("summary")
            if summary is None:
                print(f"  {name} was not measured")
            elif summary["percent_covered"] < ENOUGH:
                print(f"  {name} {summary['percent_covered']:.0f} %")
