# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Prepare the VM lab: podman and the image from which the scenarios of extensions/molecule/ make VMs.

Without an argument: install and build what is missing, then start a VM to see that it runs. With --check: say whether
that was done. With --remove: remove the VMs and networks that a run in this checkout left behind, but not the image,
which all checkouts of a machine share.
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
from pathlib import Path

from venvs import LOGS, ROOT, make_venv

PARTS = ROOT / ".ci" / "lab"
CONTAINERS_CONF = PARTS / "containers.conf"
IMAGE_SCRIPT = PARTS / "image.sh"
# What pip finds on the VMs
WHEELS = ROOT / "requirements" / "core-2.19.txt"
COLLECTIONS = ROOT / "build" / "molecule"
IMAGE = "localhost/azure-maintenance-vm:bookworm"
LABEL = "azure-maintenance-vm"
DISK = ROOT / "build" / "lab"
LOG = LOGS / "lab.log"
PACKAGES = ["podman", "runc", "netavark", "aardvark-dns", "iptables", "nftables", "iproute2", "debootstrap"]


class CannotRun(Exception):
    """The lab cannot run here. The message is a sentence that says why."""


def run(*command: str | Path, **variables: str) -> None:
    """Run this command, which must succeed, and keep what it prints in the log."""
    environment = {**os.environ, "CONTAINERS_CONF": str(CONTAINERS_CONF), **variables}
    with open(LOG, "a") as log:
        if subprocess.call(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment) != 0:
            lines = LOG.read_text(errors="replace").splitlines()
            said = f"The VM lab cannot run: `{' '.join(map(str, command))}` failed."
            raise CannotRun("\n".join([*lines[-20:], said]))


def ask(*command: str) -> str:
    """Return what this command prints, or nothing when it fails or does not exist."""
    if not shutil.which(command[0]):
        return ""
    environment = {**os.environ, "CONTAINERS_CONF": str(CONTAINERS_CONF)}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def definition() -> str:
    """Return what tells whether an image is the one that this checkout describes."""
    return hashlib.sha256(IMAGE_SCRIPT.read_bytes() + WHEELS.read_bytes()).hexdigest()


def image_stands() -> bool:
    return ask("podman", "image", "inspect", "--format", f'{{{{index .Labels "{LABEL}"}}}}', IMAGE) == definition()


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


def check() -> None:
    """Raise CannotRun where the lab does not stand."""
    check_machine()
    missing = missing_packages()
    if missing:
        raise CannotRun(f"The VM lab has not been prepared, {', '.join(missing)} not installed: run `make lab`.")
    if not image_stands():
        raise CannotRun("The VM lab has not been prepared, its image is missing or out of date: run `make lab`.")


def mirror() -> str:
    """Return the address from which this machine's apt takes Debian itself."""
    targets = ask("apt-get", "indextargets", "--format", "$(REPO_URI) $(BASE_URI) $(COMPONENT)", "Created-By: Packages")
    codename = ask("sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME")
    for line in targets.splitlines():
        repository, base, component = line.split()
        if component == "main" and base.endswith(f"/dists/{codename}/"):
            return repository
    return "http://deb.debian.org/debian/"


def build_image() -> None:
    """Make the image anew, at the price of two or three minutes."""
    print("Building the image of the VMs; this takes some minutes", flush=True)
    shutil.rmtree(DISK, ignore_errors=True)
    DISK.parent.mkdir(parents=True, exist_ok=True)
    DISK.mkdir(mode=0o755)
    # debootstrap knows no settings of apt
    proxy = ask("sh", "-c", 'eval "$(apt-config shell proxy Acquire::http::Proxy)" && echo "$proxy"')
    python = make_venv("core-2.19") / "python"
    pip = [python, "-m", "pip", "download", "--python-version=3.11", "--only-binary=:all:", "--requirement", WHEELS]
    try:
        run(IMAGE_SCRIPT, DISK, mirror(), **({"http_proxy": proxy} if proxy else {}))
        run(*pip, "--dest", DISK / "opt" / "packages")
        archive = DISK.with_suffix(".tar")
        run("tar", "--create", "--file", archive, "--directory", DISK, ".")
        run("podman", "import", "--change", f"LABEL {LABEL}={definition()}", archive, IMAGE)
        archive.unlink()
    finally:
        shutil.rmtree(DISK, ignore_errors=True)
    run("podman", "image", "prune", "--force", "--filter", f"label={LABEL}")


def try_vm() -> None:
    """Start a VM and see that systemd comes up in it."""
    name = f"azm-try-{uuid.uuid4().hex[:8]}"
    try:
        run("podman", "run", "--detach", "--name", name, "--network=none", "--systemd=always", IMAGE, "/sbin/init")
        state = ""
        limit = time.monotonic() + 60
        while state != "running" and time.monotonic() < limit:
            time.sleep(0.2)
            state = ask("podman", "exec", name, "systemctl", "is-system-running")
        if state != "running":
            raise CannotRun(f"The VM lab cannot run: systemd did not come up in a VM within a minute; see {LOG}.")
    finally:
        ask("podman", "rm", "--force", "--time=0", name)


def prepare() -> None:
    check_machine()
    LOGS.mkdir(parents=True, exist_ok=True)
    LOG.write_text("")
    with open("/run/lock/azure-maintenance-lab", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = missing_packages()
        if missing:
            print(f"Installing {' '.join(missing)}", flush=True)
            run("apt-get", "update")
            run("apt-get", "install", "--yes", "--no-install-recommends", *missing, DEBIAN_FRONTEND="noninteractive")
        if not image_stands():
            build_image()
        try_vm()
    print(f"The VM lab stands: {IMAGE}")


def remove() -> None:
    tree = COLLECTIONS / "ansible_collections" / "fleetops" / "azure_maintenance"
    prefix = f"azm-{hashlib.sha1(str(tree).encode()).hexdigest()[:8]}-"
    for name in ask("podman", "ps", "--all", "--format", "{{.Names}}", "--filter", f"name=^{prefix}").split():
        ask("podman", "rm", "--force", "--time=0", name)
    for line in ask("ip", "netns", "list").splitlines():
        if line.startswith(prefix):
            ask("ip", "netns", "delete", line.split()[0])


def main() -> int:
    actions = {(): prepare, ("--check",): check, ("--remove",): remove}
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
