# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checker beside `curl … | jq …`: one minute of idle polling, its peak memory, and one `check --once`.

DESIGN section 9, rows 2, 3 and 5. Needs curl and jq. The program is installed as the role does it, compiled, and
run by the Python of the system, as on a VM.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _cpu import seconds_of_children
from _imds import serve

COLLECTION = Path(__file__).resolve().parents[2]
PROGRAM = COLLECTION / "roles" / "event_checker" / "files" / "azure_maintenance"
PURE_FILES = COLLECTION / "plugins" / "module_utils"
LAUNCHER = COLLECTION / "roles" / "event_checker" / "templates" / "azure-maintenance.j2"
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
SECONDS = 60
ROUNDS = 15
LIMIT_IDLE = 0.055
LIMIT_MEMORY = 20.0
LIMIT_ONCE = 2.0
BODY = b'{"DocumentIncarnation":1,"Events":[]}'


def install_program(root: Path, endpoint: str) -> list[str]:
    """Install the program and a configuration for a VM without events, and return the command that runs it."""
    library = root / "library"
    utils = library / "ansible_collections" / "fleetops" / "azure_maintenance" / "plugins" / "module_utils"
    shutil.copytree(PROGRAM, library / "azure_maintenance", ignore=shutil.ignore_patterns("__pycache__"))
    # As install_library.py makes them
    for folder in (library / "azure_maintenance").iterdir():
        if folder.is_dir():
            (folder / "__init__.py").touch()
    shutil.copytree(PURE_FILES, utils, ignore=shutil.ignore_patterns("__pycache__", "_module"))
    compile_all = [PYTHON, "-m", "compileall", "-q", str(library)]
    subprocess.run(compile_all, check=True)
    rules = [{"name": "Drain", "match": {"event_types": ["Reboot"]}, "on_announced": [{"playbook": "drain.yml"}]}]
    config = root / "config.json"
    config.write_text(json.dumps({"endpoint": endpoint, "timer_interval": SECONDS, "rules": rules}))
    launcher = root / "azure-maintenance"
    # The first line is the template's own.
    text = LAUNCHER.read_text().partition("\n")[2].replace("{{ __event_checker_library }}", str(library))
    paths = (config, root, root / "state", root / "run", root, root / "marks", root / "marks-in-memory")
    folders = f"system.Folders({', '.join(repr(str(path)) for path in paths)})"
    text = text.replace("from azure_maintenance.", "from azure_maintenance import system\nfrom azure_maintenance.")
    text = text.replace("import sys\n", f"import sys\n{TELL_STATUS.format(path=str(root / 'status'))}", 1)
    launcher.write_text(text.replace("sys.exit(main())", f"sys.exit(main(folders={folders}))"))
    return [PYTHON, "-IS", str(launcher), "check"]


# What the kernel tells of a child that has ended includes the memory of the parent it was forked from.
TELL_STATUS = """
import atexit
atexit.register(lambda: open({path!r}, "w").write(open("/proc/self/status").read()))
"""


def cpu_seconds(command: list[str]) -> float:
    return seconds_of_children(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


def peak_memory(status: Path) -> float:
    """Return the MiB that a process had at most, as it told in this file when it ended."""
    (kibibytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
    return int(kibibytes) / 1024


def main() -> int:
    missing = [name for name in ("curl", "jq") if shutil.which(name) is None]
    if missing:
        sys.exit(f"bench_checker: {' and '.join(missing)} must be installed to compare with.")
    endpoint = serve(BODY)
    url = f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01"
    ask = f"curl --silent --noproxy '*' --header Metadata:true '{url}' | jq --raw-output '.Events[] | .EventId'"
    pipeline = ["sh", "-c", ask]
    with tempfile.TemporaryDirectory() as folder:
        check = install_program(Path(folder), endpoint)
        cpu_seconds([*check, "--once"])
        once = [(cpu_seconds([*check, "--once"]), cpu_seconds(pipeline)) for _round in range(ROUNDS)]
        once_check, once_pipeline = (statistics.median(each) for each in zip(*once))
        idle_check = cpu_seconds(check)
        memory = peak_memory(Path(folder, "status"))
        idle_pipeline = 0.0
        begun = time.monotonic()
        for number in range(SECONDS):
            time.sleep(max(0.0, begun + number - time.monotonic()))
            idle_pipeline += cpu_seconds(pipeline)

    print(f"\nThe checker, by {PYTHON}, beside curl | jq")
    results = (
        ("one minute idle, CPU", idle_check, idle_pipeline, LIMIT_IDLE),
        ("one check --once, CPU", once_check, once_pipeline, LIMIT_ONCE),
    )
    good = True
    for name, ours, theirs, limit in results:
        ratio = ours / theirs
        good = good and ratio <= limit
        print(f"  {name:22} {ours * 1000:7.1f} ms / {theirs * 1000:7.1f} ms = {ratio:5.3f}  (limit {limit})")
    good = good and memory <= LIMIT_MEMORY
    print(f"  {'peak memory':22} {memory:7.1f} MiB  (limit {LIMIT_MEMORY:g})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
