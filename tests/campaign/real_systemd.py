# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random histories of one VM of the lab, with real units and steps: python tests/campaign/real_systemd.py --number 8

Steps fill their pipes, fail, ignore SIGTERM and leave processes behind; a playbook may be for nobody; the check and its
responses are killed, a response hangs, the VM reboots, and its clock is set; the simulator answers falsely; the role is
run again with other rules while an event is open that needs what only the old ones name; an operator runs respond
beside the checker.
Each history is judged by real_judge.py.
Needs root and the images of `make lab`. With --mutant an old fault is put back, and must be found.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

from ansible_collections.fleetops.azure_maintenance.tests.campaign.real_judge import Seen, find_broken, read_lines

TREE = Path(__file__).resolve().parents[2]
IMAGES = {"11": "bullseye", "12": "bookworm", "13": "trixie"}
# In a network namespace of its own, that leads nowhere
IMDS = "169.254.169.254"
RETRIES = 1
# Seconds. What takes longer hangs.
STOP = 180
LIBRARY = "/usr/local/lib/azure-maintenance"
TRACE = "/var/tmp/trace"
# Which old fault, in which file of the VM, how it is put back by sed, and the seed of a history that shows it.
MUTANTS = {
    "B1": ("playbook_evidence.py", r's/^    if found\["ran"\]:/    if True:/', 39),
    "C1": ("/etc/systemd/system/azure-maintenance-respond@.service", "s/^KillMode=process/KillMode=control-group/", 26),
    "C2": ("programs.py", r"s/^    _end_all()$/    return/", 191),
    # Only on Debian 13: older ones know no soft reboot.
    "C3": ("boot_id.py", "s/_run_of_this_boot(units)\\]/None]/", 1358),
    "D3": ("lifecycle.py", r"s/^    return _why_not_prepare(others)$/    return None/", 4),
    "D4": ("lifecycle.py", r"s/if other.phase == STARTED:$/if False:/", 568),
    "E1": ("tracker.py", r"s/record.listed_boot, now.boot_id, appr/record.seen.boot_id, now.boot_id, appr/", 143),
    # No file of the VM: by this variable of the role, when it is run again
    "G5": (None, "__event_checker_kept_ansible_playbook=", 1),
}
# Not in PATH, so that only the configuration tells where it is
ANSIBLE_PLAYBOOK = "/opt/campaign/ansible-playbook"
# A container has the clock of its machine. Our programs on the VM add the seconds in this file to it.
CLOCK = "/usr/local/lib/campaign-clock"
LATER = f'float(open("{CLOCK}").read())'
CLOCK_PATCHES = {
    "system.py": f"s|time.time()|time.time() + {LATER}|",
    "fetch.py": f"s|datetime.now(timezone.utc)|datetime.fromtimestamp(time.time() + {LATER}, timezone.utc)|; "
    "0,/^from datetime/s//import time\\n&/",
}
# So long that a step that has time is never ended, and short enough to wait for it here
HANG_PATCH = "s/seconds + _HUNG_AFTER/max(20.0, seconds - 50.0)/"
DAY = 86400
CLOCK_STEPS = (-450 * DAY, -3600, -90, 90, 3600, 450 * DAY)
# The files of tasks of an operator's run of respond, and the step that each runs
RUN_FILES = {"prepare.yml": "run-0", "put_back.yml": "ended-run"}
CONFIGURATION, KEPT = "/etc/azure-maintenance", "/var/tmp/azure-maintenance"
# A step: it does what the description of its event says, such as announced-0=daemon.
STEP = r"""#!/bin/sh
note() { echo "$(date +%s.%N) $1 $step $AZURE_EVENT_ID $try" >>/var/tmp/trace; }
step=$1 try=$$
tries=$(grep -c "begin $step $AZURE_EVENT_ID" /var/tmp/trace)
kind=$(echo "$AZURE_EVENT_DESCRIPTION" | tr ' ' '\n' | sed -n "s/^$step=//p")
note begin
case $step in ended-*) note "told-$AZURE_EVENT_OUTCOME";; esac
live() { trap '' HUP; while :; do note alive; sleep 0.2; done; }
case $kind in
  daemon) live </dev/null >/dev/null 2>&1 & sleep 0.3;;
  fill) yes filled | head -c 300000; yes filled | head -c 300000 >&2;;
  slow) sleep 2;;
  fails) [ "$tries" -gt 0 ] || exit 1;;
  broken) exit 1;;
  stubborn) [ "$tries" -gt 0 ] || { trap '' TERM; setsid "$0-life" "$step" "$try" & sleep 600; };;
esac
note end
"""
LIFE = r"""#!/bin/sh
trap '' TERM HUP
while :; do echo "$(date +%s.%N) alive $1 $AZURE_EVENT_ID $2" >>/var/tmp/trace; sleep 0.2; done
"""
DRAIN = """
- hosts: "{{ 'web' if 'nobody' in maintenance_event.description else 'localhost' }}"
  gather_facts: false
  tasks:
    - ansible.builtin.command: /usr/local/sbin/campaign-step playbook-0
      environment:
        AZURE_EVENT_ID: "{{ maintenance_event.event_id }}"
        AZURE_EVENT_DESCRIPTION: "{{ maintenance_event.description }}"
"""
RESTORE = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.command: /usr/local/sbin/campaign-step ended-1
      environment:
        AZURE_EVENT_ID: "{{ maintenance_event.event_id }}"
        AZURE_EVENT_DESCRIPTION: "{{ maintenance_event.description }}"
        AZURE_EVENT_OUTCOME: "{{ maintenance_outcome }}"
"""
RUN_STEP = """
- ansible.builtin.command: /usr/local/sbin/campaign-step {step}
  environment:
    AZURE_EVENT_ID: "{{{{ maintenance_event.event_id }}}}"
    AZURE_EVENT_OUTCOME: "{{{{ maintenance_outcome | default('none') }}}}"
"""
KINDS = ("plain", "plain", "daemon", "daemon", "fill", "fails", "stubborn")
FAULTS = (
    {"fault": "status", "status": 500, "times": 2},
    {"fault": "proxy_agent", "times": 2},
    {"fault": "silent", "times": 1},
    {"fault": "empty", "times": 2},
    {"fault": "truncated", "times": 1},
)


def step(name):
    return {"command": ["/usr/local/sbin/campaign-step", name]}


def rules():
    """Return the rules that need playbooks, and the others."""
    ended = [step("ended-0"), step("ended-1")]
    tries = {"timeout": 3, "retries": RETRIES, "retry_delay": 0}
    usual = {"on_started": [step("started-0")], "on_ended": ended, "approve": "when_ready", **tries}
    playbook = {"playbook": "drain.yml", "timeout": 60}
    with_playbooks = [
        {
            "name": "Restored by a playbook",
            "match": {"description": "restore.yml"},
            "on_announced": [step("announced-0")],
            "on_ended": [step("ended-0"), {"playbook": "restore.yml", "timeout": 60}],
            **tries,
        },
        {
            "name": "With a playbook",
            "match": {"description": "playbook"},
            "on_announced": [step("announced-0"), playbook, step("announced-1")],
            **usual,
        },
    ]
    others = [
        # A pause for which nothing is prepared
        {"name": "Restore alone", "match": {"event_types": ["Freeze"]}, "on_ended": ended},
        {"name": "Commands alone", "on_announced": [step("announced-0"), step("announced-1")], **usual},
    ]
    return with_playbooks, others


def run(*command, **options):
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=STOP, **options)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


class Vm:
    """A VM of the lab, and the simulator that is its metadata service, in one network namespace."""

    def __init__(self, stack, debian):
        self.knows_soft_reboot = debian == "13"
        self._name = f"azm-real-{os.getpid()}"
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._simulator = None
        self._old_fault = []
        self._run = None
        self.told_by_run = self._folder / "respond.log"
        run("ip", "netns", "add", self._name)
        stack.callback(run, "ip", "netns", "del", self._name)
        run("ip", "-n", self._name, "link", "set", "lo", "up")
        run("ip", "-n", self._name, "address", "add", f"{IMDS}/32", "dev", "lo")
        network = f"--network=ns:/run/netns/{self._name}"
        pid_file = self._folder / "pid"
        image = f"localhost/azure-maintenance-vm:{IMAGES[debian]}"
        named = (f"--name={self._name}", f"--pidfile={pid_file}", "--hostname=vm")
        run("podman", "run", "--detach", *named, network, "--systemd=always", image, "/sbin/init")
        stack.callback(run, "podman", "rm", "--force", "--time=0", self._name)
        stack.callback(self.stop_simulator)
        stack.callback(self._stop_run)
        self._pid_file = pid_file
        self.wait_for_boot()
        self._install()

    def do(self, command, given=None):
        """Run a line of shell on the VM, and return what it printed, whatever its status."""
        enter = ["nsenter", f"--target={self._pid_file.read_text().strip()}", "--all", "/bin/sh", "-c", command]
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME": "/root"}
        done = subprocess.run(
            enter, input=given or "", capture_output=True, text=True, env=environment, timeout=STOP, check=False
        )
        return done.stdout.strip()

    def wait_for_boot(self):
        self.wait(
            lambda: self.do("timeout 5 systemctl is-system-running") in ("running", "degraded"), "the VM does not boot"
        )

    @staticmethod
    def wait(condition, otherwise, pause=0.1):
        end = time.monotonic() + STOP
        while not condition():
            assert time.monotonic() < end, otherwise
            time.sleep(pause)

    def _install(self):
        # The role checks that what its rules name is there.
        self.do("cat >/usr/local/sbin/campaign-step", STEP)
        self.do("cat >/usr/local/sbin/campaign-step-life", LIFE)
        self.do("chmod 0755 /usr/local/sbin/campaign-step*")
        program = "$(command -v ansible-playbook)"
        self.do(f"mkdir /opt/campaign && cp -L {program} {ANSIBLE_PLAYBOOK} && rm {program}")
        (self._folder / "drain.yml").write_text(DRAIN)
        (self._folder / "restore.yml").write_text(RESTORE)
        playbooks = [str(self._folder / name) for name in ("drain.yml", "restore.yml")]
        for name, step in RUN_FILES.items():
            (self._folder / name).write_text(RUN_STEP.format(step=step))
        with_playbooks, others = rules()
        needs = {"event_checker_playbooks": playbooks, "event_checker_ansible_playbook": ANSIBLE_PLAYBOOK}
        self._run_role(with_playbooks + others, **needs)
        self.do(f"cp -a {CONFIGURATION} {KEPT}")
        # A boot must not start it before the history has begun.
        self.do("systemctl disable azure-maintenance-check.timer")

    def change_rules(self):
        """Run the role again, with rules that need no playbook."""
        self._run_role(rules()[1])
        self.do("systemctl disable azure-maintenance-check.timer")

    def _run_role(self, rules, **variables):
        variables = {
            "event_checker_rules": rules,
            "event_checker_poll_interval": 0.5,
            "event_checker_timer_interval": 10,
            "event_checker_timeout": 5,
            **variables,
        }
        command, environment = self._playbook("install_checker", **variables)
        run(*command, *self._old_fault, env=environment)

    def respond(self):
        """Let an operator run respond for this VM; it goes on beside what the history does. Return the process."""
        files = {
            "event_response_prepare": str(self._folder / "prepare.yml"),
            "event_response_restore": str(self._folder / "put_back.yml"),
        }
        command, environment = self._playbook("respond", **files, event_response_reconnect_timeout=60)
        with self.told_by_run.open("w") as output:
            self._run = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        return self._run

    def _stop_run(self):
        if self._run is not None:
            self._run.kill()
            self._run.wait(STOP)

    def put_back(self):
        """Restore the VM after a run of respond that lost it."""
        file = str(self._folder / "put_back.yml")
        command, environment = self._playbook("restore", event_response_restore=file)
        run(*command, env=environment)

    def _playbook(self, name, **variables):
        """Return the command that runs a playbook of the collection for this VM, and its environment."""
        host = {
            "ansible_connection": "lab_vm",
            "lab_pid_file": str(self._pid_file),
            "ansible_python_interpreter": "/usr/bin/python3",
            **variables,
        }
        inventory = self._folder / f"{name}.json"
        inventory.write_text(json.dumps({"all": {"hosts": {"web-1": host}}}))
        plugins = str(TREE / "extensions" / "molecule" / "plugins" / "connection")
        environment = {**os.environ, "ANSIBLE_CONNECTION_PLUGINS": plugins, "ANSIBLE_PIPELINING": "true"}
        command = ["ansible-playbook", "-i", str(inventory), f"fleetops.azure_maintenance.{name}", "-e", "target=web-1"]
        return command, environment

    def mutate(self, name):
        file, how, _seed = MUTANTS[name]
        if file is None:
            self._old_fault = ["-e", how]
            return
        self._patch(file, how)

    def _patch(self, file, how):
        path = file if file.startswith("/") else self.do(f"find {LIBRARY} -name {file}")
        before = self.do(f"cat {path}")
        self.do(f"sed -i '{how}' {path}; find {LIBRARY} -name __pycache__ -exec rm -r {{}} +; systemctl daemon-reload")
        assert before != self.do(f"cat {path}"), f"{how} changes nothing in {file}"

    def set_clock(self, seconds):
        self.do(f"echo {seconds} >{CLOCK}.new && mv {CLOCK}.new {CLOCK}")

    def begin(self):
        """Boot anew, with nothing remembered, and with a simulator of its own."""
        self.stop_simulator()
        self.do("systemctl stop azure-maintenance-check.timer azure-maintenance-check.service")
        self.reboot("power off")
        self.do(f"rm -rf /var/lib/azure-maintenance* {TRACE}; touch {TRACE}")
        self.set_clock(0)
        # After a run of the role the files are as the role has them.
        if not self.do(f"grep -rl --include='*.py' {CLOCK} {LIBRARY}"):
            for file, how in CLOCK_PATCHES.items():
                self._patch(file, how)
            self._patch("system.py", HANG_PATCH)
        self.do(f"rm -rf {CONFIGURATION}; cp -a {KEPT} {CONFIGURATION}")
        program = str(TREE / "roles" / "imds_simulator" / "files" / "imds_simulator.py")
        command = [sys.executable, "-B", program, "--listen", f"{IMDS}:80", "--vms", "web-1"]
        enter = ["nsenter", f"--net=/run/netns/{self._name}", *command]
        self._simulator = subprocess.Popen(enter, stdout=subprocess.PIPE, text=True)
        assert self._simulator.stdout.readline(), "the simulator does not start"
        self.start_timer()

    def start_timer(self):
        self.do("systemctl start azure-maintenance-check.timer")

    def stop_simulator(self):
        if self._simulator is not None:
            self._simulator.kill()
            self._simulator.wait(STOP)
            self._simulator.stdout.close()
            self._simulator = None

    def reboot(self, how):
        if how == "power off":
            run("podman", "kill", self._name)
            run("podman", "wait", self._name)
            run("podman", "start", self._name)
        elif how == "soft reboot":
            count = self._soft_reboots()
            self.do("systemctl soft-reboot")
            self.wait(lambda: self._soft_reboots() not in ("", count), "the VM does not begin its soft reboot")
        else:
            run("podman", "restart", "--time=100", self._name)
        self.wait_for_boot()

    def _soft_reboots(self):
        # In the middle of a soft reboot process 1 may never answer.
        return self.do("timeout 5 systemctl show --property=SoftRebootsCount --value")

    def control(self, method, path, body=None):
        """Ask the control API of the simulator, which is in the other network."""
        with contextlib.closing(http.client.HTTPConnection(IMDS, 80, timeout=STOP)) as connection:
            connection.sock = self._connect()
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            value = json.loads(response.read())
        assert response.status < 300, value
        return value

    def _connect(self):
        found = []

        def connect():
            # Of this thread alone; a socket stays in the network in which it was made.
            with open(f"/run/netns/{self._name}") as network:
                if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), 0):
                    raise OSError(ctypes.get_errno(), "setns")
            found.append(socket.create_connection((IMDS, 80), STOP))

        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()
        return found[0]


class History:
    """One history: what Azure announces, what goes wrong, and what was seen."""

    def __init__(self, vm, seed):
        self._vm = vm
        self._choice = random.Random(seed)
        # Of its own, so that it leaves the rest of a seed as it is
        self._more = random.Random(f"{seed} more")
        self._role = random.Random(f"{seed} other rules")
        self._soft = random.Random(f"{seed} soft reboots")
        self._operator = random.Random(f"{seed} respond")
        # By this name the seeds of MUTANTS go on as they were.
        self._hang = random.Random(f"{seed} hung 6")
        self._clock_was_set = False
        self._clock = random.Random(f"{seed} clock")
        self._run = None
        self._boots = []
        self._kills = 0
        self._hangs = ()
        self.story = [f"seed {seed}"]
        self._begun = time.time()

    def run(self):
        self._vm.begin()
        self._begun = time.time()
        planned = [self._announce() for _number in range(self._choice.randint(1, 2))]
        if self._operator.random() < 0.2:
            self._run = self._vm.respond()
            self._note("respond")
        for _number in range(self._choice.randint(1, 4)):
            time.sleep(self._choice.uniform(0.2, 3.0))
            self._disturb()
            if self._clock.random() < 0.1:
                seconds = self._clock.choice(CLOCK_STEPS)
                self._vm.set_clock(seconds)
                self._clock_was_set = True
                self._note(f"the clock is set by {seconds} s")
        # A run of respond would approve the event, which must stay open.
        if self._run is None and self._role.random() < 0.15:
            planned.append(self._change_rules())
        planned += self._fail_host(planned[0]["event_id"])
        self._finish()
        if self._run is not None:
            self._end_run()
        # Time for a process that lives to leave a sign of it
        time.sleep(0.5)
        return self._look(planned)

    def _note(self, what):
        self.story.append(f"{time.time() - self._begun:6.2f} {what}")

    def _announce(self):
        steps, words = ["announced-0", "announced-1"], []
        if self._choice.random() < 0.4:
            steps.insert(1, "playbook-0")
            words.append("playbook")
            words += ["nobody"] if self._choice.random() < 0.5 else []
        words += [f"{name}={self._choice.choice(KINDS)}" for name in ("announced-0", "announced-1", "started-0")]
        words += [f"{name}={self._choice.choice(KINDS)}" for name in ("ended-0", "ended-1")]
        if self._choice.random() < 0.15:
            words = [word for word in words if not word.startswith("announced-1")] + ["announced-1=broken"]
        event = {
            "event_type": self._choice.choice(["Reboot", "Redeploy"]),
            "resources": ["web-1"],
            "description": " ".join(words),
            "notice": self._choice.choice([10, 30]),
            "after": self._choice.choice([0, 0, 4]),
            "start_delay": self._choice.choice([0, 1]),
            "started_for": self._choice.choice([1, 3]),
            "withdraw_after": self._choice.choice([None, None, None, 6]),
        }
        if "announced-1=broken" in words and self._more.random() < 0.5:
            # It is never approved, and the VM may boot before Azure withdraws it.
            event.update(notice=120, withdraw_after=25)
        elif self._more.random() < 0.4:
            event["description"] = re.sub("(ended-.)=[a-z]+", r"\1=slow", event["description"])
        return {"event_id": self._send(event), "steps": steps}

    def _send(self, event):
        event_id = self._vm.control("POST", "/simulator/events", event)["event_id"]
        self._note(f"{event_id[:8]} {json.dumps(event)}")
        return event_id

    def _change_rules(self):
        """Let the role install other rules while an event is open that is restored by the old ones."""
        words = [f"{name}={self._role.choice(KINDS)}" for name in ("announced-0", "ended-0")]
        # A playbook has more time than one would wait here.
        words.append(f"ended-1={self._role.choice(['plain', 'fill', 'fails'])}")
        description = " ".join(["restore.yml", *words])
        event = {"event_type": "Freeze", "resources": ["web-1"], "description": description, "notice": 900}
        event_id = self._send(event)
        self._vm.control("DELETE", "/simulator/faults")
        self._vm.wait(lambda: event_id in self._vm.do(f"cat {TRACE}"), "the event is not prepared for")
        self._vm.change_rules()
        self._note("other rules")
        self._vm.control("DELETE", f"/simulator/events/{event_id}")
        return {"event_id": event_id, "steps": [], "by_playbook": ["ended-1"]}

    def _fail_host(self, first):
        """Let another event come without a notice, while the first is started or after it."""
        kind = self._more.choice(["", "Freeze", "Reboot"])
        if not kind:
            return []
        self._vm.control("DELETE", "/simulator/faults")

        def is_time():
            phases = {one["event_id"]: one["phase"] for one in self._vm.control("GET", "/simulator/events")["events"]}
            if kind == "Freeze":
                return phases[first] in ("started", "ended")
            restored = [line for line in read_lines(self._vm.do(f"cat {TRACE}")) if line.step == "ended-0"]
            return phases[first] == "ended" and (restored or self._is_quiet())

        self._vm.wait(is_time, "\n".join(["the first event does not come so far", *self.story]))
        event = {"event_type": kind, "resources": ["web-1"], "description": "sudden", "notice": 0, "started_for": 6}
        return [{"event_id": self._send(event), "steps": []}]

    def _is_quiet(self):
        found = json.loads(self._vm.do("azure-maintenance status --json") or "{}")
        return found.get("events") in ([], None) or self._only_failed()

    def _disturb(self):
        what = self._choice.choice(["nothing", "kill check", "kill response", "reboot", "power off", "fault"])
        if what == "reboot" and self._vm.knows_soft_reboot and self._soft.random() < 0.5:
            what = "soft reboot"
        elif what == "kill response" and self._hang.random() < 0.15:
            what = "stop response"
        self._note(what)
        if what == "kill check":
            self._vm.do("systemctl kill --kill-who=main --signal=KILL azure-maintenance-check.service")
        elif what == "kill response":
            self._kills += 1
            self._vm.do("systemctl kill --kill-who=main --signal=KILL 'azure-maintenance-respond@*.service'")
        elif what == "stop response":
            # Until the watchdog of systemd kills it
            self._kills += 1
            self._hangs += (time.time(),)
            self._vm.do("systemctl kill --kill-who=main --signal=STOP 'azure-maintenance-respond@*.service'")
        elif what in ("reboot", "power off", "soft reboot"):
            self._vm.reboot(what)
            self._boots.append(time.time())
            self._vm.start_timer()
        elif what == "fault":
            fault = self._choice.choice(FAULTS)
            self._vm.control("POST", "/simulator/faults", {**fault, "methods": ["GET"]})

    def _finish(self):
        """Wait until each event is over and the checker has nothing left to do."""
        self._vm.control("DELETE", "/simulator/faults")

        def is_over():
            events = self._vm.control("GET", "/simulator/events")["events"]
            if any(event["phase"] != "ended" for event in events):
                return False
            return self._is_quiet()

        # To ask for the status costs more than the rest of a history.
        self._vm.wait(is_over, "\n".join(["it does not come to its end", *self.story]), pause=0.5)

    def _end_run(self):
        status = self._run.wait(STOP)
        self._note(f"respond ended with {status}")
        if status:
            self.story += self._vm.told_by_run.read_text().splitlines()[-25:]
            self._vm.put_back()
            self._note("put back")

    def _only_failed(self):
        """A preparation that failed stays in the report, and nothing becomes of it."""
        found = json.loads(self._vm.do("azure-maintenance status --json"))
        states = [response["state"] for event in found["events"] for response in event["responses"]]
        ended = all(event["ended_at"] for event in found["events"])
        return ended and not {"planned", "due", "running"} & set(states)

    def _look(self, planned):
        taken_at = time.time()
        lines = read_lines(self._vm.do(f"cat {TRACE}"))
        shown = {event["event_id"]: event for event in self._vm.control("GET", "/simulator/events")["events"]}
        times = ("not_before", "started_at", "ended_at")
        events = [{**each, **{at: _seconds(shown[each["event_id"]][at]) for at in times}} for each in planned]
        requests = self._vm.control("GET", "/simulator/journal")["requests"]
        asked = [one for one in requests if "/scheduledevents" in one["path"]]
        posts = [
            (_seconds(one["time"]), [each["EventId"] for each in json.loads(one["body"])["StartRequests"]])
            for one in asked
            if one["method"] == "POST"
        ]
        good = [one for one in asked if one["method"] == "GET" and one["status"] == 200 and one["fault"] is None]
        reads = [_seconds(one["time"]) for one in good]
        return Seen(
            lines,
            events,
            posts,
            reads,
            self._boots,
            self._kills,
            RETRIES,
            taken_at,
            self._left(),
            self._clock_was_set,
            self._run is not None,
            self._hangs,
        )

    def _left(self):
        left = [f"the mark {name} is left" for name in self._vm.do("ls /var/lib/azure-maintenance-marks").split()]
        if self._vm.do("systemctl is-active azure-maintenance-check.timer") != "active":
            left.append("the timer of the check does not run")
        traces = self._vm.do("journalctl --boot --unit 'azure-maintenance-*' | grep -c Traceback")
        return left + ([f"the journal has {traces} tracebacks"] if traces != "0" else [])


def _seconds(text):
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def why_not_here(debian):
    """Return why the lab does not run on this machine, None where it does."""
    if os.geteuid() != 0 or not shutil.which("podman"):
        return "it takes root and podman"
    image = f"localhost/azure-maintenance-vm:{IMAGES[debian]}"
    found = subprocess.run(["podman", "image", "exists", image], check=False).returncode == 0
    return None if found else f"{image} is missing; run make lab"


def share(debian, first, number, vms):
    """Let several VMs share the histories, because each mostly waits, and return the status."""
    begins = [first + number * at // vms for at in range(vms + 1)]
    command = [sys.executable, __file__, "--debian", debian]
    parts = [["--first", str(begin), "--number", str(end - begin)] for begin, end in pairwise(begins) if end > begin]
    children = [subprocess.Popen([*command, *part]) for part in parts]
    try:
        return max(child.wait() for child in children)
    finally:
        for child in children:
            child.terminate()
            child.wait()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, help="how many histories; 300 without it, and 1 with --mutant")
    parser.add_argument("--first", type=int, help="the first seed; 0 without it, and one that shows the --mutant")
    parser.add_argument("--vms", type=int, default=1, help="how many VMs share the histories")
    parser.add_argument("--debian", choices=IMAGES, default=os.environ.get("LAB_DEBIAN", "12"))
    parser.add_argument("--mutant", choices=MUTANTS, help="put this old fault back; ends with 0 when it is found")
    options = parser.parse_args(arguments)
    seed, number = (MUTANTS[options.mutant][-1], 1) if options.mutant else (0, 300)
    first = seed if options.first is None else options.first
    number = options.number or number
    os.environ.setdefault("CONTAINERS_CONF", str(TREE / ".ci" / "lab" / "containers.conf"))
    why = why_not_here(options.debian)
    if why:
        print(f"The campaign on real systemd does not run here: {why}.", file=sys.stderr)
        return 1
    # Whoever ends it in the middle must find nothing of it left on the machine.
    signal.signal(signal.SIGTERM, lambda *_signal: sys.exit(1))
    if options.vms > 1:
        return share(options.debian, first, number, options.vms)
    broken = 0
    with contextlib.ExitStack() as stack:
        vm = Vm(stack, options.debian)
        if options.mutant:
            vm.mutate(options.mutant)
        begun = time.monotonic()
        for seed in range(first, first + number):
            history = History(vm, seed)
            seen = history.run()
            found = find_broken(seen)
            broken += bool(found)
            if found:
                lines = [f"{line.at - seen.lines[0].at:8.2f} {' '.join(line[1:])}" for line in seen.lines]
                lines = [line for line in lines if " alive " not in line]
                print("\n".join([*history.story, *lines, *found]), flush=True)
                if options.mutant:
                    break
        seconds = time.monotonic() - begun
    print(f"{seed - first + 1} histories on Debian {options.debian} in {seconds:.0f} s, {broken} broken", flush=True)
    return int(bool(broken) != bool(options.mutant))


if __name__ == "__main__":
    sys.exit(main())
