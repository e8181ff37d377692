# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures: the event source as ansible-rulebook loads it, the real simulator, and no way out to the network."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import runpy
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.simulator import launcher
from ansible_collections.fleetops.azure_maintenance.tests.unit.conftest import no_network

__all__ = ["no_network"]

EDA = Path(__file__).resolve().parents[2] / "extensions" / "eda"
SOURCE = EDA / "plugins" / "event_source" / "scheduled_events.py"
# Seconds. Ends what hangs; no test judges by it.
LONGEST_WAIT = 600


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in arguments}))
    return True


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch):
    """Where nothing listens: a forgotten endpoint must not reach 169.254.169.254."""
    monkeypatch.setenv("AZURE_IMDS_ENDPOINT", "http://127.0.0.1:9")


@pytest.fixture
def simulator():
    """A factory: simulator("--vms", "web-1,web-2") starts the real program on a free port of loopback."""
    with launcher() as start:
        yield start


@pytest.fixture(scope="session")
def plugin():
    """The names in the file of the event source, loaded as ansible-rulebook does."""
    return runpy.run_path(str(SOURCE))


class Watched:
    """A source that runs."""

    def __init__(self, simulator, queue, task):
        self._simulator = simulator
        self._queue = queue
        self.task = task

    async def next(self):
        """What it tells next."""
        getting = asyncio.ensure_future(self._queue.get())
        await asyncio.wait({getting, self.task}, timeout=LONGEST_WAIT, return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            self.task.result()
        assert getting.done(), "the source told nothing"
        return getting.result()

    async def polled(self, times):
        """Wait until it has asked so often since now."""
        wanted = self.polls() + times
        for _time in range(LONGEST_WAIT * 20):
            if self.polls() >= wanted:
                return
            await asyncio.sleep(0.05)
        pytest.fail("the source does not ask")

    def polls(self, answered=True):
        """How often it has asked, for the document or in vain for the VM's name; or how many questions are open yet."""
        requests = self._simulator.control("GET", "/simulator/journal")["requests"]
        asked = [one for one in requests if "/scheduledevents" in one["path"] or one["status"] in (None, 404)]
        return len([one for one in asked if (one["status"] is not None) == answered])

    async def silent(self, polls=3):
        """Whether it asks so often and tells nothing."""
        await self.polled(polls)
        return self._queue.empty()


@pytest.fixture
def watch(plugin):
    """A context: async with watch(simulator, ...) as source runs the source for web-1, with further arguments."""

    @contextlib.asynccontextmanager
    async def run(simulator, **args):
        queue = asyncio.Queue(1)
        arguments = {"endpoint": simulator.endpoint("web-1"), "poll_interval": 0.2, **args}
        task = asyncio.ensure_future(plugin["main"](queue, arguments))
        try:
            yield Watched(simulator, queue, task)
            assert not task.done(), "the source has ended by itself"
        finally:
            task.cancel()
            await asyncio.wait({task})

    return run
