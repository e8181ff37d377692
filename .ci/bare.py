# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Run commands as a newcomer would: python .ci/bare.py LAB USER COMMAND, such as bare-13 root 'make demo'.

They run in a copy of the current folder, in a container that has only the programs that README requires; its pip knows
the index of this machine, and its apt the proxies.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import lab
from venvs import pip_settings

# As the first command of a newcomer: nothing of the machine is in its environment. Its processes end with it.
SCRIPT = """
set -e
cp -a /checkout ~/azure_maintenance
cd ~/azure_maintenance
git config --global --add safe.directory '*'
exec bash -e -c "$1"
"""


def pip_options(folder: Path) -> list[str]:
    """Return options of podman that give the container the settings of this machine's pip, and the files they name."""
    settings = pip_settings(sys.executable)
    words = [word for value in settings.values() for word in value.split()]
    named = [Path(word) for word in words if word.startswith("/")]
    # An index in a folder has links to the files beside it.
    named += [Path(word.removeprefix("file://")).parent for word in words if word.startswith("file:///")]
    files = sorted({path for path in named if path.exists()})
    configuration = folder / "pip.conf"
    lines = [f"{name} = {' '.join(value.split())}\n" for name, value in settings.items()]
    configuration.write_text("[global]\n" + "".join(lines))
    # The ordinary user of the container reads it too.
    configuration.chmod(0o644)
    return [f"--volume={configuration}:/etc/pip.conf:ro", *(f"--volume={file}:{file}:ro" for file in files)]


def apt_options(folder: Path) -> list[str]:
    """Return options of podman that give the container the proxies of this machine's apt."""
    proxies = re.compile(r"Acquire::https?::Proxy(::\S+)? ", re.IGNORECASE)
    configuration = folder / "proxies.conf"
    dumped = lab.ask("apt-config", "dump").splitlines()
    configuration.write_text("".join(f"{line}\n" for line in dumped if proxies.match(line)))
    configuration.chmod(0o644)
    return [f"--volume={configuration}:/etc/apt/apt.conf.d/proxies.conf:ro"]


def main() -> int:
    name, user, command = sys.argv[1:]
    # An address of an index may carry a password, so nobody else of this machine may enter the folder.
    with tempfile.TemporaryDirectory() as folder:
        run = ["podman", "run", "--rm", "--init", "--privileged", "--network=host", f"--user={user}", "--shm-size=1g"]
        run += [
            "--env=PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            f"--env=HOME={'/root' if user == 'root' else f'/home/{user}'}",
        ]
        if user == "root":
            # Where this variable is set, a package that cannot be installed is a failure.
            run.append("--env=PROGRAMS_REQUIRED")
        run += [f"--volume={os.getcwd()}:/checkout:ro", *pip_options(Path(folder)), *apt_options(Path(folder))]
        return subprocess.call([*run, lab.DEBIANS[name].image, "bash", "-c", SCRIPT, "bash", command])


if __name__ == "__main__":
    sys.exit(main())
