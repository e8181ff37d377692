# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of single values, and of mappings of them. A check returns None for a good value, else the wanted kind."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Callable, Iterable, Mapping, Optional
from urllib.parse import SplitResult, urlsplit

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import excerpt, one_line
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import fold_case
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import A_VM_NAME, is_vm_name

Check = Callable[[Any], Optional[str]]


class ConfigError(Exception):
    """The configuration cannot be used; the message says where and why."""


AN_ADDRESS = "an address https://HOST/… without a password before the host"
# The one answer that is a whole sentence: the value may be good.
NO_JMESPATH = "query needs the Python library jmespath. Install python3-jmespath, or leave query out."


def text(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "a string that is not empty"


def vm_name(value: Any) -> str | None:
    return None if isinstance(value, str) and value and is_vm_name(value) else A_VM_NAME


def path(value: Any) -> str | None:
    return None if isinstance(value, str) and value.startswith("/") and "\0" not in value else "an absolute path"


def unit_path(value: Any) -> str | None:
    """Return what a path must be that stands in a unit of systemd, between quotes; None where it is that."""
    wanted = path(value)
    if wanted is None and not (value.isprintable() and not set(value) & set('"\\')):
        return "an absolute path without quotes, backslashes and line breaks"
    return wanted


def split_address(text: str) -> SplitResult | None:
    """Return the parts of an address to which something is sent, None where it is not AN_ADDRESS.

    A password may stand before the host alone: behind it an @ is a character as any other.
    """
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return None
    return parts if host and "@" not in parts.netloc and re.fullmatch(r"https?://[^\s#]+", text) else None


def date(value: Any) -> str | None:
    right = isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value)
    return None if right else "a date such as 2020-07-01"


def flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def listing(value: Any) -> str | None:
    return None if isinstance(value, list) else "a list"


def mapping(value: Any) -> str | None:
    return None if isinstance(value, dict) else "a mapping"


def number(least: float, whole: bool = False, above: bool = False, most: float = 86400) -> Check:
    """Return a check for a number from ``least`` (itself excluded with ``above``) to ``most``."""

    def check(value: Any) -> str | None:
        kinds: tuple[type, ...] = (int,) if whole else (int, float)
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if right and (value > least if above else value >= least) and value <= most:
            return None
        limits = f"{'more than' if above else 'at least'} {least:g} and at most {most:g}"
        return f"a {'whole ' if whole else ''}number, {limits}"

    return check


SECONDS = number(0, above=True)


def one_of(known: tuple[str, ...]) -> Check:
    return lambda value: None if value in known else f"{', '.join(known[:-1])} or {known[-1]}"


def words(known: tuple[str, ...]) -> Check:
    lowered = {fold_case(word) for word in known}

    def check(value: Any) -> str | None:
        right = isinstance(value, list) and all(isinstance(word, str) and fold_case(word) in lowered for word in value)
        # An empty list would match every event, and a list that is empty by mistake must approve nothing (P14).
        return None if right and value else f"a list of one or more of {', '.join(known)}"

    return check


def pattern(value: Any) -> str | None:
    try:
        # An empty one would match every event.
        if not re.compile(value).pattern:
            return "a regular expression that is not empty"
    except (TypeError, re.error, RecursionError, OverflowError) as error:
        return f"a regular expression ({error})"
    return None


def query(value: Any) -> str | None:
    if sys.flags.no_site and "jmespath" not in sys.modules:
        # The command avoids the folders of libraries where it can.
        import site

        site.main()
    try:
        import jmespath
    except ImportError:
        return NO_JMESPATH
    try:
        jmespath.compile(value)
    except (jmespath.exceptions.JMESPathError, AttributeError, RecursionError, TypeError) as error:
        return f"a JMESPath expression ({' '.join(str(error).split())})"
    return None


def take(where: str, content: Any, known: Mapping[str, Check]) -> dict[str, Any]:
    """Return the values that are given (null stands for the default), each of them checked."""
    if not isinstance(content, dict):
        raise ConfigError(f"{where} must be a mapping, not {kind_of(content)}.")
    for key, value in content.items():
        if key not in known:
            raise ConfigError(f"{where}: unknown key {excerpt(str(key))}; known are {join_names(known)}.")
        wanted = None if value is None else known[key](value)
        if wanted == NO_JMESPATH:
            raise ConfigError(f"{where}: {wanted}")
        if wanted:
            told = kind_of(value) if known[key] in (listing, mapping) else show(value)
            raise ConfigError(f"{where}: {key} must be {wanted}, not {told}.")
    return {key: value for key, value in content.items() if value is not None}


def refuse_null(where: str, content: Any, may_be_null: tuple[str, ...] = ()) -> None:
    """Refuse a value that was commented out: it must not stand for every event, or for nothing to do (P14)."""
    if isinstance(content, dict):
        for key, value in content.items():
            if value is None and key not in may_be_null:
                raise ConfigError(f"{where}: {one_line(str(key))} is null. Write a value, or leave the key out.")


def join_names(words: Iterable[str]) -> str:
    return ", ".join(words) or "no other"


def kind_of(value: Any) -> str:
    """Return the kind of a value that may hold a secret, such as the address of a webhook."""
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else show(value)


def show(value: Any) -> str:
    return excerpt(value) if isinstance(value, str) else one_line(json.dumps(value))
