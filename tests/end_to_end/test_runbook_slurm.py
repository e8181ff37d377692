# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runbook docs/runbooks/slurm, by real ansible-playbook, on a real Slurm of three nodes with jobs on them.

Not real: the VMs are control groups of this machine. One that reboots is killed, and runs again when restore starts it.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.cgroup import can_be_made
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.runbook import FAR_OFF, Nowhere, Runbook
from ansible_collections.fleetops.azure_maintenance.tests.programs import leave_out, need_program, need_root
from ansible_collections.fleetops.azure_maintenance.tests.slurm import site

pytestmark = pytest.mark.matrix

for program, package in (("slurmctld", "slurmctld"), ("slurmd", "slurmd"), ("munged", "munge")):
    need_program(program, package=package, folders=["/usr/sbin"])
need_program("sbatch", package="slurm-client")
need_root("slurmd runs")
if not can_be_made():
    leave_out("no control group can be made here")
HOSTS = ("node-1", "node-2", "node-3")


class Maintenance(Runbook):
    """The three nodes as hosts of an inventory."""

    def __init__(self, ansible, azure, folder, slurm):
        self.slurm = slurm
        self.nodes = dict(zip(HOSTS, slurm.nodes))
        hosts = {
            host: {
                "slurm_programs": str(slurm.programs),
                "slurm_check": ["test", "-e", str(folder / f"{host}.up")],
                "slurm_start": ["touch", str(folder / f"{host}.up")],
                "slurm_reserve": 5,
                "slurm_timeout": 30,
            }
            for host in HOSTS
        }
        super().__init__(ansible, azure, folder, "slurm", hosts)
        for host in HOSTS:
            self.up(host).touch()

    def preempt(self, host, *names, **more):
        return self.run_files(host, *names, event={"event_type": "Preempt"}, **more)

    def up(self, host):
        return self.folder / f"{host}.up"

    @contextlib.contextmanager
    def rebooting(self):
        """A VM whose event has started vanishes. It is there again when the event is over and slurmd is started."""

        def live(over):
            gone = set()
            while not over.wait(0.1):
                started = self.started
                for host in started - gone:
                    self.up(host).unlink()
                    self.nodes[host].vanish()
                gone |= started
                for host in gone - started:
                    if self.up(host).exists():
                        self.nodes[host].start()
                        gone.discard(host)

        with beside(live):
            yield

    @property
    def states(self):
        return [self.nodes[host].state for host in HOSTS]

    def tell(self, how, jobs, since):
        """What README's table has. Returns how many jobs were begun again, and how many never ended."""
        runs = self.slurm.runs_of_jobs
        begun = sum(word == "begin" for job in jobs for word, _time, _node in runs[job])
        ends = [time for job in jobs for word, time, _node in runs[job] if word == "end"]
        again, lost = begun - len(jobs), len(jobs) - len(ends)
        print(
            f"{how}: {len(jobs)} jobs, {again} begun again, {lost} lost, {max(ends) - since:.0f} s until all had ended"
        )
        return again, lost


@pytest.fixture(scope="module")
def slurm():
    with site() as made:
        yield made


@pytest.fixture
def maintenance(ansible, simulator, tmp_path, slurm):
    yield Maintenance(ansible, simulator("--vms", ",".join(HOSTS)), tmp_path, slurm)
    slurm.renew()


def begin_jobs_and_announce(maintenance):
    """Let 12 jobs begin, and announce a Reboot of a node that has one; return since when, and the jobs."""
    jobs = [maintenance.slurm.submit() for _job in range(12)]
    wait_until(lambda: maintenance.nodes["node-1"].jobs)
    since = time.time()
    maintenance.azure.announce("Reboot", "node-1", notice=60, started_for=3)
    return since, jobs


def all_ended(maintenance, jobs):
    wait_until(lambda: all(maintenance.slurm.runs_of_jobs.get(job, [("",)])[-1][0] == "end" for job in jobs))


def test_jobs_end_before_their_node_reboots_and_none_begins_there(maintenance):
    since, jobs = begin_jobs_and_announce(maintenance)
    with maintenance.rebooting():
        run = maintenance.run()
        assert run.code == 0, run.out + run.err
        all_ended(maintenance, jobs)
    assert maintenance.approved == ["node-1"]
    assert maintenance.tell("with the runbook", jobs, since) == (0, 0)
    maintenance.slurm.wait_until_idle()


@pytest.mark.release
def test_without_the_runbook_jobs_are_begun_again_when_the_node_is_missed(maintenance):
    """What README compares with."""
    since, jobs = begin_jobs_and_announce(maintenance)
    # On a busy machine all others may have ended when the node reboots.
    long = maintenance.slurm.submit("--nodelist=node-1", work=90)
    with maintenance.rebooting():
        run = maintenance.run(event_response_prepare="nothing", event_response_restore="nothing")
        assert run.code == 0, run.out + run.err
        maintenance.up("node-1").touch()
        all_ended(maintenance, [*jobs, long])
    _again, lost = maintenance.tell("without the runbook", jobs, since)
    runs = maintenance.slurm.runs_of_jobs
    assert any([word for word, *_rest in runs[job]].count("begin") > 1 for job in (*jobs, long))
    assert lost == 0


@pytest.mark.release
def test_a_preempt_requeues_at_once_and_a_reboot_what_has_no_time_to_end(maintenance):
    """Two events of two hosts. The jobs begin on the third node, or wait for their turn."""
    jobs = [maintenance.slurm.submit(f"--nodelist={host}", work=300) for host in ("node-1", "node-2")]
    wait_until(lambda: maintenance.nodes["node-1"].jobs and maintenance.nodes["node-2"].jobs)
    # Less than slurm_reserve, and more than a busy machine needs until it drains
    maintenance.azure.announce("Preempt", "node-1", notice=55, started_for=1)
    maintenance.azure.announce("Reboot", "node-2", notice=55, started_for=1)
    run = maintenance.run(slurm_reserve=60)
    assert run.code == 0, run.out + run.err
    assert maintenance.approved
    told = [maintenance.slurm.ask("squeue", "--noheader", f"--jobs={job}", "--format=%T") for job in jobs]
    restarts = [maintenance.slurm.ask("scontrol", "--oneliner", "show", "job", job) for job in jobs]
    assert set(told) <= {"PENDING", "RUNNING"}
    assert all(" Restarts=1 " in text for text in restarts)


@pytest.mark.release
def test_a_job_that_cannot_be_requeued_holds_the_event_back_and_is_named(maintenance):
    job = maintenance.slurm.submit("--no-requeue", "--nodelist=node-1", work=300)
    wait_until(lambda: maintenance.nodes["node-1"].jobs)
    maintenance.azure.announce("Preempt", "node-1", notice=FAR_OFF)
    run = maintenance.run(event_response_wait_timeout=60, slurm_timeout=2)
    assert run.code == 2
    assert f"node-1 still has jobs (number, user, state): {job} root RUNNING" in run.words
    assert "Let them end, or cancel them by scancel." in run.words
    assert maintenance.approved == []
    assert maintenance.nodes["node-1"].jobs == [job]
    assert "drain" not in " ".join(maintenance.states)


@pytest.mark.release
def test_a_rehearsal_with_a_job_on_two_nodes_of_one_event(maintenance):
    """Both leave in the same turn, so the job is requeued once, and nothing begins on either of them."""
    job = maintenance.slurm.submit("--nodes=2", "--nodelist=node-1,node-2", work=300)
    wait_until(lambda: maintenance.nodes["node-1"].jobs)
    run = maintenance.rehearse(slurm_wait=1)
    assert run.code == 0, run.out + run.err
    assert " Restarts=1 " in maintenance.slurm.ask("scontrol", "--oneliner", "show", "job", job)
    assert "drain" not in " ".join(maintenance.states)


@pytest.mark.release
def test_each_file_alone_can_be_run_again_and_check_mode_changes_nothing(maintenance):
    """Prepare alone is what a run has left that was broken off."""
    job = maintenance.slurm.submit("--nodelist=node-3", work=300)
    wait_until(lambda: maintenance.nodes["node-3"].jobs)
    run = maintenance.preempt("node-3", "prepare", "restore", options=["--check"])
    assert run.code == 0, run.out + run.err
    assert "changed=0" in run.words
    assert "node-3 has 1 jobs. They have 0 s, and are requeued then." in run.words
    assert maintenance.nodes["node-3"].jobs == [job]
    for names, changes, state in (("prepare", 2, "drained azure-maintenance: Preempt A1"), ("restore", 1, "idle none")):
        run = maintenance.preempt("node-3", names, names)
        assert run.code == 0, run.out + run.err
        assert f"changed={changes}" in run.words
        assert maintenance.nodes["node-3"].state == state


@pytest.mark.parametrize("is_missed", [False, True], ids=["soon", "when it is missed already"])
@pytest.mark.release
def test_a_node_is_resumed_when_slurm_has_heard_of_its_boot(maintenance, is_missed):
    """Slurm takes a node for one that answers until it is missed, so its state says nothing before that."""
    node, host = maintenance.nodes["node-2"], maintenance.hosts["node-2"]
    run = maintenance.preempt("node-2", "prepare")
    assert run.code == 0, run.out + run.err
    node.boot()
    python = maintenance.up("python")
    python.write_text(f'#!/bin/sh\nexec {shlex.join(node.in_its_time(sys.executable))} "$@"\n')
    python.chmod(0o755)
    asked = maintenance.up("asked")
    asked.mkdir()
    program = asked / "scontrol"
    program.write_text(f'#!/bin/sh\necho "$*" >>{asked}/lines\nexec {maintenance.slurm.programs}/scontrol "$@"\n')
    program.chmod(0o755)
    host.update(ansible_python_interpreter=str(python), slurm_programs=str(asked))
    if is_missed:
        wait_until(lambda: node.state.startswith("drained*"))
        run = maintenance.preempt("node-2", "restore", slurm_timeout=1)
        assert run.code == 2, run.out + run.err
        assert "Slurm's controller has not heard of it since its boot. Look at the log of slurmd." in run.words
        assert node.state == "drained* azure-maintenance: Preempt A1"
        (asked / "lines").unlink()
    before = []

    def start_when_it_was_asked_for(over):
        while not over.wait(0.1):
            lines = (asked / "lines").read_text().splitlines() if (asked / "lines").exists() else []
            if not before and len(lines) >= 3:
                before.extend(lines)
                node.start()

    with beside(start_when_it_was_asked_for):
        run = maintenance.preempt("node-2", "restore")
        assert run.code == 0, run.out + run.err
    assert [line for line in before if line.startswith("update")] == []
    maintenance.slurm.wait_until_idle()


@pytest.mark.release
def test_what_somebody_else_has_drained_stays_drained_with_its_reason(maintenance):
    maintenance.slurm.ask("scontrol", "update", "NodeName=node-3", "State=DRAIN", "Reason=broken fan")
    run = maintenance.preempt("node-3", "prepare", "restore")
    assert run.code == 0, run.out + run.err
    assert "changed=0" in run.words
    assert "node-3 stays IDLE+DRAIN, because this runbook has not drained it: Reason=broken fan" in run.words
    assert maintenance.nodes["node-3"].state == "drained broken fan"


def test_a_program_that_gives_no_answer_is_told_in_one_sentence(maintenance, tmp_path):
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\necho 'slurm_load_node error: Unable to contact slurm controller' >&2\nexit 1\n")
    program.chmod(0o755)
    run = maintenance.run_files("node-1", "prepare", slurm_programs=str(tmp_path))
    assert run.code == 2, run.out + run.err
    told = "slurm_load_node error: Unable to contact slurm controller. Set slurm_node to its name in Slurm"
    assert f"Slurm tells nothing of the node node-1: {told}" in run.words


def test_p15_slurm_timeout_counts_the_time_of_the_questions_too(ansible, tmp_path):
    asked, program = tmp_path / "asked", tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\necho once more >>{asked}\nsleep 3\necho ' State=DOWN'\n")
    program.chmod(0o755)
    settings = {"slurm_programs": str(tmp_path), "slurm_check": ["true"], "slurm_timeout": 4}
    run = Runbook(ansible, Nowhere, tmp_path, "slurm", {"node-1": settings}).run_files("node-1", "restore")
    assert run.code == 2, run.out + run.err
    assert "node-1 stays DOWN: Slurm's controller has not heard of it since its boot." in run.words
    # The last is how the node is. Each of the others takes three seconds and a pause.
    assert len(asked.read_text().splitlines()) <= 3


def test_p15_a_program_that_does_not_end_is_told_in_one_sentence(ansible, tmp_path):
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    site = Runbook(ansible, Nowhere, tmp_path, "slurm", {"node-1": {"slurm_programs": str(tmp_path)}})
    run = site.run_files("node-1", "prepare")
    assert run.code == 2, run.out + run.err
    assert "Slurm tells nothing of the node node-1: no answer in 30 s. Set slurm_node" in run.words
