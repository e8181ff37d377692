# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real Slurm on loopback: a controller, three nodes on this machine, and jobs that run all the time."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.beside import wait_until
from ansible_collections.fleetops.azure_maintenance.tests.cgroup import group
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port

# Seconds until the controller takes a silent node for gone; Slurm's default is 300.
NODE_TIMEOUT = 10
# Seconds that a job works
WORK = 4
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={machine}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000
JobAcctGatherType=jobacct_gather/none
ReturnToService=1
SlurmdTimeout={timeout}
KillWait=2
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=10 State=UP
"""
_JOB = """#!/bin/sh
echo "begin $SLURM_JOB_ID $(date +%s.%N) $SLURMD_NODENAME" >>{story}
sleep {work}
echo "end $SLURM_JOB_ID $(date +%s.%N) $SLURMD_NODENAME" >>{story}
"""


class Node:
    """One VM with its slurmd. Its jobs are in the same control group.

    One that boots has a namespace of time of its own from then on, which says when that was.
    """

    def __init__(self, site, name, machine):
        self.name = name
        self._site = site
        self.port = free_port()
        self._machine = machine
        self._process = None
        self._clock = []

    def in_its_time(self, *argv):
        """Return the command that runs this one on the VM, as far as the time of its boot goes."""
        return [*self._clock, *argv]

    def boot(self):
        """Boot, without slurmd."""
        self.vanish()
        self._clock = ["unshare", "--time", "--fork", f"--boottime=-{int(time.clock_gettime(time.CLOCK_BOOTTIME))}"]

    def take_back_boot(self):
        if self._clock:
            self.vanish()
            self._clock = []
            self.start()

    def start(self):
        argv = self.in_its_time("slurmd", "-D", "-N", self.name, "-f", str(self._site.configuration))
        self._process = subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=self._machine.enter
        )

    def vanish(self):
        self._machine.kill()
        self._process.wait()

    @property
    def runs(self):
        return self._process.poll() is None

    @property
    def state(self):
        return self._site.ask("sinfo", "--noheader", "--nodes", self.name, "--format=%T %E")

    @property
    def jobs(self):
        return self._site.ask("squeue", "--noheader", "--nodelist", self.name, "--format=%A").split()


class Site:
    """The controller with its nodes, and what the jobs have written."""

    def __init__(self, folder):
        self.folder = folder
        self.configuration = folder / "slurm.conf"
        self.story = folder / "story"
        self.nodes = []
        self.programs = folder / "bin"

    def configure(self):
        nodes = "\n".join(
            f"NodeName={node.name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={node.port}"
            for node in self.nodes
        )
        told = {"machine": socket.gethostname(), "port": free_port(), "folder": self.folder, "nodes": nodes}
        self.configuration.write_text(_CONFIGURATION.format(timeout=NODE_TIMEOUT, **told))
        (self.folder / "state").mkdir()
        self.programs.mkdir()
        for name in ("scontrol", "squeue"):
            (self.programs / name).write_text(f'#!/bin/sh\nSLURM_CONF={self.configuration} exec {name} "$@"\n')
            (self.programs / name).chmod(0o755)

    def ask(self, *argv):
        """Return what a program of Slurm answers."""
        settings = {**os.environ, "SLURM_CONF": str(self.configuration)}
        ended = subprocess.run(argv, env=settings, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def submit(self, *options, work=WORK):
        """Let a job begin as soon as there is a place; returns its number."""
        script = self.folder / f"job-{work}"
        script.write_text(_JOB.format(story=shlex.quote(str(self.story)), work=work))
        return self.ask("sbatch", "--parsable", "--output=/dev/null", *options, str(script))

    @property
    def runs_of_jobs(self):
        """The times at which each job began and ended, with the nodes."""
        runs = {}
        for line in self.story.read_text().splitlines() if self.story.exists() else ():
            word, job, time, node = line.split()
            runs.setdefault(job, []).append((word, float(time), node))
        return runs

    def renew(self):
        """Let no job and no reason be left, also of a test that has failed."""
        self.ask("scancel", "--user=root")
        wait_until(lambda: not self.ask("squeue", "--noheader"))
        for node in self.nodes:
            node.take_back_boot()
            if "drain" in node.state:
                self.ask("scontrol", "update", f"NodeName={node.name}", "State=RESUME")
        self.wait_until_idle()
        self.story.unlink(missing_ok=True)

    def wait_until_idle(self):
        wait_until(lambda: all(node.state == "idle none" for node in self.nodes))


@contextlib.contextmanager
def site():
    """Start a controller and three nodes, and leave nothing of them behind."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    made = Site(folder)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    options = {"key-file": key, "socket": folder / "munge.socket", "pid-file": folder / "munge.pid"}
    options.update({"log-file": folder / "munge.log", "seed-file": folder / "munge.seed", "num-threads": 10})
    munge = ["munged", "--foreground", "--force", *(f"--{name}={word}" for name, word in options.items())]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        controller = stack.enter_context(group())
        made.nodes += [Node(made, f"node-{number}", stack.enter_context(group())) for number in (1, 2, 3)]
        made.configure()
        started = [subprocess.Popen(munge, preexec_fn=controller.enter, **quiet)]
        wait_until((folder / "munge.socket").exists)
        argv = ["slurmctld", "-D", "-f", str(made.configuration)]
        started.append(subprocess.Popen(argv, preexec_fn=controller.enter, **quiet))
        for node in made.nodes:
            node.start()
        try:
            wait_until(
                lambda: subprocess.run([made.programs / "scontrol", "ping"], check=False, **quiet).returncode == 0
            )
            made.wait_until_idle()
            yield made
        finally:
            for node in made.nodes:
                node.vanish()
            controller.kill()
            for process in started:
                process.wait()
