# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Make the virtual environments under .venv/ that are named as arguments, each from its file in requirements/.

One that is there already, made by the same Python from the same file at the same place, is left as it is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"

# name: (file in requirements/, Python versions that will do, best first)
VENVS = {
    "core-2.19": ("core-2.19.txt", ("3.11", "3.12", "3.13")),
    "core-2.16": ("core-2.16.txt", ("3.11", "3.12")),
    "lint": ("lint.txt", ("3.11", "3.12", "3.13")),
    "molecule": ("molecule.txt", ("3.11", "3.12", "3.13")),
    "awx": ("awx.txt", ("3.11", "3.12", "3.13")),
    "eda": ("eda.txt", ("3.11", "3.12", "3.13")),
    "galaxy-importer": ("galaxy-importer.txt", ("3.11", "3.12", "3.13")),
    "target-3.8": ("target.txt", ("3.8",)),
    "target-3.13": ("target.txt", ("3.13",)),
}


def clean_environment() -> dict[str, str]:
    """Return the environment without what would lead a child to another Python, repository or configuration."""
    unwanted = ("ANSIBLE_", "GIT_", "MAKE", "MFLAGS", "PYTHON", "PYTEST_", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}


def find_python(version: str) -> str | None:
    """Return the path of a Python of this version that really runs, as a shim of pyenv may not, or None."""
    pyenvs = [Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser(), Path("~/.pyenv").expanduser()]
    candidates = [sys.executable, shutil.which(f"python{version}")]
    candidates += [str(path) for pyenv in pyenvs for path in pyenv.glob(f"versions/{version}.*/bin/python{version}")]
    question = "import ensurepip, sys, venv; print(*sys.version_info[:2], sep='.'); print(sys.executable)"
    for candidate in filter(None, candidates):
        answer = subprocess.run(
            [candidate, "-c", question], capture_output=True, text=True, check=False, env=clean_environment()
        )
        if answer.returncode == 0 and answer.stdout.splitlines()[0] == version:
            return answer.stdout.splitlines()[1]
    return None


def make_venv(name: str) -> Path | None:
    """Return the folder of programs of this virtual environment, or None where no Python fits."""
    requirements = ROOT / "requirements" / VENVS[name][0]
    folder = ROOT / ".venv" / name
    stamp = folder / "made-from"
    python = next(filter(None, map(find_python, VENVS[name][1])), None)
    if python is None:
        return None
    made_from = "\n".join([python, str(folder), hashlib.sha256(requirements.read_bytes()).hexdigest()])
    if not stamp.exists() or stamp.read_text() != made_from:
        print(f"Setting up .venv/{name}", flush=True)
        make = [python, "-m", "venv", "--clear", str(folder)]
        fill = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
        LOGS.mkdir(parents=True, exist_ok=True)
        with open(LOGS / f"venv-{name}.log", "w+") as log:
            for command in (make, [*fill, "-r", str(requirements)]):
                if subprocess.call(command, stdout=log, stderr=log, env=clean_environment()) != 0:
                    log.seek(0)
                    sys.exit(f"{log.read()}\nSetting up .venv/{name} failed.")
        stamp.write_text(made_from)
    return folder / "bin"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        if make_venv(argument) is None:
            sys.exit(f".venv/{argument} needs Python {' or '.join(VENVS[argument][1])}, and none was found.")
