# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""The configurations of the campaign's checker, and which rule answers an event: the judge's own account of it."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Union

# FIELD.md, A2: on a text with a hyphen it never ends.
ENDLESS = r"^(\w+\s?)+[.]?$"
WHEN_READY, AT_ONCE, NEVER = "when_ready", "at_once", "never"
_COMMON = {"timeout": 60, "retries": 1, "retry_delay": 5}
# What a condition may say beside yes and no
_FAILS = "it fails"
_PERHAPS = "it may have been given up before"


class Words(NamedTuple):
    """What a document tells of an event that a condition may look at; None where it cannot be read or is left out."""

    kind: str | None
    source: str | None
    seconds: int | None
    description: str | None


Matches = Callable[[Words], Union[bool, str]]


class Rule:
    """A rule. Each character of ``announced``, ``waiting``, ``started`` and ``ended`` is a step.

    :param name: in its configuration.
    :param matches: its conditions as the judge understands them.
    :param match: the same as the checker gets them, None for none.
    :param ignored: the steps of on_announced, before the others, whose failure is ignored.

    :ivar key: says which configuration it is from too. Each step has it as a word, and so tells its rule.
    :ivar prepares: the steps that must have succeeded before it approves.
    :ivar prepares_again: a preparation is run again after a boot.
    """

    def __init__(
        self,
        configuration: int,
        name: str,
        approve: str,
        matches: Matches,
        match: dict[str, Any] | None = None,
        announced: str = "",
        started: str = "",
        ended: str = "",
        waiting: str = "",
        ignored: str = "",
        lead_time: int | None = None,
    ) -> None:
        self.key = f"{configuration}/{name}"
        self.matches = matches
        self.approves = approve != NEVER
        self.prepares_again = approve == WHEN_READY
        self.prepares = announced if approve == WHEN_READY else ""
        self.started = started
        self.ended = ended
        self.content = {
            **_COMMON,
            "name": name,
            "approve": approve,
            "lead_time": lead_time,
            "on_announced": [{**step, "ignore_errors": True} for step in self._steps(ignored)],
            "on_waiting": self._steps(waiting),
            "on_started": self._steps(started),
            "on_ended": self._steps(ended),
        }
        self.content["on_announced"] += self._steps(announced)
        if match is not None:
            self.content["match"] = match

    def _steps(self, labels: str) -> list[dict[str, Any]]:
        return [{"command": ["/bin/step", self.key, label]} for label in labels]


def _is(*kinds: str) -> Matches:
    return lambda words: words.kind in kinds


def _lasts(least: int, most: int, *kinds: str) -> Matches:
    return lambda words: words.kind in kinds and words.seconds is not None and least <= words.seconds <= most


def _asks(words: Words) -> bool | str:
    # starts_with() of JMESPath takes no null.
    if words.description is None:
        return _FAILS
    return words.description.startswith("Virtual machine") and (words.seconds or 0) > 0


def is_endless(text: str) -> bool:
    """Tell whether ENDLESS never ends on this text."""
    return "-" in text


def _is_of_words(words: Words) -> bool | str:
    text = (words.description or "").rstrip(".")
    matches = words.kind != "Reboot" and bool(text) and text.replace(" ", "").isalnum()
    # Where it took too long before, the same process does not try it again.
    return _PERHAPS if matches else False


def _names(words: Words) -> bool:
    text = (words.description or "").lower()
    return words.kind == "Freeze" and ("virtual" in text or "host" in text)


_OF_WORDS = {"event_types": ["Freeze", "Preempt", "Redeploy"], "description": ENDLESS}
_QUERY = "starts_with(description, 'Virtual machine') && duration_seconds > `0`"
# In each of them the last event of a history gets two steps that prepare, an approval, and two steps that restore.
CONFIGURATIONS = (
    (
        Rule(0, "Drain", WHEN_READY, _is("Reboot"), {"event_types": ["Reboot"]}, "12", "1", "12", waiting="1"),
        Rule(0, "Late", WHEN_READY, _is("Redeploy"), {"event_types": ["Redeploy"]}, "1", "", "1", lead_time=60),
        Rule(0, "At once", AT_ONCE, _is("Preempt"), {"event_types": ["Preempt"]}, "1", "", "1"),
        Rule(0, "Short", NEVER, _is("Freeze"), {"event_types": ["Freeze"]}, "1", "1", "1"),
    ),
    (
        Rule(1, "Own", AT_ONCE, lambda words: words.source == "User", {"event_sources": ["User"]}, ended="1"),
        Rule(1, "Long", WHEN_READY, _lasts(600, 10**9, "Reboot", "Redeploy"),
             {"event_types": ["Reboot", "Redeploy"], "min_duration": 600}, "1", "1", "1"),
        Rule(1, "Brief", NEVER, _lasts(0, 10, "Freeze"), {"event_types": ["Freeze"], "max_duration": 10}, "", "1", "1"),
        Rule(1, "Of words", NEVER, _is_of_words, _OF_WORDS, "1", "", "12"),
        Rule(1, "Asked", WHEN_READY, _asks, {"query": _QUERY}, "1", "1", "1", ignored="0"),
        Rule(1, "Rest", WHEN_READY, lambda _words: True, None, "12", "1", "12", waiting="1"),
    ),
    # The names of the first configuration, and other steps
    (
        Rule(2, "Drain", WHEN_READY, _is("Reboot"), {"event_types": ["Reboot"]}, "12", "", "12"),
        Rule(2, "Late", NEVER, _is("Redeploy"), {"event_types": ["Redeploy"]}, "12", "1", "12"),
        Rule(2, "At once", WHEN_READY, _is("Preempt"), {"event_types": ["Preempt"]}, "1", "1", "1"),
        Rule(2, "Short", NEVER, _names, {"event_types": ["Freeze"], "description": "(?i)virtual|host"}, "", "1", "1"),
    ),
)  # fmt: skip
BY_KEY = {rule.key: rule for rules in CONFIGURATIONS for rule in rules}


def find_rules(configuration: int, words: Words) -> set[str | None]:
    """Return the keys of the rules that may answer an event, with None where it may be that none does."""
    found: set[str | None] = set()
    for rule in CONFIGURATIONS[configuration]:
        answer = rule.matches(words)
        if answer == _FAILS:
            break
        if answer:
            found.add(rule.key)
        if answer is True:
            return found
    return found | {None}
