# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Run the gates that the arguments name (lint and test stand for many), each in a fresh copy of the checkout.

A gate has passed when all its commands end with status 0. What they print goes to build/logs/GATE.log and is shown when
the gate fails; of a gate that passes only the lines are shown that say what was counted, left out or warned about.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import lab
from tree import COLLECTIONS, make_tree
from venvs import LOGS, ROOT, VENVS, clean_environment, find_python, make_venv, pip_settings

HOME = ROOT / "build" / "home"
PYTHONS = ROOT / "build" / "pythons"
ARTIFACTS = ROOT / "build" / "artifacts"
# Two runs of ansible-test at once get into each other's way, and it writes into the tree while others may read it.
ANSIBLE_TEST_COLLECTIONS = ROOT / "build" / "ansible-test"
# Set where a lab that does not stand is a failure
LAB_REQUIRED = "LAB_REQUIRED"

LEFT_OUT = re.compile(r"SKIPPED |WARNING: Skipping |WARNING .*Missing playbook")
SHOWN = re.compile(
    r"=+ .*\d (passed|failed|skipped|errors?)\b.* =+$"
    r"|SKIPPED "
    r"|Running \S+ integration test role$"
    r"|WARNING: (?!Using locale|Reviewing previous|Location |Retrying )"
    r"|WARNING .*Missing playbook"
    r"|\S+ +: actions="
)
# What of a failed gate is said again beside its name: a build server may show no more than the surroundings of that.
REASON = re.compile(r"(fatal|failed): \[|E   |FAILED |ERROR")


class Gate(NamedTuple):
    """Something that must succeed before a change is good."""

    name: str
    venvs: list[str]
    """Those that must be there. The first gives the programs."""
    commands: list[list[str]]
    collections: Path = COLLECTIONS
    """Where the tree is that it works in. Gates with the same one run one after the other, beside all others."""


def every_gate(tree: Path) -> dict[str, list[Gate]]:
    """Return what each target of make runs on this tree, besides what the targets before it run."""
    changelog = ["antsibull-changelog", "lint"]
    docs = ["antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs", "all"]
    docs += ["--check-extra-docs-refs", "."]
    sanity = ["ansible-test", "sanity", "--color", "no", "--local", "--python", "default"]
    integration = ["ansible-test", "integration", "--color", "no", "--continue-on-error"]
    integration += ["--controller", "origin:python=default", "--target"]
    pytest = ["python", "-m", "pytest", "--color", "no"]
    # What runs on a VM and knows nothing of Ansible
    targets = ["tests/unit/plugins/module_utils", "tests/unit/roles"]

    build = ["ansible-galaxy", "collection", "build", "--force", "--output-path", str(ARTIFACTS)]
    version = re.search(r"^version: (\S+)$", (tree / "galaxy.yml").read_text(), re.MULTILINE).group(1)
    artifact = str(ARTIFACTS / f"fleetops-azure_maintenance-{version}.tar.gz")

    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and tree / ".git" not in path.parents]
    # ansible-test knows a shell script only by the ending .sh.
    shell_scripts = [str(path) for path in files if re.match(rb"#!.*\b(ba|da)?sh\b", path.read_bytes())]
    # ansible-test leaves out pslint where there is no pwsh, which is right as long as pslint has nothing to do.
    powershell = " ".join(str(path) for path in files if path.suffix in (".ps1", ".psm1", ".psd1"))

    lint = [
        Gate("ruff", ["lint"], [["ruff", "check", "--no-cache"], ["ruff", "format", "--no-cache", "--diff"]]),
        Gate("mypy", ["lint"], [["mypy"]]),
        Gate("yamllint", ["lint"], [["yamllint", "--strict", "."]]),
        Gate("shellcheck", ["lint"], [["shellcheck", *shell_scripts]]),
        Gate("no-powershell", ["lint"], [["test", "-z", powershell]]),
        Gate("ansible-lint", ["lint"], [["ansible-lint", "--offline", "--nocolor"]]),
        Gate("antsibull-docs", ["lint"], [docs]),
        Gate("antsibull-changelog", ["lint"], [changelog]),
        Gate("galaxy-importer", ["galaxy-importer"], [build, ["python", "-m", "galaxy_importer.main", artifact]]),
        Gate("sanity-2.19", ["core-2.19", "lint"], [sanity], ANSIBLE_TEST_COLLECTIONS),
        # pylint takes most of the time, and says the same under 2.19.
        Gate("sanity-2.16", ["core-2.16", "lint"], [[*sanity, "--skip-test", "pylint"]], ANSIBLE_TEST_COLLECTIONS),
    ]
    runbooks = ["tests/end_to_end/test_runbook_haproxy.py", "tests/end_to_end/test_runbook_postgresql.py"]
    # What takes minutes and is about a browser, numbers or our words, not about a version of Ansible, or is a target of
    # integration too
    once = [
        "tests/end_to_end/test_event_response.py::test_a_hundred_hosts_of_which_fifty_are_in_ten_events",
        "tests/end_to_end/test_fleet_report_page.py",
        "tests/end_to_end/test_guides.py",
        "tests/end_to_end/test_imds_simulator_role.py",
    ]
    end_to_end = [*pytest, "tests/end_to_end", *(f"--deselect={name}" for name in runbooks)]
    # What each lane costs is about the same, so that two cores are busy to the end.
    newest, oldest = (ROOT / "build" / f"end-to-end-{core}" for core in ("2.19", "2.16"))
    test = [
        Gate("unit-2.19", ["core-2.19"], [pytest]),
        Gate("unit-2.16", ["core-2.16"], [[*pytest, *(f"--ignore={folder}" for folder in targets)]]),
        Gate("unit-python3.8", ["target-3.8"], [[*pytest, *targets]]),
        Gate("unit-python3.13", ["target-3.13"], [[*pytest, *targets]]),
        Gate("end-to-end-2.19", ["core-2.19"], [end_to_end], newest),
        Gate("end-to-end-2.16", ["core-2.16"], [[*end_to_end, *(f"--deselect={name}" for name in once)]], oldest),
        Gate("runbooks", ["core-2.19"], [[*pytest, *runbooks]], oldest),
        Gate("molecule", ["molecule"], [["molecule", "test", "--all"]], lab.COLLECTIONS),
        Gate("awx", ["awx"], [[*pytest, "tests/awx"]], lab.COLLECTIONS),
        Gate("eda", ["eda"], [[*pytest, "tests/eda"]], lab.COLLECTIONS),
    ]
    # The oldest ansible-core with the oldest Python of a target, and the newest with the newest
    for core, python in (("2.16", "3.8"), ("2.19", "3.13")):
        interpreter = ROOT / ".venv" / f"target-{python}" / "bin" / "python"
        command = [*integration, f"controller:python={python}@{interpreter}"]
        venvs = [f"core-{core}", f"target-{python}"]
        test.append(Gate(f"integration-{core}-python{python}", venvs, [command], ANSIBLE_TEST_COLLECTIONS))
    return {"lint": lint, "test": test}


def prepare_home(programs: Path) -> None:
    """Make the home folder of the gates.

    ansible-test keeps its virtual environments there, and two that share them get into each other's way. It runs pip
    without the variables of the environment that say where pip finds its packages, so they are written down as a file.
    """
    cache = HOME / ".ansible" / "test" / "cache"
    settings = HOME / ".config" / "pip" / "pip.conf"
    for folder in (cache, settings.parent):
        folder.mkdir(parents=True, exist_ok=True)
    for pip in ("24_2", "23_1_2"):  # what ansible-test 2.19 and 2.16 ask for
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


def environment(folders: list[Path], collections: Path) -> dict[str, str]:
    """Return the environment of a gate that finds its programs in these folders, and the collection in that one."""
    env = clean_environment()
    rest = [folder for folder in env["PATH"].split(":") if Path(folder).name != "shims"]
    env["PATH"] = ":".join([*map(str, folders), str(PYTHONS), *rest])
    env["HOME"] = str(HOME)
    env["LC_ALL"] = "C.UTF-8"
    env["NO_COLOR"] = "1"
    env["ANSIBLE_COLLECTIONS_PATH"] = str(collections)
    env["CONTAINERS_CONF"] = str(lab.CONTAINERS_CONF)
    # Where nothing listens: a forgotten endpoint must not reach 169.254.169.254, a real service on some networks.
    env["AZURE_IMDS_ENDPOINT"] = "http://127.0.0.1:9"
    env.setdefault("AZURE_MAINTENANCE_SAMPLES", str(ROOT.parent / "shared" / "samples"))
    return env


def why_no_lab() -> str:
    """Return why the VM lab does not stand, or nothing where it does."""
    try:
        lab.check()
    except lab.CannotRun as problem:
        return str(problem)
    return ""


def run(gate: Gate, tree: Path, env: dict[str, str]) -> tuple[bool, str]:
    """Run the commands of this gate one after the other, until one fails, and return what they printed."""
    log = LOGS / f"{gate.name}.log"
    with open(log, "w") as output:
        passed = all(
            subprocess.call(command, cwd=tree, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output) == 0
            for command in gate.commands
        )
    return passed, log.read_text(errors="replace")


def main() -> int:
    if re.search(r"\s", str(ROOT)):
        sys.exit(f"ansible-test cannot work below a folder with a space in its name: {ROOT}")
    LOGS.mkdir(parents=True, exist_ok=True)
    trees = {COLLECTIONS: make_tree(COLLECTIONS)}
    groups = every_gate(trees[COLLECTIONS])
    groups["test"] = groups["lint"] + groups["test"]
    known = {gate.name: gate for gate in groups["test"]}
    unknown = [name for name in sys.argv[1:] if name not in known and name not in groups]
    if unknown or not sys.argv[1:]:
        sys.exit(f"No such gate: {' '.join(unknown)}\nThere are: {' '.join([*groups, *known])}")
    gates = [gate for name in sys.argv[1:] for gate in (groups.get(name) or [known[name]])]

    results: list[tuple[str, bool, float]] = []
    left_out: list[str] = []
    problem = why_no_lab() if known["molecule"] in gates else ""
    if problem:
        gates.remove(known["molecule"])
        if os.environ.get(LAB_REQUIRED):
            print(f"molecule\n    FAILED: {problem}", flush=True)
            results.append(("molecule", False, 0.0))
        else:
            left_out.append(f"molecule: {problem}")

    wanted = [name for name in VENVS if any(name in gate.venvs for gate in gates)]
    with ThreadPoolExecutor(2) as pool:
        programs = dict(zip(wanted, pool.map(make_venv, wanted)))
    some = next(filter(None, programs.values()), None)
    if some:
        prepare_home(some)
    prepare_pythons()

    lanes: dict[Path, list[Gate]] = {}
    for gate in gates:
        missing = [f"no Python {' or '.join(VENVS[name][1])} was found" for name in gate.venvs if not programs[name]]
        if missing:
            left_out.append(f"{gate.name}: {', '.join(missing)}")
        else:
            lanes.setdefault(gate.collections, []).append(gate)
    for collections in lanes:
        if collections not in trees:
            trees[collections] = make_tree(collections)

    def run_lane(collections: Path) -> None:
        for gate in lanes[collections]:
            start = time.monotonic()
            env = environment([programs[name] for name in gate.venvs], collections)
            passed, printed = run(gate, trees[collections], env)
            seconds = time.monotonic() - start
            shown = dict.fromkeys(line for line in printed.splitlines() if SHOWN.match(line))
            told = "".join(f"    {line}\n" for line in shown) if passed else printed
            print(f"{gate.name}\n{told}    {'ok' if passed else 'FAILED'}, {seconds:.0f} s", flush=True)
            if not passed:
                reasons = [line[:300] for line in printed.splitlines() if REASON.match(line)]
                print("".join(f"    {line}\n" for line in reasons[:20]), end="", flush=True)
            results.append((gate.name, passed, seconds))
            left_out.extend(f"{gate.name}: {line}" for line in shown if LEFT_OUT.match(line))

    with ThreadPoolExecutor(max(1, len(lanes))) as pool:
        list(pool.map(run_lane, lanes))

    print("\nSummary")
    for name, passed, seconds in sorted(results, key=lambda result: list(known).index(result[0])):
        print(f"  {name:22} {seconds:5.0f} s  {'ok' if passed else 'FAILED'}")
    print("Left out" if left_out else "Nothing was left out.")
    print("".join(f"  {line}\n" for line in left_out), end="")
    failed = [name for name, passed, _seconds in results if not passed]
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
