# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Know the gates of gates.toml, and prepare all that they need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import measured
from venvs import BUILD, LOGS, ROOT, TABLE, clean_environment, find_python, make_venv, pip_settings, pythons

HOME = BUILD / "home"
PYTHONS = BUILD / "pythons"
PACKAGES_LOG = LOGS / "packages.log"
# Says whether packages may start their servers. One that the machine has is left alone.
POLICY = Path("/usr/sbin/policy-rc.d")


class Gate(NamedTuple):
    """One entry of gates.toml. The head of that file explains the fields."""

    name: str
    target: str
    venvs: list[str]
    command: str
    python: str = ""
    packages: tuple[str, ...] = ()
    lab: str = ""
    measured: bool = False
    lane: str = ""


def gates_of_entry(entry: dict[str, Any]) -> Iterator[Gate]:
    """Return the gates of one entry of gates.toml: one for each of its cores, or one."""
    if "cores" not in entry:
        yield Gate(**entry)
    for core in entry.pop("cores", ()):
        yield Gate(**{**entry, "name": f"{entry['name']}-{core}", "venvs": [f"core-{core}"]})


GATES = {gate.name: gate for entry in TABLE["gate"] for gate in gates_of_entry(entry)}


def gates_of(names: list[str]) -> list[Gate]:
    """Return the gates that these names of gates and targets mean, as the table has them; exit for an unknown one."""
    targets = TABLE["targets"]
    unknown = [name for name in names if name not in GATES and name not in targets]
    if unknown or not names:
        sys.exit(f"No such gate: {' '.join(unknown)}\nThere are: {' '.join([*targets, *GATES])}")
    meant = [target for name in names for target in targets.get(name, [])]
    return [gate for gate in GATES.values() if gate.name in names or gate.target in meant]


def make_venvs(gates: list[Gate]) -> dict[str, Path | None]:
    """Make the virtual environments of these gates, and what is beside them; return their folders of programs."""
    wanted = dict.fromkeys(name for gate in gates for name in (*gate.venvs, gate.python) if name)
    programs = {name: make_venv(name) for name in wanted}
    prepare_home()
    prepare_pythons()
    return programs


def why_no_python(gate: Gate, programs: dict[str, Path | None]) -> str:
    """Return why this gate has not the virtual environments it needs, or nothing where it has them."""
    wanted = filter(None, [*gate.venvs, gate.python])
    return ", ".join(f"no Python {' or '.join(pythons(name))} was found" for name in wanted if not programs[name])


def prepare_home() -> None:
    """Make the home folder of the gates.

    ansible-test keeps its virtual environments there, and two that share them get into each other's way. It runs pip
    without the variables of the environment that say where pip finds its packages, so they are written down as a file.
    """
    cache = HOME / ".ansible" / "test" / "cache"
    settings = HOME / ".config" / "pip" / "pip.conf"
    cache.mkdir(parents=True, exist_ok=True)
    # An address of an index may carry a password.
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.parent.chmod(0o700)
    for pip in ("25_2", "24_2", "23_1_2"):  # the pips of ansible-test 2.20, 2.18 and 2.16
        shutil.copy(ROOT / ".ci" / "get_pip.py", cache / f"get_pip_{pip}.py")
    settings.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in pip_settings().items()))


def prepare_pythons() -> None:
    """Link every Python that ansible-test can hold a module to, so that it need not meet the shims of pyenv."""
    shutil.rmtree(PYTHONS, ignore_errors=True)
    PYTHONS.mkdir(parents=True)
    for minor in range(8, 14):
        python = find_python(f"3.{minor}")
        if python:
            (PYTHONS / f"python3.{minor}").symlink_to(python)


def environment(gate: Gate, programs: dict[str, Path | None]) -> dict[str, str]:
    """Return the environment in which the command of this gate runs."""
    env, collections = clean_environment(), BUILD / gate.name
    rest = [folder for folder in env["PATH"].split(":") if Path(folder).name != "shims"]
    env["PATH"] = ":".join([*(str(programs[name]) for name in gate.venvs), str(PYTHONS), *rest])
    env["HOME"] = str(HOME)
    env["BUILD"] = str(BUILD)
    env["VENVS"] = str(ROOT / ".venv")
    if gate.python:
        env["PYTHON_TARGET"] = f"{programs[gate.python]}/python"
    if gate.lab:
        env["LAB_DEBIAN"] = gate.lab
        # Molecule keeps its state of a scenario there, by the name of the scenario alone.
        env["ANSIBLE_HOME"] = str(collections / "ansible-home")
    env["ANSIBLE_COLLECTIONS_PATH"] = str(collections)
    if gate.measured:
        env.update(measured.VARIABLES)
    env.setdefault("AZURE_MAINTENANCE_SAMPLES", str(ROOT.parent / "shared" / "samples"))
    return {**env, **TABLE["environment"]}


def missing_packages(wanted: Iterable[str]) -> list[str]:
    """Return those of these packages that this machine lacks."""
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n"]
    listing = subprocess.run(query, capture_output=True, text=True, check=False) if shutil.which(query[0]) else None
    lines = listing.stdout.splitlines() if listing else []
    # A program may have come in another way.
    return [name for name in dict.fromkeys(wanted) if f"{name} installed" not in lines and not shutil.which(name)]


def install_packages(wanted: Iterable[str]) -> None:
    """As root on Debian or Ubuntu, install the missing ones of these packages. One that fails does not stop others.

    None starts its server: tests start their own.
    """
    missing = missing_packages(wanted)
    if not missing or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    own_policy = not POLICY.exists()
    if own_policy:
        POLICY.write_text("#!/bin/sh\n# By .ci/needs.py of azure_maintenance, for its installations only\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        print(f"Installing Debian's packages {' '.join(missing)}", flush=True)
        install = ["install", "--yes", "--no-install-recommends"]
        apt_get("update")
        if apt_get(*install, *missing) != 0:
            for package in missing:
                apt_get(*install, package)
    finally:
        if own_policy:
            POLICY.unlink()


def apt_get(*arguments: str) -> int:
    """Run apt-get, and return its exit status."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with open(PACKAGES_LOG, "a") as log:
        return subprocess.call(["apt-get", *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
