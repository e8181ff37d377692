# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the input of people (files, control requests) and refuse a wrong one in one clear sentence."""

from __future__ import annotations

import json
import math

_REQUIRED = object()


class Refused(Exception):
    """A request cannot be carried out; the text is one sentence for the person who sent it."""

    def __init__(self, message, status=400):
        super().__init__(message)
        self.status = status


def show(value):
    """A value in a message: as JSON, so that control characters are escaped, and never long."""
    shown = json.dumps(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _no_constant(name):
    raise ValueError(f"{name} is not a JSON number")


def decode(text, where):
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{where} is not JSON: {error}.") from error


class Fields:
    """The members of one JSON object, taken one by one; a member that nobody took is an unknown key."""

    def __init__(self, value, where):
        if not isinstance(value, dict):
            raise Refused(f"{where} must be a JSON object, not {show(value)}.")
        self.where = where
        self._left = dict(value)
        self._known = []

    def has(self, key):
        return key in self._left

    def take(self, key, check, default=_REQUIRED):
        self._known.append(key)
        if key not in self._left:
            if default is _REQUIRED:
                raise Refused(f'{self.where} lacks the key "{key}".')
            return default
        return check(self._left.pop(key), f"{self.where}: {key}")

    def end(self):
        for key in self._left:
            known = ", ".join(self._known) or "none"
            raise Refused(f"{self.where} has the unknown key {show(key)}; known keys: {known}.")


def text(value, name):
    if not isinstance(value, str):
        raise Refused(f"{name} must be a string, not {show(value)}.")
    return value


def filled_text(value, name):
    if not text(value, name).strip():
        raise Refused(f"{name} must not be empty.")
    return value


def sendable_text(value, name):
    """Text that can become bytes; a lone surrogate such as \\udcff stands for the raw byte 0xff."""
    try:
        text(value, name).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Refused(f"{name} holds a character that cannot be sent: {error.reason}.") from error
    return value


def header_text(value, name):
    if any(ord(character) < 32 or ord(character) > 255 for character in text(value, name)):
        raise Refused(f"{name} must be a header's text without control characters, not {show(value)}.")
    return value


def flag(value, name):
    if not isinstance(value, bool):
        raise Refused(f"{name} must be true or false, not {show(value)}.")
    return value


def seconds(value, name):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e9:
        raise Refused(f"{name} must be a number of seconds from 0 to 1000000000, not {show(value)}.")
    return value


def whole(minimum, maximum=10**9):
    def check(value, name):
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise Refused(f"{name} must be a whole number from {minimum} to {maximum}, not {show(value)}.")
        return value

    return check


def one_of(*choices):
    def check(value, name):
        # The type is compared too, since True == 1 in Python.
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise Refused(f"{name} must be one of {', '.join(map(show, choices))}, not {show(value)}.")
        return value

    return check


def or_null(check):
    return lambda value, name: None if value is None else check(value, name)


def list_of(check):
    def check_all(value, name):
        if not isinstance(value, list):
            raise Refused(f"{name} must be a list, not {show(value)}.")
        return [check(item, f"{name}[{number}]") for number, item in enumerate(value)]

    return check_all


def map_of(check):
    def check_all(value, name):
        if not isinstance(value, dict):
            raise Refused(f"{name} must be a JSON object, not {show(value)}.")
        return {key: check(item, f"{name}.{key}") for key, item in value.items()}

    return check_all


def positive_number(words, name, maximum=math.inf):
    """A number given on the command line."""
    try:
        number = float(words)
    except ValueError:
        number = math.nan
    if not (0 < number < math.inf and number <= maximum):
        limit = "" if maximum == math.inf else f" and at most {maximum}"
        raise Refused(f"{name} must be a number greater than 0{limit}, not {show(words)}.")
    return number
