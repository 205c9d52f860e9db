"""JSON over HTTP with the standard library: one client and one server class, for services that stand near.

A service has no login and is never reached through the machine's proxies.
"""

from __future__ import annotations

import http.client
import json
import logging
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

logger = logging.getLogger(__name__)

MAX_BYTES = 8 * 2**20  # of an answer
_MAX_BODY = 2**20  # of a request


class JsonClient:
    """Requests to one server; safe to share between threads."""

    def __init__(
        self,
        url: str,
        *,
        url_option: str,
        timeout_s: float,
        timeout_option: str,
        service: str,
        start: str,
        error: Callable[[str], Exception],
    ) -> None:
        """Remember where the server is; nothing is sent.

        Args:
          url: http or https, without a path.
          url_option: option that holds ``url``, for messages.
          timeout_s: seconds that the server may be silent.
          timeout_option: option that holds ``timeout_s``, for messages.
          service: noun of messages, such as "retrieval server".
          start: command that starts one, for messages.
          error: makes the exception of a failed call.

        Raises:
          ValueError: ``url`` is not http or https.
        """
        try:
            parts = urllib.parse.urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is none
            usable = False
        if not usable:
            raise ValueError(f"{url_option}={url!r}: give a URL such as http://127.0.0.1:8000")
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._url_option, self._timeout_option = url_option, timeout_option
        self._service, self._start, self._error = service, start, error
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """POST a body, or GET without one; the answer is an object.

        Raises:
          error: (see ``__init__``) no server, a slow one, an error status, or an answer that is no JSON object.
        """
        here = f"the {self._service} at {self.url}"
        data = None if body is None else json.dumps(body).encode("ascii")  # json escapes the rest
        request = urllib.request.Request(self.url + path, data=data, headers={"Content-Type": "application/json"})
        try:
            with self._opener.open(request, timeout=self.timeout_s) as response:
                text = response.read(MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            said = error.read(500).decode("utf-8", errors="replace")
            raise self._error(f"the {self._service} answered {error.code} to {self.url}{path}: {said}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise self._error(
                    f"{here} took longer than {self._timeout_option}={self.timeout_s:g}: raise it, or lower the load"
                ) from error
            raise self._error(
                f"no {self._service} at {self.url} ({reason}): start one with '{self._start}', or set "
                f"{self._url_option}"
            ) from error
        if len(text) > MAX_BYTES:
            raise self._error(f"{here} sent more than {MAX_BYTES} bytes")
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._error(f"{here} sent no JSON: {error}") from error
        if not isinstance(answer, dict):
            raise self._error(f"{here} sent {type(answer).__name__}, not an object")
        return answer


class RequestError(ValueError):
    """A faulty request; the text goes to the client with status 400."""


class JsonServer(ThreadingHTTPServer):
    """One thread per request; ``serve_forever`` to run, port 0 takes a free port."""

    daemon_threads = True
    request_queue_size = 128  # connections that may wait; the default of 5 turns bursts away

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what happened; the other connections go on. A client that has left is no fault."""
        left = isinstance(sys.exception(), ConnectionError)
        logger.log(
            logging.DEBUG if left else logging.WARNING, "the connection of %s broke", client_address, exc_info=True
        )

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"


class JsonHandler(BaseHTTPRequestHandler):
    """Reads one JSON body and sends one JSON object."""

    timeout = 30  # seconds that a silent client may hold a thread

    def log_message(self, format: str, *args: Any) -> None:
        """One line per request, for debugging only."""
        logger.debug(format, *args)

    def read_json(self) -> Any:
        """The body.

        Raises:
          RequestError: no length, too long, or no JSON.
        """
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > _MAX_BODY:
            self.close_connection = True
            raise RequestError(f"Content-Length {length!r}: give one, at most {_MAX_BODY} bytes")
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise RequestError(f"the body is not JSON: {error}") from error

    def send_json(self, status: int, answer: Mapping[str, Any]) -> None:
        """Answer with a status and an object."""
        self.send_bytes(status, encode(answer))

    def send_bytes(self, status: int, data: bytes) -> None:
        """Answer with a status and an object that is encoded already."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def encode(answer: Mapping[str, Any]) -> bytes:
    """An object as JSON.

    Raises:
      TypeError: something in it is no JSON.
    """
    return json.dumps(answer).encode("ascii")  # json escapes the rest
