# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The alerts and the dashboard of examples/monitoring: by themselves, and over what a real checker writes."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program
from ansible_collections.fleetops.azure_maintenance.tests.simulator import launcher
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.machine import Machine

PROMTOOL = need_program("promtool", package="prometheus")
PROMETHEUS = need_program("prometheus", package="prometheus")
NODE_EXPORTER = need_program("prometheus-node-exporter", package="prometheus-node-exporter")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "monitoring"
RULES = EXAMPLES / "azure_maintenance.rules.yml"
DASHBOARD = EXAMPLES / "dashboard.json"
GUIDE = ROOT / "docs" / "docsite" / "rst" / "guide_watching.rst"
# Of the checker itself, and those of node_exporter that the rules read
METRIC = re.compile(r"\b(azure_maintenance_\w+|node_textfile_mtime_seconds)\b")
# What takes longer hangs.
STOP = 600


def expressions():
    """Each expression of the dashboard."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_the_rules_are_sound_and_fire_when_they_should(tmp_path):
    shutil.copy(RULES, tmp_path)
    shutil.copy(Path(__file__).with_name("alerts.yml"), tmp_path)
    for command in (["check", "rules", RULES.name], ["test", "rules", "alerts.yml"]):
        ended = subprocess.run([PROMTOOL, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_guide_tells_what_to_do_for_each_alert():
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert len(alerts) == 7
    assert [alert for alert in alerts if f"``{alert}``" not in GUIDE.read_text()] == []


def test_the_dashboard_counts_a_vm_that_never_heard_of_azure(tmp_path):
    (panel,) = [
        each for each in json.loads(DASHBOARD.read_text())["panels"] if each["title"] == "VMs that hear nothing"
    ]
    series = [
        {"series": 'azure_maintenance_last_answer_timestamp_seconds{instance="silent"}', "values": "0x10"},
        {"series": 'azure_maintenance_last_poll_success{instance="silent"}', "values": "0x10"},
        {"series": 'azure_maintenance_last_poll_success{instance="never"}', "values": "0x10"},
        {"series": 'azure_maintenance_last_answer_timestamp_seconds{instance="fine"}', "values": "0+60x10"},
        {"series": 'azure_maintenance_last_poll_success{instance="fine"}', "values": "1x10"},
    ]
    asked = {"expr": panel["targets"][0]["expr"], "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": 2}]}
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [asked]}
    # JSON is YAML.
    (tmp_path / "dashboard.yml").write_text(json.dumps({"tests": [test]}))
    command = [PROMTOOL, "test", "rules", "dashboard.yml"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


class Monitored:
    """A VM with the checker, node_exporter over its metrics, and Prometheus with our rules."""

    def __init__(self, folder, azure):
        self.metrics = folder / "metrics"
        self.metrics.mkdir()
        self.vm = Machine(folder / "vm", azure.endpoint("web-1"))
        exporter, self.port = free_port(), free_port()
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": [f"127.0.0.1:{exporter}"]}]}],
        }
        # JSON is YAML.
        (folder / "prometheus.yml").write_text(json.dumps(settings))
        node = [NODE_EXPORTER, "--collector.disable-defaults", "--collector.textfile"]
        node += [f"--collector.textfile.directory={self.metrics}", f"--web.listen-address=127.0.0.1:{exporter}"]
        server = [PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
        server += [f"--web.listen-address=127.0.0.1:{self.port}"]
        self.log = folder / "printed"
        with open(self.log, "w") as output:
            self._programs = [subprocess.Popen(each, stdout=output, stderr=output) for each in (node, server)]

    def ask(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=STOP) as answer:
            return json.load(answer)["data"]

    def firing(self):
        """The names of the alerts that fire; None before Prometheus answers."""
        try:
            alerts = self.ask("alerts")["alerts"]
        except (urllib.error.URLError, ConnectionError):
            return None
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def wait(self, condition):
        end = time.monotonic() + STOP
        while not condition():
            assert time.monotonic() < end, f"firing: {self.firing()}; {self.log.read_text()[-3000:]}"
            time.sleep(0.1)

    def close(self):
        self.vm.close()
        for program in self._programs:
            program.kill()
            program.wait()


def test_an_alert_fires_over_what_a_checker_wrote_and_ends(tmp_path):
    broken = tmp_path / "broken"
    broken.touch()
    with launcher() as start:
        azure = start("--vms", "web-1")
        with contextlib.closing(Monitored(tmp_path, azure)) as seen:
            rule = seen.vm.rule(on_announced=[seen.vm.step("drain", f"test ! -e '{broken}'")], approve="never")
            seen.vm.configure(rule, metrics_dir=str(seen.metrics))
            azure.announce("Reboot", "web-1", notice=300)
            seen.vm.check()
            # The next poll writes down how the response ended.
            seen.vm.check()
            seen.wait(lambda: seen.firing() == {"AzureMaintenanceResponseFailed", "AzureMaintenanceStartsUnprepared"})
            known = set(seen.ask("label/__name__/values"))
            used = {name for text in [RULES.read_text(), *expressions()] for name in METRIC.findall(text)}
            # Of errors there is none to count yet.
            assert used - known <= {"azure_maintenance_poll_errors_total"}

            broken.unlink()
            assert seen.vm.run("retry", "1").returncode == 0
            seen.vm.check_until_quiet()
            seen.vm.check()
            seen.wait(lambda: seen.firing() == set())
