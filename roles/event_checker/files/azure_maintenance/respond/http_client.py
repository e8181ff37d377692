# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to another service with ``requests``: secrets, tries and pauses, and a bound on all of it.

A certificate is always checked, no redirect is followed, and no cookie or ``~/.netrc`` is used. The proxies of the
environment (``https_proxy``, ``no_proxy``, …) are, except for addresses of loopback.
"""

from __future__ import annotations

import base64
import html
import importlib
import ipaddress
import json
import os
import re
import ssl
import stat
import time
from typing import Any, Callable
from urllib.parse import quote

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import excerpt, one_line

from ..config.values import AN_ADDRESS, split_address
from .http_answer import Answer, chain, send

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
# Even where no time is left, one try has this much.
_LEAST = 1.0
# The first of several addresses of a host may be dead.
_LONGEST_CONNECT = 10.0
# AWX gives up a request after two minutes, so a later answer never comes.
_LONGEST_TRY = 120.0
_LONGEST_SECRET = 64 * 1024
_SHORTEST_BASE64 = 8


class NotifyError(Exception):
    """A service was not told.

    :ivar permanent: whether trying again is in vain until a person has changed something.
    """

    def __init__(self, message: str, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class Service:
    """An address, the headers that are sent there, and the secrets that no message may show.

    :param shows_path: the path is no secret, so messages show it.
    """

    def __init__(self, url: str, ca_file: str | None, shows_path: bool = False) -> None:
        parts = split_address(url)
        if parts is None:
            raise NotifyError(f"The address must be {AN_ADDRESS}.", permanent=True)
        if ca_file is not None:
            try:
                ssl.create_default_context(cafile=ca_file)
            except OSError as error:
                raise NotifyError(
                    f"ca_file {one_line(ca_file)} has no certificates that can be used ({error.strerror or error}).",
                    permanent=True,
                ) from None
        self.name = one_line(f"{parts.scheme}://{parts.netloc}")
        # The words of AWX's answers count, so they must come in English.
        self.headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Accept-Language": "en",
            "Content-Type": "application/json",
            "User-Agent": "fleetops.azure_maintenance",
        }
        self.url = url
        self._shows_path = shows_path
        self._encrypted = parts.scheme == "https"
        self._loopback = _is_loopback(parts.hostname or "")
        self._verify = True if ca_file is None else ca_file
        self._hidden: set[str] = set()

    def hide(self, text: str) -> None:
        """Keep this text out of all messages, even if the service should repeat it."""
        if text:
            content = text.encode("utf-8", "replace")
            self._hidden |= {text, json.dumps(text)[1:-1], html.escape(text), content.decode("latin-1")}
            self._hidden |= {quote(content), quote(content, safe="")} | _base64_pieces(content)

    def read_secret(self, path: str) -> str:
        secret = read_secret(path)
        self.hide(secret)
        return secret

    def read_sent_secret(self, path: str) -> str:
        """Return a secret that is itself sent, and so only with https."""
        if not self._encrypted and not self._loopback:
            raise NotifyError(
                f"The secret in {one_line(path)} is not sent to {self.name} unencrypted. Give an address https://….",
                permanent=True,
            )
        return self.read_secret(path)

    def use_token(self, path: str) -> None:
        token = self.read_sent_secret(path)
        if not re.fullmatch(r"[!-~]+", token):
            raise NotifyError(f"The token in {one_line(path)} must be one word of ASCII characters.", permanent=True)
        self.headers["Authorization"] = f"Bearer {token}"

    def post(self, content: bytes, seconds: float) -> Answer:
        """POST the content, again and again until there is an answer that may stand.

        :raises NotifyError: there was none in so many seconds.
        """
        return self.repeat(lambda left: self.send("POST", self.url, content, left), seconds)

    def repeat(self, one_try: Callable[[float], tuple[Answer, str | None]], seconds: float) -> Answer:
        """Try again and again until there is an answer that may stand.

        :param one_try: gets the seconds that are left, and returns a result of :meth:`send`.
        :raises NotifyError: there was none in so many seconds.
        """
        end = time.monotonic() + max(seconds, _LEAST)
        pause = _FIRST_PAUSE
        tries = 0
        while True:
            tries += 1
            answer, problem = one_try(max(end - time.monotonic(), 0.1))
            if problem is None:
                return answer
            left = end - time.monotonic()
            asked = answer.asked_pause()
            if left < _FIRST_PAUSE or asked >= left:
                raise NotifyError(
                    problem
                    + (f" It asks to wait {asked:.0f} seconds." if asked else "")
                    + (f" It was tried {tries} times." if tries > 1 else "")
                )
            # Never more than half of the time left, so that a service that comes back late is still told.
            time.sleep(max(min(pause, left / 2), asked))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def send(self, method: str, url: str, content: bytes, seconds: float) -> tuple[Answer, str | None]:
        """Send one request, and return the answer, and a sentence if another try may help."""
        requests = _import_requests()
        seconds = min(seconds, _LONGEST_TRY)
        answer = send(
            requests,
            {
                "method": method,
                "url": url,
                "data": content,
                "headers": self.headers,
                "timeout": (min(seconds, _LONGEST_CONNECT), seconds),
                "verify": self._verify,
                "proxies": {} if self._loopback else requests.utils.get_environ_proxies(url),
            },
            seconds,
        )
        status, error, asked = answer.status, answer.error, self._asked(answer)
        if error is not None and answer.is_garbled():
            return answer, (
                f"{asked} answered HTTP {status}, but the rest is not HTTP ({self._reason(error)}). "
                "Check the address, and the proxies between it and this VM."
            )
        if status >= 500 or status in (408, 409, 425, 429):
            return answer, str(self.refusal(answer, ""))
        if status:
            return answer, None
        if error is None or isinstance(error, requests.exceptions.ReadTimeout):
            return answer, f"{asked} gave no answer in time."
        certificate = next((item for item in chain(error) if _is_about_certificate(item)), None)
        if certificate is not None:
            said = getattr(certificate, "verify_message", "") or str(certificate)
            raise NotifyError(
                f"The certificate of {self.name} is not trusted: {self._shown(said)}. Check the address, the clock of "
                "this VM, and ca_file.",
                permanent=True,
            )
        if isinstance(error, ValueError):
            raise NotifyError(f"{asked} cannot be asked ({type(error).__name__}).", permanent=True)
        through = " through the proxy" if isinstance(error, requests.exceptions.ProxyError) else ""
        return answer, f"{asked} cannot be reached{through} ({self._reason(error)})."

    def refusal(self, answer: Answer, advice: str) -> NotifyError:
        """Return the error for a bad answer that no retry mends."""
        asked = self._asked(answer)
        if 300 <= answer.status < 400:
            return NotifyError(
                f"{asked} redirects (HTTP {answer.status}) to {self._shown(answer.location)}, which is not "
                "followed because secrets could go astray. Give the final address.",
                permanent=True,
            )
        said = answer.said()
        message = f"{asked} answered HTTP {answer.status}{': ' + self._shown(said) if said else ''}. {advice}"
        return NotifyError(message.rstrip(), permanent=True)

    def _asked(self, answer: Answer) -> str:
        return one_line(answer.url.partition("?")[0]) if self._shows_path else self.name

    def _reason(self, error: BaseException) -> str:
        """Return the message of a library below requests, because requests' own hold the whole address."""
        for item in chain(error):
            if type(item).__module__.split(".")[0] not in ("requests", "urllib3"):
                if isinstance(item, OSError):
                    return one_line(self._without_secrets(item.strerror or str(item)))
                return f"{type(item).__name__}: {self._shown(str(item))}"
        return type(error).__name__

    def _shown(self, text: str) -> str:
        return excerpt(self._without_secrets(text))

    def _without_secrets(self, text: str) -> str:
        for hidden in sorted(self._hidden, key=len, reverse=True):
            text = text.replace(hidden, "***")
        return text


def _base64_pieces(content: bytes) -> set[str]:
    """Return the part that each base64 text with this content in it has, wherever it begins there."""
    texts = (base64.b64encode(bytes(offset) + content).decode()[4 if offset else 0 : -4] for offset in range(3))
    # A shorter one may be part of any word.
    return {text for text in texts if len(text) >= _SHORTEST_BASE64}


def read_secret(path: str) -> str:
    """Return the first line of a file that nobody else can read.

    :raises NotifyError: there is no such file, or it can be read by others, or holds no secret.
    """

    def wrong(fault: str) -> NotifyError:
        return NotifyError(f"The secret file {one_line(path)} {fault}.", permanent=True)

    try:
        # Without O_NONBLOCK a named pipe would block here.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise wrong("is not a regular file")
            if status.st_uid not in (0, os.geteuid()):
                raise wrong("belongs to another user: chown it to root, or to the user that runs this")
            if status.st_mode & 0o077:
                raise wrong("is open to others than its owner: chmod 600 it")
            line = file.readline(_LONGEST_SECRET)
    except (OSError, ValueError) as error:
        raise wrong(f"cannot be read ({getattr(error, 'strerror', None) or 'no such path'})") from None
    try:
        secret = re.sub(r"\r?\n$", "", line.decode("utf-8"))
    except UnicodeDecodeError:
        secret = "\0"
    if not secret:
        raise wrong("is empty, or its first line is")
    if not secret.isprintable():
        raise wrong("holds something else than printable characters in its first line")
    return secret


def _import_requests() -> Any:
    try:
        return importlib.import_module("requests")
    except ImportError:
        raise NotifyError(
            "Webhooks and AWX need the Python library requests: install the Debian package python3-requests.",
            permanent=True,
        ) from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_about_certificate(error: BaseException) -> bool:
    # The second is urllib3's own, for a certificate of another host; its place varies between versions.
    return isinstance(error, ssl.SSLCertVerificationError) or type(error).__name__ == "CertificateError"
