# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Prepare the VM lab: podman, the images from which the scenarios of extensions/molecule/ make VMs, and bare machines.

Without an argument: install and build the missing parts for VMs with Debian 12, then start one to test it. With --all:
the same for every Debian of the lab, and the bare machines. With --check: say whether Debian 12 lacks any of that. With
--remove: remove the VMs and networks that runs in this checkout left behind, but not the images, which all checkouts
share. With --bare MACHINE USER COMMAND, such as bare-13 root 'make demo': run it as a newcomer would, where only what
README requires is installed; pip knows the index of the gates there, and apt the proxies of this machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, NoReturn

from needs import PACKAGES_LOG, install_packages, missing_packages
from venvs import BUILD, LOGS, ROOT, TABLE, make_newest

PARTS = ROOT / ".ci" / "lab"
# For each podman of this process and of those that it starts
os.environ["CONTAINERS_CONF"] = str(PARTS / "containers.conf")
LABEL = "azure-maintenance-vm"
PROXY = re.compile(r"Acquire::https?::Proxy(::\S+)? ", re.IGNORECASE)
# As the first command of a newcomer: nothing of the machine is in its environment. Its processes end with it.
SCRIPT = """
set -e
cp -a /checkout ~/azure_maintenance
cd ~/azure_maintenance
git config --global --add safe.directory '*'
exec bash -e -c "$1"
"""
PACKAGES: list[str] = TABLE["lab"]["packages"]


class Debian(NamedTuple):
    """A release of Debian that VMs have. extensions/molecule/inventory.yml knows the names of the images too."""

    codename: str
    python: str = ""
    core: str = ""
    """The ansible-core that pip finds on the VMs; a machine without one is bare (--bare), and no VM."""
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

    @property
    def wheels(self) -> Path:
        return ROOT / "requirements" / self.requirements

    @property
    def definition(self) -> str:
        """The hash of the description of the image in this checkout."""
        described = self.script.read_bytes() + repr(self).encode()
        return hashlib.sha256(described + (self.wheels.read_bytes() if self.core else b"")).hexdigest()

    @property
    def stands(self) -> bool:
        label = f'{{{{index .Labels "{LABEL}"}}}}'
        return ask("podman", "image", "inspect", "--format", label, self.image) == self.definition


DEBIANS = {name: Debian(**entry) for name, entry in TABLE["lab"]["debians"].items()}
# The variable LAB_DEBIAN tells the scenarios which one the VMs have.
USUAL = "12"


def fail(log: Path, said: str) -> NoReturn:
    """Exit with the end of this log, and say that the lab cannot run."""
    lines = log.read_text(errors="replace").splitlines()
    sys.exit("\n".join([*lines[-20:], f"The VM lab cannot run: {said}."]))


def run(log: Path, *command: str | Path) -> None:
    """Run this command, which must succeed, and keep its output in this log."""
    with open(log, "a") as output:
        if subprocess.call(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) != 0:
            fail(log, f"`{' '.join(map(str, command))}` failed")


def ask(*command: str) -> str:
    """Return the output of this command, or nothing when it fails or does not exist."""
    if not shutil.which(command[0]):
        return ""
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def why_not_here() -> str:
    """Return why no lab can be prepared on this machine, or nothing where one can."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    if release.get("ID") != "debian":
        return f"The VM lab needs a Debian machine, and this one is {release.get('PRETTY_NAME', 'another')}."
    if os.geteuid() != 0:
        return "The VM lab needs root: it runs podman with systemd and makes network namespaces."
    return ""


def why_not(debian: str) -> str:
    """Return why the lab does not stand for VMs with this Debian, such as "12", or nothing where it does."""
    missing = missing_packages(PACKAGES)
    if why_not_here():
        return why_not_here()
    if not missing and DEBIANS[debian].stands:
        return ""
    said = (
        f"{', '.join(missing)} not installed" if missing else f"its image of Debian {debian} is missing or out of date"
    )
    return f"The VM lab has not been prepared, {said}: run `{'make lab' if debian == USUAL else 'make lab-all'}`."


def mirror() -> str:
    """Return the address from which this machine's apt takes Debian itself."""
    codename = platform.freedesktop_os_release()["VERSION_CODENAME"]
    wanted = ("Created-By: Packages", "Component: main", f"Codename: {codename}")
    found = ask("apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted)
    return found.splitlines()[0] if found else "http://deb.debian.org/debian/"


def build_image(debian: Debian, python: Path) -> None:
    """Replace the image by a new one. The pip of this Python fetches what the VMs have."""
    disk = BUILD / f"lab-{debian.name}"
    shutil.rmtree(disk, ignore_errors=True)
    disk.mkdir(mode=0o755, parents=True)
    # debootstrap knows no settings of apt
    address = ask("sh", "-c", 'eval "$(apt-config shell proxy Acquire::http::Proxy)" && echo "$proxy"')
    proxy = ["env", f"http_proxy={address}"] if address else []
    pip = [python, "-m", "pip", "download", "--no-deps", f"--python-version={debian.python}", "--only-binary=:all:"]
    try:
        run(debian.log, *proxy, debian.script, disk, debian.codename, mirror())
        if debian.core:
            wanted = ["--requirement", debian.wheels, f"ansible-core=={debian.core}"]
            run(debian.log, *pip, *wanted, "--dest", disk / "opt" / "packages")
        archive = disk.with_suffix(".tar")
        run(debian.log, "tar", "--create", "--file", archive, "--directory", disk, ".")
        run(debian.log, "podman", "import", "--change", f"LABEL {LABEL}={debian.definition}", archive, debian.image)
        archive.unlink()
    finally:
        shutil.rmtree(disk, ignore_errors=True)


def try_vm(debian: Debian) -> None:
    """Start a VM and see that systemd comes up in it."""
    name = f"azm-try-{uuid.uuid4().hex[:8]}"
    start = ["podman", "run", "--detach", "--name", name, "--network=none", "--systemd=always"]
    try:
        run(debian.log, *start, debian.image, "/sbin/init")
        up = f"until podman exec {name} systemctl is-system-running; do sleep 0.2; done"
        # A limit for a VM that hangs, not a judgement
        run(debian.log, "timeout", "600", "sh", "-c", up)
    finally:
        ask("podman", "rm", "--force", "--time=0", name)


def prepare(wanted: list[Debian]) -> None:
    if why_not_here():
        sys.exit(why_not_here())
    LOGS.mkdir(parents=True, exist_ok=True)
    for debian in wanted:
        debian.log.write_text("")
    with open("/run/lock/azure-maintenance-lab", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install_packages(PACKAGES)
        missing = missing_packages(PACKAGES)
        if missing:
            fail(PACKAGES_LOG, f"{', '.join(missing)} cannot be installed")
        old = [debian for debian in wanted if not debian.stands]
        if old:
            names = ", ".join(debian.name for debian in old)
            print(f"Building the images of the lab, which takes some minutes: {names}", flush=True)
            python = make_newest() / "python"
            # Most of it is waiting for the mirror.
            with ThreadPoolExecutor(len(old)) as pool:
                list(pool.map(lambda debian: build_image(debian, python), old))
            ask("podman", "image", "prune", "--force", "--filter", f"label={LABEL}")
        for debian in wanted:
            if debian.core:
                try_vm(debian)
    print(f"The VM lab stands: {' '.join(debian.image for debian in wanted)}")


def volumes(proxies: Path) -> dict[Path, str]:
    """Return the files and folders of this machine that the container has, and their places there."""
    pip = Path.home() / ".config" / "pip" / "pip.conf"
    words = [word for line in pip.read_text().splitlines() for word in line.partition(" = ")[2].split()]
    named = [Path(word) for word in words if word.startswith("/")]
    # An index in a folder has links to the files beside it.
    named += [Path(word.removeprefix("file://")).parent for word in words if word.startswith("file:///")]
    return {
        Path.cwd(): "/checkout",
        pip: "/etc/pip.conf",
        proxies: "/etc/apt/apt.conf.d/proxies.conf",
        **{path: str(path) for path in named if path.exists()},
    }


def run_bare(name: str, user: str, command: str) -> int:
    """Run a command as a newcomer would, in a copy of the current folder, and return its exit status."""
    home = "/root" if user == "root" else f"/home/{user}"
    podman = ["podman", "run", "--rm", "--init", "--privileged", "--network=host", f"--user={user}", "--shm-size=1g"]
    podman += ["--env=PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"--env=HOME={home}"]
    if user == "root":
        # Where this variable is set, a package that cannot be installed is a failure.
        podman.append("--env=PROGRAMS_REQUIRED")
    # An address of a proxy may carry a password, so nobody else of this machine may enter the folder.
    with tempfile.TemporaryDirectory() as folder:
        proxies = Path(folder) / "proxies.conf"
        lines = ask("apt-config", "dump").splitlines()
        proxies.write_text("".join(f"{line}\n" for line in lines if PROXY.match(line)))
        podman += [f"--volume={path}:{place}:ro" for path, place in volumes(proxies).items()]
        return subprocess.call([*podman, DEBIANS[name].image, "bash", "-c", SCRIPT, "bash", command])


def remove() -> None:
    # Each gate that makes VMs has a folder of its own.
    for collections in BUILD.glob("molecule*"):
        tree = collections / "ansible_collections" / "fleetops" / "azure_maintenance"
        prefix = f"azm-{hashlib.sha1(str(tree).encode()).hexdigest()[:8]}-"
        for name in ask("podman", "ps", "--all", "--format", "{{.Names}}", "--filter", f"name=^{prefix}").split():
            ask("podman", "rm", "--force", "--time=0", name)
        for line in ask("ip", "netns", "list").splitlines():
            if line.startswith(prefix):
                ask("ip", "netns", "delete", line.split()[0])


if __name__ == "__main__":
    ACTIONS = {
        "": lambda: prepare([DEBIANS[USUAL]]),
        "--all": lambda: prepare(list(DEBIANS.values())),
        "--check": lambda: sys.exit(why_not(USUAL) or 0),
        "--remove": remove,
    }
    if sys.argv[1:2] == ["--bare"] and len(sys.argv) == 5:
        sys.exit(run_bare(*sys.argv[2:]))
    ACTIONS.get(" ".join(sys.argv[1:]), lambda: sys.exit(__doc__))()
