# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A headless Chromium that a test looks at pages with, spoken to over pipes, so that no port is opened."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import subprocess
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 600
# A profile of its own, and none of what a browser does on the network by itself.
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
# The time of a page is this variable, in milliseconds, and stands still.
CLOCK = """
globalThis.clock = {};
{{
  const Real = Date;
  globalThis.Date = class extends Real {{
    constructor(...given) {{ given.length ? super(...given) : super(globalThis.clock); }}
    static now() {{ return globalThis.clock; }}
  }};
}}
"""


class Browser:
    """One page. What it asked for and what it complained about is kept."""

    def __init__(self, commands, answers):
        self.requested = []
        self.complaints = []
        self._commands = commands
        self._answers = answers
        self._received = b""
        self._replies = {}
        self._loaded = False
        self._numbers = itertools.count(1)
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def open(self, path):
        self._loaded = False
        self.call("Page.navigate", url=path.as_uri())
        self._wait_until(lambda: self._loaded)

    def look(self, expression):
        """Return what JavaScript yields on the page; the page's own policy does not hinder this."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def show_as(self, width=1280, scheme="light", media=""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)

    def violations(self, axe):
        """Return what axe-core, given as its program, finds that hinders people: its rules, with the elements."""
        self.look(f"{axe}; 0")
        seen = "(found) => found.violations.map((one) => [one.id, ...one.nodes.map((node) => node.html.slice(0, 200))])"
        return self.look(f"axe.run().then({seen})")

    def stop_clock(self, moment):
        """Let it be this moment on every page that is opened from now on."""
        self.call("Page.addScriptToEvaluateOnNewDocument", source=CLOCK.format(int(moment.timestamp() * 1000)))

    def pass_time(self, seconds):
        """Move the clock of the page on, and let its script notice."""
        self.look(f"globalThis.clock += {seconds * 1000}; document.dispatchEvent(new Event('visibilitychange'))")

    def print_page(self):
        """Return the page as a PDF."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])

    def picture(self, height):
        """Return the upper part of the page as a PNG, as wide as the window."""
        width = self.look("window.innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"])

    def call(self, method, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        answer = self._wait_until(lambda: self._replies.pop(number, None))
        assert "error" not in answer, answer
        return answer["result"]

    def _wait_until(self, ready):
        end = time.monotonic() + PATIENCE
        while not (found := ready()):
            readable, _unused, _unused = select.select([self._answers], [], [], max(0, end - time.monotonic()))
            assert readable, "the browser does not answer"
            more = os.read(self._answers.fileno(), 1 << 20)
            assert more, "the browser has ended"
            *messages, self._received = (self._received + more).split(b"\0")
            for message in map(json.loads, messages):
                self._take(message)
        return found

    def _take(self, message):
        if "id" in message:
            self._replies[message["id"]] = message
        elif message["method"] == "Page.loadEventFired":
            self._loaded = True
        elif message["method"] == "Network.requestWillBeSent":
            self.requested.append(message["params"]["request"]["url"])
        elif message["method"] == "Log.entryAdded":
            self.complaints.append(message["params"]["entry"]["text"])
        elif message["method"] == "Runtime.exceptionThrown":
            self.complaints.append(message["params"]["exceptionDetails"]["text"])


@contextlib.contextmanager
def browser(program, profile):
    """Start the program, with this folder as its profile, and end it."""
    ours_in, theirs_out = os.pipe()
    theirs_in, ours_out = os.pipe()
    # It reads its file 3 and writes its file 4; from 10 on none of ours is one of these.
    handed = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
    script = 'exec "$@" 3<&{} 4>&{}'.format(*handed)
    process = subprocess.Popen(  # pylint: disable=consider-using-with
        ["bash", "-c", script, "browser", program, *OPTIONS, f"--user-data-dir={profile}"],
        pass_fds=handed,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (theirs_in, theirs_out, *handed):
        os.close(end)
    try:
        with open(ours_out, "wb", buffering=0) as commands, open(ours_in, "rb", buffering=0) as answers:
            yield Browser(commands, answers)
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()


def show_page(window, path, html, **how):
    """Open a page in this window, from this path, and return the window."""
    path.write_text(html, encoding="utf-8")
    window.requested.clear()
    window.complaints.clear()
    window.show_as(**how)
    window.open(path)
    return window


def check_alone(window, path):
    """Check that the page at this path has loaded nothing from elsewhere, and that nothing was complained about."""
    assert {url.partition("#")[0] for url in window.requested if not url.startswith("data:")} == {path.as_uri()}
    assert window.complaints == []
