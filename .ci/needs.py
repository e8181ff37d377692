# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Know the gates of gates.toml, and prepare all that they need."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lab
import measured
import tomllib
from venvs import LOGS, ROOT, VENVS, clean_environment, find_python, make_venv, pip_settings

BUILD = ROOT / "build"
HOME = BUILD / "home"
PYTHONS = BUILD / "pythons"
TABLE = tomllib.loads((ROOT / ".ci" / "gates.toml").read_text())
TARGETS = {
    "lint": ["lint"],
    "test": ["test", "lint"],
    "test-matrix": ["matrix"],
    "test-release": ["release"],
}


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
    alone: bool = False

    @property
    def collections(self) -> Path:
        """The folder of collections in which its copy of this one is."""
        return BUILD / self.name


def gates_of_entry(entry: dict[str, Any]) -> list[Gate]:
    """Return the gates of one entry of gates.toml: one for each of its cores, or one."""
    cores = entry.pop("cores", None)
    if cores is None:
        return [Gate(**entry)]
    measured = entry.pop("measured", [])
    return [
        Gate(
            **{**entry, "name": f"{entry['name']}-{core}", "venvs": [f"core-{core}", *entry.get("venvs", [])]},
            measured=core in measured,
        )
        for core in cores
    ]


GATES = {gate.name: gate for entry in TABLE["gate"] for gate in gates_of_entry(entry)}


def gates_of(names: list[str]) -> list[Gate]:
    """Return the gates that these names of gates and targets mean, as the table has them; exit for an unknown one."""
    unknown = [name for name in names if name not in GATES and name not in TARGETS]
    if unknown or not names:
        sys.exit(f"No such gate: {' '.join(unknown)}\nThere are: {' '.join([*TARGETS, *GATES])}")
    targets = [target for name in names for target in TARGETS.get(name, [])]
    return [gate for gate in GATES.values() if gate.name in names or gate.target in targets]


def why_no_python(gate: Gate, programs: dict[str, Path | None]) -> str:
    """Return why this gate has not the virtual environments it needs, or nothing where it has them."""
    wanted = [*gate.venvs, gate.python] if gate.python else gate.venvs
    missing = [f"no Python {' or '.join(VENVS[name][1])} was found" for name in wanted if not programs[name]]
    return ", ".join(missing)


def why_no_lab(gate: Gate) -> str:
    """Return why the lab of VMs that this gate needs does not stand, or nothing where it does or is not needed."""
    try:
        if gate.lab:
            lab.check(gate.lab)
    except lab.CannotRun as problem:
        return str(problem)
    return ""


def make_venvs(gates: list[Gate]) -> dict[str, Path | None]:
    """Make the virtual environments of these gates, and return their folders of programs."""
    wanted = dict.fromkeys(name for gate in gates for name in (*gate.venvs, gate.python) if name)
    programs = {name: make_venv(name) for name in wanted}
    some = next(filter(None, programs.values()), None)
    if some:
        prepare_home(some)
    prepare_pythons()
    return programs


def prepare_home(programs: Path) -> None:
    """Make the home folder of the gates.

    ansible-test keeps its virtual environments there, and two that share them get into each other's way. It runs pip
    without the variables of the environment that say where pip finds its packages, so they are written down as a file.
    """
    cache = HOME / ".ansible" / "test" / "cache"
    settings = HOME / ".config" / "pip" / "pip.conf"
    for folder in (cache, settings.parent):
        folder.mkdir(parents=True, exist_ok=True)
    for pip in ("25_2", "24_2", "23_1_2"):  # the pips of ansible-test 2.20, 2.18 and 2.16
        shutil.copy(ROOT / ".ci" / "get_pip.py", cache / f"get_pip_{pip}.py")

    found = {name: value.replace("\n", "\n  ") for name, value in pip_settings(str(programs / "python")).items()}
    settings.touch(mode=0o600)  # an address of an index may carry a password
    settings.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in found.items()))


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
    env = clean_environment()
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
        env["ANSIBLE_HOME"] = str(gate.collections / "ansible-home")
    env["ANSIBLE_COLLECTIONS_PATH"] = str(gate.collections)
    env["CONTAINERS_CONF"] = str(lab.CONTAINERS_CONF)
    if gate.measured:
        env.update(measured.variables())
    # Where nothing listens: a forgotten endpoint must not reach 169.254.169.254, a real service on some networks.
    env["AZURE_IMDS_ENDPOINT"] = "http://127.0.0.1:9"
    env.setdefault("AZURE_MAINTENANCE_SAMPLES", str(ROOT.parent / "shared" / "samples"))
    return {**env, **TABLE["environment"]}


def missing_packages(gates: list[Gate]) -> list[str]:
    """Return the Debian packages that the tests of these gates need and that this machine lacks."""
    wanted = dict.fromkeys(package for gate in gates for package in gate.packages)
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *wanted]
    try:
        listing = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        listing = ""
    # A program may have come in another way.
    return [
        package
        for package in wanted
        if not re.search(rf"^{re.escape(package)} installed$", listing, re.MULTILINE) and not shutil.which(package)
    ]


@contextlib.contextmanager
def no_service_starts(policy: Path = Path("/usr/sbin/policy-rc.d")) -> Iterator[None]:
    """Keep packages from starting their servers: tests start their own. A policy that the machine has is left alone."""
    try:
        with open(policy, "x") as file:
            file.write("#!/bin/sh\n# By .ci/needs.py of azure_maintenance, for its installations only\nexit 101\n")
            os.fchmod(file.fileno(), 0o755)
    except FileExistsError:
        yield
        return
    try:
        yield
    finally:
        policy.unlink()


def install_packages(gates: list[Gate]) -> None:
    """As root on Debian or Ubuntu, install the missing packages of these gates. One that fails does not stop others."""
    missing = missing_packages(gates)
    if not missing or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "install", "--yes", "--no-install-recommends"]
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / "packages.log", "w") as log, no_service_starts():
        subprocess.call(["apt-get", "update"], stdout=log, stderr=log)
        for package in missing:
            print(f"Installing Debian's package {package}", flush=True)
            install = [*apt, package]
            subprocess.call(install, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
