# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Make the virtual environments under .venv/ that are named as arguments, each from its file in requirements/.

One that exists already, made by the same Python from the same file at the same place, is left as it is.
uv fills them, because it needs a fraction of the time of pip; pip installs uv itself.
"""

from __future__ import annotations

import ast
import ensurepip
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "logs"
# Python runs it at its start in each of the environments.
START_CACHE = ROOT / ".ci" / "start_cache.py"

TABLE = tomllib.loads((ROOT / ".ci" / "gates.toml").read_text())


def clean_environment() -> dict[str, str]:
    """Return the environment without variables that lead a child to another Python, repository or configuration."""
    unwanted = ("ANSIBLE_", "GIT_", "MAKE", "MFLAGS", "PYTHON", "PYTEST_", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}


@functools.cache
def find_python(version: str) -> str | None:
    """Return the path of a Python of this version that really runs, as a shim of pyenv may not, or None.

    The Python of the system is tried first: it is built with optimizations, and tests need an eighth less CPU than with
    the one that pyenv builds.
    """
    program = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    candidates = [f"/usr/bin/{program}", sys.executable, shutil.which(program)]
    candidates += map(str, pyenv.glob(f"versions/{version}.*/bin/{program}"))
    question = "import ensurepip, sys, venv; print(*sys.version_info[:2], sep='.'); print(sys.executable)"
    for candidate in filter(shutil.which, filter(None, candidates)):
        command = [candidate, "-c", question]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment())
        if answer.returncode == 0 and answer.stdout.splitlines()[0] == version:
            return answer.stdout.splitlines()[1]
    return None


def pip_settings() -> dict[str, str]:
    """Return the settings that pip has outside, in its files and variables, which say where packages come from."""
    # Not the Python of the machine, which may have no pip.
    listing = [f"{make_venv('uv')}/python", "-m", "pip", "config", "list"]
    lines = subprocess.check_output(listing, text=True, env=clean_environment()).splitlines()
    found = {}
    for line in sorted(lines, key=lambda line: line.startswith(":env:")):  # the environment has the last word
        name, value = line.split("=", 1)
        if name.startswith((":env:.", "global.")):
            found[name.split(".", 1)[1]] = " ".join(ast.literal_eval(value).split())
    return found


def uv_environment() -> dict[str, str]:
    """Return the environment of uv. It reads none of pip's settings, and an address in them may carry a password."""
    env = clean_environment()
    # Like pip: the best version counts, wherever it comes from.
    env.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    env["UV_PYTHON_DOWNLOADS"] = "never"
    for setting, value in pip_settings().items():
        if setting in TABLE["uv"]:
            env.setdefault(TABLE["uv"][setting], value.replace(" ", ",") if setting == "find-links" else value)
    return env


def pythons(name: str) -> list[str]:
    """Return the versions of Python that will do for this virtual environment, best first."""
    wanted: list[str] = TABLE["pythons"].get(name, TABLE["pythons"]["usual"])
    return wanted


def best_python(name: str) -> str | None:
    """Return the path of the best Python for this virtual environment, or None where this machine has none."""
    return next(filter(None, map(find_python, pythons(name))), None)


def make_newest() -> Path:
    """Make the environment of the newest ansible-core that can run here, and link it; return its folder of programs."""
    best = TABLE["newest"][0]
    name = next(filter(best_python, TABLE["newest"]), None)
    if name is None:
        sys.exit("Python 3.11 or newer with its venv module is needed, and none was found.")
    programs = make_venv(name)
    assert programs is not None
    link = ROOT / ".venv" / "newest"
    if not link.is_symlink() or os.readlink(link) != name:
        link.unlink(missing_ok=True)
        link.symlink_to(name)
    python = os.path.basename(best_python(name) or "")
    needs = "" if name == best else f"; {best.removeprefix('core-')} needs Python {pythons(best)[0]} or newer"
    print(f"Taking ansible-{name.replace('-', ' ')} on {python}{needs}", flush=True)
    return programs


def make_venv(name: str) -> Path | None:
    """Return the folder of programs of this virtual environment, or None where no Python fits."""
    if name == "newest":
        return make_newest()
    python = best_python(name)
    if python is None:
        return None
    requirements = ROOT / "requirements" / f"{name}.txt"
    if not requirements.exists():
        requirements = requirements.with_name(f"{name.split('-')[0]}.txt")
    folder = ROOT / ".venv" / name
    stamp = folder / "made-from"
    hashes = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (requirements, START_CACHE)]
    made_from = "\n".join([python, str(folder), *hashes])
    if not stamp.exists() or stamp.read_text() != made_from:
        print(f"Setting up .venv/{name}", flush=True)
        _fill(name, folder, python, requirements)
        stamp.write_text(made_from)
    return folder / "bin"


def _fill(name: str, folder: Path, python: str, requirements: Path) -> None:
    """Replace the virtual environment by a new one; exit where that fails."""
    inside = folder / "bin" / "python"
    venv = [python, "-m", "venv", "--clear", folder]
    if name == "uv":
        env = clean_environment()
        install = [inside, "-m", "pip", "install", "--disable-pip-version-check", "-r", requirements]
    else:
        env = uv_environment()
        venv.append("--without-pip")
        install = [f"{make_venv('uv')}/uv", "pip", "install", "--no-deps", "--python", inside, "-r", requirements]
        # pip too, because pip download and ansible-test want it
        install.append(f"pip=={ensurepip.version()}")
        if name.startswith("core-"):
            install.append(f"ansible-core=={name.removeprefix('core-')}")
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / f"venv-{name}.log", "w+") as log:
        for command in (venv, install):
            if subprocess.call(command, stdout=log, stderr=log, env=env) != 0:
                log.seek(0)
                sys.exit(f"{log.read()}\nSetting up .venv/{name} failed.")
    (packages,) = folder.glob("lib/python3.*/site-packages")
    shutil.copy(START_CACHE, packages)
    (packages / f"{START_CACHE.stem}.pth").write_text(f"import {START_CACHE.stem}\n")
    (folder / START_CACHE.stem).mkdir()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        if make_venv(argument) is None:
            sys.exit(f".venv/{argument} needs Python {' or '.join(pythons(argument))}, and none was found.")
