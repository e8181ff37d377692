# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make bench finds all that a benchmark imports. What it measures is nothing that a test judges."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = sorted(Path(__file__).resolve().parents[1].glob("benchmarks/bench_*.py"))
# As Python starts a script, but without main()
START = "import runpy, sys; sys.path[0] = sys.argv[1]; runpy.run_path(sys.argv[2], run_name='not main')"


def test_there_are_benchmarks():
    assert len(BENCHMARKS) >= 10


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_can_be_started_without_settings_of_the_tests(path):
    environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    started = subprocess.run(
        [sys.executable, "-c", START, str(path.parent), str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (started.returncode, started.stdout) == (0, "")
