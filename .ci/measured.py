# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Say how much of the product the tests of some gates have run, in lines and branches."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from venvs import BUILD, ROOT, clean_environment

CONFIG = ROOT / ".ci" / "coveragerc"
DATA = BUILD / "coverage"
# Where coverage is installed, every Python of a gate measures itself, into a file whose name begins like this.
VARIABLES = {"COVERAGE_PROCESS_START": str(CONFIG), "COVERAGE_FILE": str(DATA / "all")}
PRODUCT = ["plugins/**/*.py", "roles/*/files/**/*.py", "extensions/eda/plugins/**/*.py"]


def forget() -> None:
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)


def show(programs: Path, tree: Path) -> None:
    """Print the coverage of all gates since forget(), that of the least covered files first; programs has coverage."""
    env = {**clean_environment(), "COVERAGE_FILE": str(DATA / "all"), "COVERAGE_RCFILE": str(CONFIG)}
    coverage = [str(programs / "python"), "-m", "coverage"]
    subprocess.call([*coverage, "combine", "--quiet", str(DATA)], cwd=tree, env=env)
    # Ansible adds empty files to the zip file of a module, which are nowhere in the tree.
    report = [*coverage, "report", "--ignore-errors", "--sort=cover"]
    told = subprocess.run(report, cwd=tree, env=env, stdout=subprocess.PIPE, text=True, check=False).stdout
    print(f"\n{told}", flush=True)
    for name in sorted(str(path.relative_to(tree)) for pattern in PRODUCT for path in tree.glob(pattern)):
        if f"{name} " not in told:
            print(f"{name} was not measured", flush=True)
