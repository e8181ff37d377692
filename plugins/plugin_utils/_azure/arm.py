# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The client of Azure Resource Manager: a token, a request, and errors that say what to do. It alone knows requests."""

from __future__ import annotations

import json
import math
import time
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Iterator, Mapping, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies

from ...module_utils._errors import excerpt
from ...module_utils._event.sentences import format_duration
from ...module_utils._imds.transport import Deadline
from ...module_utils._time_limit import TimeIsUpError, limit
from .cloud import Cloud, find_cloud
from .credentials import Login, ask_token, make_credential
from .errors import (
    CERTIFICATE,
    FORBIDDEN,
    HTTP_STATUS,
    LOGIN,
    MALFORMED,
    THROTTLED,
    TIMEOUT,
    UNREACHABLE,
    AzureError,
    missing_library,
    plain,
)

# Seconds
_CONNECT, _READ = 10, 60
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
# A smaller difference comes from the time that a request takes.
_CLOCKS_DIFFER = 60
_LONGEST_WAIT_TOLD = 1e9

# A page of Resource Graph has 1,000 rows.
_LARGEST_ANSWER = 64 * 1024 * 1024
# OpenSSL's words for faults before a request: this machine does not trust Azure, or has no certificate in its file.
_CERTIFICATE_FAULTS = ("CERTIFICATE_VERIFY_FAILED", "NO_CERTIFICATE_OR_CRL_FOUND")


class Answer(NamedTuple):
    """An answer with a status below 300.

    :ivar headers: by their names in lower case.
    :ivar body: JSON, None where there was none.
    """

    status: int
    headers: Mapping[str, str]
    body: Any


_WRONG_PROXY = (
    "{variable} is no address of a proxy, such as http://proxy.example.com:3128. In a user and a password characters "
    "such as # / [ @ are written %23 %2F %5B %40."
)


class ArmClient:
    """Asks Azure Resource Manager, all within one time.

    :param warn: is called with each warning.
    """

    def __init__(self, login: Login, timeout: float, warn: Callable[[str], None]) -> None:
        if not 0 < timeout <= 86400:
            raise ValueError(f"timeout must be more than 0 and at most 86400 seconds, not {timeout:g}.")
        try:
            import requests
        except ImportError as error:
            raise missing_library(error) from error
        _check_proxies()
        self._requests = requests
        self._session = requests.Session()
        self._login = login
        self._warn = warn
        self._credential: Any = None
        self._token: str | None = None
        # Whether a request that changes something has already led to a new login
        self._renewed_for_change = False
        self._cloud: Cloud | None = None
        self._skew: float | None = None
        self.timeout = timeout
        self.deadline = Deadline(timeout)

    def now(self) -> datetime:
        """Return the time by Azure's clock, as far as it is known and another one than this machine's."""
        return datetime.now(timezone.utc) + timedelta(seconds=self._skew or 0)

    def send(
        self,
        method: str,
        path: str,
        api_version: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        again: bool = True,
    ) -> Answer:
        """Return the answer to a request.

        :param path: of the control plane, such as ``/subscriptions/…``.
        :param again: ask again where that may help, until the time is up. Only for requests that change nothing.
        :raises AzureError: there was no answer with a status below 300.
        """
        return self._send(
            method, lambda cloud: f"{cloud.resource_manager}{path}?api-version={api_version}", body, headers, again
        )

    def follow(self, address: str) -> Answer:
        """Return the answer at an address that Azure gave; the token goes to the control plane only.

        :raises AzureError: it is elsewhere, or there was no answer with a status below 300.
        """

        def check(cloud: Cloud) -> str:
            if urlsplit(address)[:2] != urlsplit(cloud.resource_manager)[:2]:
                raise AzureError(f"Azure named {excerpt(address)}, which is not {cloud.resource_manager}.", MALFORMED)
            return address

        return self._send("GET", check, None, None, True)

    def pause(self, seconds: float, reason: AzureError | None = None) -> None:
        """Wait, or fail where that takes longer than there is time.

        :raises AzureError: the reason, or that the time is up.
        """
        if seconds >= self.deadline.remaining():
            raise reason or self._late("waiting for Azure's quota")
        time.sleep(seconds)

    def _send(
        self,
        method: str,
        locate: Callable[[Cloud], str],
        body: Any,
        headers: Mapping[str, str] | None,
        again: bool,
    ) -> Answer:
        pauses = growing_pauses()
        renewed = not again and self._renewed_for_change
        while True:
            try:
                token = self._get_token()
                address = locate(self.cloud())
                answer = self._exchange(method, address, body, {**(headers or {}), "Authorization": f"Bearer {token}"})
                if answer.status < 300:
                    return answer
                failure = _fault(answer)
                failure.retry_after = read_retry_after(answer.headers)
            except AzureError as error:
                failure = error
            if failure.http_status == 401 and not renewed:
                # The token ran out, or Azure wants another. azure-identity would give the same one again.
                renewed, self._token, self._credential = True, None, None
                if again:
                    continue
                # What must come before the change must also come before the next try.
                self._renewed_for_change = failure.login_was_old = True
            if not (again and failure.may_pass):
                raise failure
            self.pause(max(next(pauses), failure.retry_after), failure)

    def cloud(self) -> Cloud:
        if self._cloud is None:
            self._cloud = find_cloud(self._login.cloud_environment, self._read_metadata)
        return self._cloud

    def _read_metadata(self, address: str) -> Any:
        answer = self._exchange("GET", address, None, {})
        if answer.status != 200:
            raise _fault(answer)
        return answer.body

    def _get_token(self) -> str:
        if self._token is None:
            cloud = self.cloud()
            with self._limit(f"the login at {cloud.login}"):
                if self._credential is None:
                    self._credential = make_credential(self._login, cloud, self.deadline.remaining())
                self._token = ask_token(self._credential, self._login, cloud)
        return self._token

    @contextmanager
    def _limit(self, work: str) -> Iterator[None]:
        """End a request that takes too long, such as an answer that comes byte by byte (P15)."""
        left = self.deadline.remaining()
        if left <= 0:
            raise self._late(work)
        try:
            with limit(left):
                yield
        except TimeIsUpError:
            raise self._late(work) from None

    def _late(self, work: str) -> AzureError:
        return AzureError(
            f"After {self.timeout:g} s there was no end of {work}. Check the network and the proxy of the controller, "
            "or give more timeout.",
            TIMEOUT,
        )

    def _exchange(self, method: str, address: str, body: Any, headers: Mapping[str, str]) -> Answer:
        """Send one request, and return the answer with any status.

        :raises AzureError: there was no answer.
        """
        requests = self._requests
        content = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", **headers}
        if content is not None:
            headers["Content-Type"] = "application/json"
        host = urlsplit(address).netloc
        left = max(self.deadline.remaining(), 0.001)
        try:
            with self._limit(f"the answer of {host}"), self._session.request(
                method,
                address,
                data=content,
                headers=headers,
                # Otherwise requests would replace the token with a login of ~/.netrc.
                auth=lambda request: request,
                timeout=(min(_CONNECT, left), min(_READ, left)),
                allow_redirects=False,
                stream=True,
            ) as response:
                found = {name.lower(): str(value) for name, value in response.headers.items()}
                raw = self._read(response)
        except requests.exceptions.SSLError as error:
            if not any(word in str(error) for word in _CERTIFICATE_FAULTS):
                # It may come after the request, so that Azure may have carried it out.
                raise AzureError(f"The encrypted connection to {host} broke: {plain(error)}", UNREACHABLE) from error
            raise AzureError(
                f"{host} has no certificate that this machine trusts: {plain(error)} Set the variable "
                "REQUESTS_CA_BUNDLE to a file with that of your proxy.",
                CERTIFICATE,
            ) from error
        except requests.exceptions.Timeout as error:
            raise AzureError(f"{host} gave no answer in time: {plain(error)}", TIMEOUT) from error
        except OSError as error:
            if not isinstance(error, requests.exceptions.RequestException) and error.errno is None:
                # The file of REQUESTS_CA_BUNDLE is missing.
                raise AzureError(f"{plain(error)}. Check the variable REQUESTS_CA_BUNDLE.", CERTIFICATE) from error
            raise AzureError(f"{host} cannot be reached: {plain(error)}", UNREACHABLE) from error
        self._compare_clocks(found.get("date"))
        return Answer(response.status_code, found, _decode(raw, response.status_code, host))

    def _read(self, response: Any) -> bytes:
        chunks, size = [], 0
        for chunk in response.iter_content(1 << 16):
            chunks.append(chunk)
            size += len(chunk)
            if size > _LARGEST_ANSWER:
                raise AzureError(f"The answer is larger than {_LARGEST_ANSWER} bytes.", MALFORMED, response.status_code)
        return b"".join(chunks)

    def _compare_clocks(self, date: str | None) -> None:
        """Note how much this machine's clock differs from Azure's, by the first answer."""
        if self._skew is not None or date is None:
            return
        theirs = _read_date(date)
        if theirs is None:
            return
        skew = (theirs - datetime.now(timezone.utc)).total_seconds()
        self._skew = skew if abs(skew) > _CLOCKS_DIFFER else 0.0
        if self._skew:
            side = "behind" if skew > 0 else "ahead of"
            self._warn(
                f"The clock of this machine is {abs(skew):.0f} s {side} Azure's. Times are told by Azure's clock. "
                "Set the clock of this machine, for a login may fail by it."
            )


def _check_proxies() -> None:
    """Refuse a proxy that cannot be used: the errors of the libraries would show a part of its password (P12).

    :raises ValueError: the address is wrong.
    """
    for kind, address in getproxies().items():
        if kind not in ("https", "all"):
            continue
        try:
            parts = urlsplit(address if "://" in address else f"http://{address}")
            right = bool(parts.hostname) and parts.port != 0
        except ValueError:
            right = False
        if not right:
            raise ValueError(_WRONG_PROXY.format(variable=f"{kind.upper()}_PROXY"))


def growing_pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, _LONGEST_PAUSE)


def read_retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that an answer asks to wait, by Retry-After or by when the quota begins anew."""
    asked = headers.get("retry-after", "")
    try:
        seconds = float(asked)
        if math.isfinite(seconds):
            return max(0.0, seconds)
    except ValueError:
        until, theirs = _read_date(asked), _read_date(headers.get("date", ""))
        if until and theirs:
            return max(0.0, (until - theirs).total_seconds())
    return read_quota_reset(headers)


def _read_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def read_quota_reset(headers: Mapping[str, str]) -> float:
    """Return the seconds until the quota of Resource Graph begins anew, 0 where that is not said."""
    parts = headers.get("x-ms-user-quota-resets-after", "").split(":")
    try:
        hours, minutes, seconds = (int(part.partition(".")[0]) for part in parts)
        return float(max(0, hours * 3600 + minutes * 60 + seconds))
    except (OverflowError, ValueError):
        return 0.0


def fold_keys(value: Any) -> dict[str, Any]:
    """Return the keys of an object of an answer in lower case: Azure spells those of errors in more than one way.

    :param value: anything else than an object is one without keys.
    """
    return {str(key).lower(): each for key, each in value.items()} if isinstance(value, Mapping) else {}


def read_error(body: Any) -> tuple[str | None, str, tuple[Mapping[str, Any], ...]]:
    """Return code, message and details of an error in an answer, as far as it has them."""
    found = fold_keys(body).get("error")
    if not isinstance(found, Mapping):
        return None, "", ()
    error = fold_keys(found)
    code, message, details = error.get("code"), error.get("message"), error.get("details")
    listed = details if isinstance(details, list) else []
    known = tuple(fold_keys(each) for each in listed if isinstance(each, Mapping))
    inner = "; ".join(plain(each["message"]) for each in known if isinstance(each.get("message"), str))
    told = plain(message) if isinstance(message, str) else ""
    return (plain(code) if isinstance(code, str) else None), f"{told} {inner}".strip(), known


def join_code(code: str | None, message: str) -> str:
    """Return code and message of an error as one text, empty where it has none."""
    return ": ".join(filter(None, (code, message)))


def _decode(raw: bytes, status: int, host: str) -> Any:
    text = raw.decode("utf-8-sig", errors="replace").strip()
    if not text:
        return None
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        if status >= 300:
            return text[:200]
        raise AzureError(
            f"{host} did not answer with JSON, but {excerpt(text)}. Check for a proxy or portal on the way.",
            MALFORMED,
            status,
        ) from error


def _fault(answer: Answer) -> AzureError:
    """Return the error for an answer that cannot be used."""
    code, message, details = read_error(answer.body)
    told = join_code(code, message)
    if not told and isinstance(answer.body, str):
        told = excerpt(answer.body)
    said = f" {told}" if told else ""
    status = answer.status
    if status == 401:
        return AzureError(f"Azure does not take the token of this login (401).{said}", LOGIN, 401, code)
    if status == 403:
        return AzureError(
            f"This login has not the right for it (403).{said} Give it the role that the guide "
            '"Without touching the VMs" names.',
            FORBIDDEN,
            403,
            code,
        )
    if 300 <= status < 400 and "location" in answer.headers:
        host = _read_host(answer.headers["location"])
        where = f", at {host}" if host else ""
        return AzureError(
            f"Azure answered {status} and names another address{where}. Check for a proxy or portal on the way.",
            HTTP_STATUS,
            status,
            code,
        )
    wait = math.ceil(min(read_retry_after(answer.headers), _LONGEST_WAIT_TOLD))
    asked = f" Azure asks to wait {format_duration(wait)} before the next request." if wait else ""
    if status == 429:
        advice = asked or " Ask less often."
        return AzureError(f"Azure kept refusing for too many requests (429).{said}{advice}", THROTTLED, 429, code)
    return AzureError(f"Azure answered {status}.{said}{asked}", HTTP_STATUS, status, code, details)


def _read_host(address: str) -> str:
    """Return the host of an address, without what may be a secret in it."""
    try:
        return plain(urlsplit(address).hostname or "")
    except ValueError:
        return ""
