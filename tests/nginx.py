# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real nginx on loopback that balances the applications of tests/haproxy.py, and its clients."""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.beside import wait_until
from ansible_collections.fleetops.azure_maintenance.tests.haproxy import Balancer
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port

# Seconds until a request is given to another server where one does not answer; nginx has 60 by itself.
READ_TIMEOUT = 3
_CONFIGURATION = """
pid {folder}/nginx.pid;
error_log {folder}/error.log;
daemon off;
worker_processes 1;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/client;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  include {folder}/upstream;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://web;
      proxy_read_timeout {timeout}s;
    }}
    location /slow/ {{
      proxy_pass http://web;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""


class Nginx(Balancer):
    """An nginx with one upstream, web, in front of these applications."""

    def __init__(self, program, applications):  # pylint: disable=super-init-not-called
        self.folder = Path(tempfile.mkdtemp(prefix="nginx-"))
        self.program = [program, "-c", str(self.folder / "nginx.conf"), "-e", str(self.folder / "error.log")]
        self.pid_file = self.folder / "nginx.pid"
        self.file = self.folder / "upstream"
        self.port = free_port()
        self.addresses = {each.name: f"127.0.0.1:{each.port}" for each in applications}
        servers = "".join(f"  server {address} max_fails=0;\n" for address in self.addresses.values())
        self.file.write_text(f"upstream web {{\n{servers}}}\n")
        told = {"folder": self.folder, "port": self.port, "timeout": READ_TIMEOUT}
        (self.folder / "nginx.conf").write_text(_CONFIGURATION.format(**told))
        self._process = subprocess.Popen(self.program)  # pylint: disable=consider-using-with
        wait_until(lambda: self.pid_file.exists() and self.pid_file.read_text())
        self.requests = []
        self._over = threading.Event()
        self._client = threading.Thread(target=self._keep_asking)
        self._client.start()

    def down(self):
        """Return the servers that get no requests, by the file."""
        lines = self.file.read_text().splitlines()
        marked = {line.split()[1] for line in lines if re.search(r"\sdown\b", line)}
        return {name for name, address in self.addresses.items() if address in marked}

    def mark_by_hand(self, name):
        text = self.file.read_text()
        self.file.write_text(text.replace(f"{self.addresses[name]} max_fails=0", f"{self.addresses[name]} down"))
        subprocess.run([*self.program, "-s", "reload"], check=True)
