"""JSON over HTTP with the standard library: one client and one server class, for services that stand near.

A service has no login and is never reached through the machine's proxies.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import logging
import socket
import sys
import time
import urllib.parse
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
        unknown: Callable[[str], Exception] | None = None,
    ) -> None:
        """Remember where the server is; nothing is sent.

        Args:
          url: http or https.
          url_option: option that holds ``url``, for messages.
          timeout_s: seconds that a call may take, from its first byte to the last one of the answer.
          timeout_option: option that holds ``timeout_s``, for messages.
          service: noun of messages, such as "retrieval server".
          start: command that starts one, for messages.
          error: makes the exception of a failed call.
          unknown: makes that of a call that is answered 404; None: ``error``.

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
        self._connection = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._below = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self.timeout_s = timeout_s
        self._url_option, self._timeout_option = url_option, timeout_option
        self._service, self._start, self._error, self._unknown = service, start, error, unknown or error

    def call(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """POST a body, or GET without one; the answer is an object.

        Raises:
          error: (see ``__init__``) no server, a slow one, an error status, or an answer that is no JSON object.
        """
        here = f"the {self._service} at {self.url}"
        data = None if body is None else json.dumps(body).encode("ascii")  # json escapes the rest
        try:
            status, text = self._exchange(path, data)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, TimeoutError):
                raise self._error(
                    f"{here} took longer than {self._timeout_option}={self.timeout_s:g}: raise it, or lower the load"
                ) from error
            raise self._error(
                f"no {self._service} at {self.url} ({error}): start one with '{self._start}', or set {self._url_option}"
            ) from error
        if status != http.HTTPStatus.OK:
            said = text[:500].decode("utf-8", errors="replace")
            failure = self._unknown if status == http.HTTPStatus.NOT_FOUND else self._error
            raise failure(f"the {self._service} answered {status} to {self.url}{path}: {said}")
        if len(text) > MAX_BYTES:
            raise self._error(f"{here} sent more than {MAX_BYTES} bytes")
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._error(f"{here} sent no JSON: {error}") from error
        if not isinstance(answer, dict):
            raise self._error(f"{here} sent {type(answer).__name__}, not an object")
        return answer

    def _exchange(self, path: str, data: bytes | None) -> tuple[int, bytes]:
        """Status and body of an answer, at most one byte more than ``MAX_BYTES``.

        Raises:
          TimeoutError: the whole call did not end in time.
        """
        deadline = time.monotonic() + self.timeout_s
        connection = self._connection(self._host, self._port, timeout=self.timeout_s)
        connection.response_class = _Response
        with contextlib.closing(connection):
            connection.connect()
            connection.sock.settimeout(_left(deadline))
            method = "GET" if data is None else "POST"
            connection.request(method, self._below + path, body=data, headers={"Content-Type": "application/json"})
            connection.sock.settimeout(_left(deadline))
            with connection.getresponse() as response:
                return response.status, response.read(MAX_BYTES + 1)


class _Response(http.client.HTTPResponse):
    """An answer whose reads all together take no longer than the timeout that its socket has at the beginning."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_TimedReader(sock, self.fp.detach()))


class _TimedReader(io.RawIOBase):
    """Bytes of a socket, until its timeout is used up; a timeout alone begins anew with every byte that arrives."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        super().__init__()
        self._sock, self._raw = sock, raw
        self._deadline = time.monotonic() + (sock.gettimeout() or 0.0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(deadline: float) -> float:
    """Seconds until a time of ``time.monotonic``.

    Raises:
      TimeoutError: it has passed.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


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
