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
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
# Python runs it at its start in each of the environments.
START_CACHE = ROOT / ".ci" / "start_cache.py"

# The releases of ansible-core that are tested, and the Pythons for each, best first. Of each series these are the first
# release that is supported and the newest one; each Python of a controller is the first of some release.
CORES = {
    "2.16.14": ("3.11", "3.10", "3.12"),
    "2.16.19": ("3.10", "3.11", "3.12"),
    "2.17.0": ("3.11", "3.10", "3.12"),
    "2.17.14": ("3.11", "3.10", "3.12"),
    "2.18.0": ("3.11", "3.12", "3.13"),
    "2.18.19": ("3.11", "3.12", "3.13"),
    "2.19.0": ("3.11", "3.12", "3.13"),
    "2.19.14": ("3.11", "3.12", "3.13"),
    "2.20.0": ("3.12", "3.13"),
    "2.20.10": ("3.12", "3.13"),
    "2.21.0": ("3.12", "3.13"),
    "2.21.5": ("3.12", "3.13"),
    "2.22.0rc1": ("3.13",),
}
# The environment "newest" is the first of these for which this machine has a Python.
NEWEST = ("2.21.5", "2.19.14")

# name: (file in requirements/, Python versions that will do, best first)
VENVS = {
    "uv": ("uv.txt", ("3.11", "3.12", "3.13")),
    **{f"core-{core}": ("core.txt", pythons) for core, pythons in CORES.items()},
    "docs": ("docs.txt", ("3.11", "3.12", "3.13")),
    "lint": ("lint.txt", ("3.11", "3.12", "3.13")),
    "molecule": ("molecule.txt", ("3.11", "3.12", "3.13")),
    "ansible-9": ("ansible-9.txt", ("3.11", "3.12")),
    "awx": ("awx.txt", ("3.11", "3.12", "3.13")),
    "azure": ("azure.txt", ("3.11", "3.12", "3.13")),
    "azure-collection": ("azure-collection.txt", ("3.12", "3.11", "3.13")),
    "azure-cli": ("azure-cli.txt", ("3.11", "3.12", "3.13")),
    "eda": ("eda.txt", ("3.11", "3.12", "3.13")),
    "galaxy-importer": ("galaxy-importer.txt", ("3.11", "3.12", "3.13")),
    "target-3.8": ("target.txt", ("3.8",)),
    "target-3.9": ("target.txt", ("3.9",)),
    "target-3.13": ("target.txt", ("3.13",)),
}


def clean_environment() -> dict[str, str]:
    """Return the environment without variables that lead a child to another Python, repository or configuration."""
    unwanted = ("ANSIBLE_", "GIT_", "MAKE", "MFLAGS", "PYTHON", "PYTEST_", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}


def find_python(version: str) -> str | None:
    """Return the path of a Python of this version that really runs, as a shim of pyenv may not, or None.

    The Python of the system is tried first: it is built with optimizations, and tests need an eighth less CPU than with
    the one that pyenv builds.
    """
    pyenvs = [Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser(), Path("~/.pyenv").expanduser()]
    candidates = [shutil.which(f"/usr/bin/python{version}"), sys.executable, shutil.which(f"python{version}")]
    candidates += [str(path) for pyenv in pyenvs for path in pyenv.glob(f"versions/{version}.*/bin/python{version}")]
    question = "import ensurepip, sys, venv; print(*sys.version_info[:2], sep='.'); print(sys.executable)"
    for candidate in filter(None, candidates):
        answer = subprocess.run(
            [candidate, "-c", question], capture_output=True, text=True, check=False, env=clean_environment()
        )
        if answer.returncode == 0 and answer.stdout.splitlines()[0] == version:
            return answer.stdout.splitlines()[1]
    return None


def pip_settings(python: str) -> dict[str, str]:
    """Return the settings that pip has outside, in its files and variables, which say where packages come from."""
    listing = [python, "-m", "pip", "config", "list"]
    lines = subprocess.check_output(listing, text=True, env=clean_environment()).splitlines()
    found = {}
    for line in sorted(lines, key=lambda line: line.startswith(":env:")):  # the environment has the last word
        name, value = line.split("=", 1)
        if name.startswith((":env:.", "global.")):
            found[name.split(".", 1)[1]] = ast.literal_eval(value)
    return found


def uv_environment(python: str) -> dict[str, str]:
    """Return the environment of uv. It reads none of pip's settings, and an address in them may carry a password."""
    settings = pip_settings(python)
    env = clean_environment()
    # Like pip: the best version counts, wherever it comes from.
    env.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    env["UV_PYTHON_DOWNLOADS"] = "never"
    for variable, setting, separator in (
        ("UV_DEFAULT_INDEX", "index-url", " "),
        ("UV_INDEX", "extra-index-url", " "),
        ("UV_FIND_LINKS", "find-links", ","),
        ("UV_INSECURE_HOST", "trusted-host", " "),
        ("UV_HTTP_TIMEOUT", "default-timeout", " "),
        ("UV_HTTP_TIMEOUT", "timeout", " "),
        ("UV_NO_INDEX", "no-index", " "),
        ("SSL_CERT_FILE", "cert", " "),
        ("ALL_PROXY", "proxy", " "),
    ):
        if setting in settings:
            env.setdefault(variable, separator.join(settings[setting].split()))
    return env


def best_python(name: str) -> str | None:
    """Return the path of the best Python for this virtual environment, or None where this machine has none."""
    return next(filter(None, map(find_python, VENVS[name][1])), None)


def newest_core() -> str:
    """Return the newest tested ansible-core, such as 2.21.5, for which this machine has a Python; exit without one."""
    for core in NEWEST:
        if best_python(f"core-{core}"):
            return core
    sys.exit("Python 3.11 or newer with its venv module is needed, and none was found.")


def make_newest() -> Path:
    """Make the environment of the newest ansible-core, link it as .venv/newest, and return its folder of programs."""
    core = newest_core()
    programs = make_venv(f"core-{core}")
    assert programs is not None
    link = ROOT / ".venv" / "newest"
    if not link.is_symlink() or os.readlink(link) != programs.parent.name:
        link.unlink(missing_ok=True)
        link.symlink_to(programs.parent.name)
    python = os.path.basename(best_python(f"core-{core}") or "")
    print(f"Taking ansible-core {core} on {python}", end="")
    print("" if core == NEWEST[0] else f"; {NEWEST[0]} needs Python {CORES[NEWEST[0]][0]} or newer", flush=True)
    return programs


def make_venv(name: str) -> Path | None:
    """Return the folder of programs of this virtual environment, or None where no Python fits."""
    if name == "newest":
        return make_newest()
    requirements = ROOT / "requirements" / VENVS[name][0]
    folder = ROOT / ".venv" / name
    stamp = folder / "made-from"
    python = best_python(name)
    if python is None:
        return None
    files = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (requirements, START_CACHE)]
    made_from = "\n".join([python, str(folder), *files])
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / f"venv-{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != made_from:
            print(f"Setting up .venv/{name}", flush=True)
            _fill(name, folder, python, requirements)
            stamp.write_text(made_from)
    return folder / "bin"


def _fill(name: str, folder: Path, python: str, requirements: Path) -> None:
    """Replace the virtual environment by a new one; exit where that fails."""
    inside = str(folder / "bin" / "python")
    if name == "uv":
        env = clean_environment()
        commands = [
            [python, "-m", "venv", "--clear", str(folder)],
            [inside, "-m", "pip", "install", "--disable-pip-version-check", "-r", str(requirements)],
        ]
    else:
        programs = make_venv("uv")
        # Not the Python of the machine, which may have no pip.
        env, uv = uv_environment(str(programs / "python")), str(programs / "uv")
        more = [f"pip=={ensurepip.version()}"]
        if name.startswith("core-"):
            more.append(f"ansible-core=={name.removeprefix('core-')}")
        commands = [
            [python, "-m", "venv", "--clear", "--without-pip", str(folder)],
            # pip too, because pip download and ansible-test want it
            [uv, "pip", "install", "--no-deps", "--python", inside, "-r", str(requirements), *more],
        ]
    with open(LOGS / f"venv-{name}.log", "w+") as log:
        for command in commands:
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
            sys.exit(f".venv/{argument} needs Python {' or '.join(VENVS[argument][1])}, and none was found.")
