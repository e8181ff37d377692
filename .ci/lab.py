# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Prepare the VM lab: podman, the images from which the scenarios of extensions/molecule/ make VMs, and bare machines.

Without an argument: install and build the missing parts for VMs with Debian 12, then start one to test it. With
--all: the same for every Debian of the lab, and the bare machines. With --check [DEBIAN]: say whether that was done for
this one, such as 11. With --remove: remove the VMs and networks that runs in this checkout left
behind, but not the images, which all checkouts of a machine share.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from venvs import LOGS, ROOT, make_venv, newest_core

PARTS = ROOT / ".ci" / "lab"
CONTAINERS_CONF = PARTS / "containers.conf"
COLLECTIONS = ROOT / "build" / "molecule"
LABEL = "azure-maintenance-vm"
PACKAGES = ["podman", "runc", "netavark", "aardvark-dns", "iptables", "nftables", "iproute2", "debootstrap"]
PACKAGES += ["catatonit"]  # podman run --init


class Debian(NamedTuple):
    """A release of Debian that VMs have. extensions/molecule/inventory.yml knows the names of the images too."""

    codename: str
    python: str = ""
    core: str = ""
    """The ansible-core that pip finds on the VMs; a machine without one is bare (.ci/bare.py), and no VM."""
    requirements: str = "core.txt"
    """The packages that it brings along: a file in requirements/."""

    @property
    def name(self) -> str:
        return self.codename if self.core else f"bare-{self.codename}"

    @property
    def image(self) -> str:
        return f"localhost/azure-maintenance-vm:{self.name}"

    @property
    def log(self) -> Path:
        return LOGS / f"lab-{self.name}.log"

    @property
    def script(self) -> Path:
        return PARTS / ("image.sh" if self.core else "bare.sh")


DEBIANS = {
    "11": Debian("bullseye", "3.9.2", "2.15.13", "core-2.15.txt"),
    "12": Debian("bookworm", "3.11", "2.19.14"),
    "13": Debian("trixie", "3.13", "2.21.5"),
    "bare-12": Debian("bookworm"),
    "bare-13": Debian("trixie"),
}
# The variable LAB_DEBIAN tells the scenarios which one the VMs have.
USUAL = "12"


class CannotRun(Exception):
    """The lab cannot run here. The message is a sentence that says why."""


def run(log: Path, *command: str | Path, **variables: str) -> None:
    """Run this command, which must succeed, and keep its output in this log."""
    environment = {**os.environ, "CONTAINERS_CONF": str(CONTAINERS_CONF), **variables}
    with open(log, "a") as output:
        if subprocess.call(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment) != 0:
            lines = log.read_text(errors="replace").splitlines()
            said = f"The VM lab cannot run: `{' '.join(map(str, command))}` failed."
            raise CannotRun("\n".join([*lines[-20:], said]))


def ask(*command: str) -> str:
    """Return the output of this command, or nothing when it fails or does not exist."""
    if not shutil.which(command[0]):
        return ""
    environment = {**os.environ, "CONTAINERS_CONF": str(CONTAINERS_CONF)}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def wheels(debian: Debian) -> Path:
    return ROOT / "requirements" / debian.requirements


def definition(debian: Debian) -> str:
    """Return the hash of the description of an image in this checkout."""
    described = [debian.script.read_bytes(), repr(debian).encode()]
    if debian.core:
        described.append(wheels(debian).read_bytes())
    return hashlib.sha256(b"".join(described)).hexdigest()


def image_stands(debian: Debian) -> bool:
    label = f'{{{{index .Labels "{LABEL}"}}}}'
    return ask("podman", "image", "inspect", "--format", label, debian.image) == definition(debian)


def missing_packages() -> list[str]:
    listing = ask("dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n")
    return [package for package in PACKAGES if f"{package} installed" not in listing.splitlines()]


def check_machine() -> None:
    """Raise CannotRun where no lab can be prepared."""
    release = Path("/etc/os-release")
    lines = release.read_text().splitlines() if release.exists() else []
    if "ID=debian" not in lines:
        name = next((line.split("=", 1)[1].strip('"') for line in lines if line.startswith("PRETTY_NAME=")), "another")
        raise CannotRun(f"The VM lab needs a Debian machine, and this one is {name}.")
    if os.geteuid() != 0:
        raise CannotRun("The VM lab needs root: it runs podman with systemd and makes network namespaces.")


def check(debian: str = USUAL) -> None:
    """Raise CannotRun where the lab does not stand for VMs with this Debian, such as "12"."""
    check_machine()
    command = "make lab" if debian == USUAL else "make lab-all"
    missing = missing_packages()
    if missing:
        raise CannotRun(f"The VM lab has not been prepared, {', '.join(missing)} not installed: run `{command}`.")
    if not image_stands(DEBIANS[debian]):
        said = f"its image of Debian {debian} is missing or out of date"
        raise CannotRun(f"The VM lab has not been prepared, {said}: run `{command}`.")


def mirror() -> str:
    """Return the address from which this machine's apt takes Debian itself."""
    targets = ask("apt-get", "indextargets", "--format", "$(REPO_URI) $(BASE_URI) $(COMPONENT)", "Created-By: Packages")
    codename = ask("sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME")
    for line in targets.splitlines():
        repository, base, component = line.split()
        if component == "main" and base.endswith(f"/dists/{codename}/"):
            return repository
    return "http://deb.debian.org/debian/"


def build_image(debian: Debian) -> None:
    """Replace the image by a new one."""
    disk = ROOT / "build" / f"lab-{debian.name}"
    shutil.rmtree(disk, ignore_errors=True)
    disk.mkdir(mode=0o755, parents=True)
    # debootstrap knows no settings of apt
    proxy = ask("sh", "-c", 'eval "$(apt-config shell proxy Acquire::http::Proxy)" && echo "$proxy"')
    python = make_venv(f"core-{newest_core()}") / "python"
    pip = [python, "-m", "pip", "download", "--no-deps", f"--python-version={debian.python}", "--only-binary=:all:"]
    try:
        run(debian.log, debian.script, disk, debian.codename, mirror(), **({"http_proxy": proxy} if proxy else {}))
        if debian.core:
            wanted = ["--requirement", wheels(debian), f"ansible-core=={debian.core}"]
            run(debian.log, *pip, *wanted, "--dest", disk / "opt" / "packages")
        archive = disk.with_suffix(".tar")
        run(debian.log, "tar", "--create", "--file", archive, "--directory", disk, ".")
        run(debian.log, "podman", "import", "--change", f"LABEL {LABEL}={definition(debian)}", archive, debian.image)
        archive.unlink()
    finally:
        shutil.rmtree(disk, ignore_errors=True)


def try_vm(debian: Debian) -> None:
    """Start a VM and see that systemd comes up in it."""
    name = f"azm-try-{uuid.uuid4().hex[:8]}"
    start = ["podman", "run", "--detach", "--name", name, "--network=none", "--systemd=always"]
    try:
        run(debian.log, *start, debian.image, "/sbin/init")
        state = ""
        # A limit for a VM that hangs, not a judgement
        limit = time.monotonic() + 600
        while state != "running" and time.monotonic() < limit:
            time.sleep(0.2)
            state = ask("podman", "exec", name, "systemctl", "is-system-running")
        if state != "running":
            raise CannotRun(f"The VM lab cannot run: systemd did not come up in a VM with {debian.codename}.")
    finally:
        ask("podman", "rm", "--force", "--time=0", name)


def prepare(wanted: list[Debian]) -> None:
    check_machine()
    LOGS.mkdir(parents=True, exist_ok=True)
    for debian in wanted:
        debian.log.write_text("")
    with open("/run/lock/azure-maintenance-lab", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = missing_packages()
        if missing:
            print(f"Installing {' '.join(missing)}", flush=True)
            install = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
            run(wanted[0].log, "apt-get", "update")
            run(wanted[0].log, *install, DEBIAN_FRONTEND="noninteractive")
        old = [debian for debian in wanted if not image_stands(debian)]
        if old:
            names = ", ".join(debian.name for debian in old)
            print(f"Building the images of the lab, which takes some minutes: {names}", flush=True)
            # Most of it is waiting for the mirror.
            with ThreadPoolExecutor(len(old)) as pool:
                list(pool.map(build_image, old))
            ask("podman", "image", "prune", "--force", "--filter", f"label={LABEL}")
        for debian in wanted:
            if debian.core:
                try_vm(debian)
    print(f"The VM lab stands: {' '.join(debian.image for debian in wanted)}")


def remove() -> None:
    # Each gate that makes VMs has a folder of its own.
    for collections in (ROOT / "build").glob("molecule*"):
        tree = collections / "ansible_collections" / "fleetops" / "azure_maintenance"
        prefix = f"azm-{hashlib.sha1(str(tree).encode()).hexdigest()[:8]}-"
        for name in ask("podman", "ps", "--all", "--format", "{{.Names}}", "--filter", f"name=^{prefix}").split():
            ask("podman", "rm", "--force", "--time=0", name)
        for line in ask("ip", "netns", "list").splitlines():
            if line.startswith(prefix):
                ask("ip", "netns", "delete", line.split()[0])


def main() -> int:
    actions: dict[tuple[str, ...], Callable[[], None]] = {
        (): lambda: prepare([DEBIANS[USUAL]]),
        ("--all",): lambda: prepare(list(DEBIANS.values())),
        ("--check",): check,
        **{("--check", debian): partial(check, debian) for debian in DEBIANS},
        ("--remove",): remove,
    }
    action = actions.get(tuple(sys.argv[1:]))
    if action is None:
        sys.exit(__doc__)
    try:
        action()
    except CannotRun as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
