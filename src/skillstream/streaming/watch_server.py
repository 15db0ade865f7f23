"""The server behind `skillstream watch`: a page, its parts, and what it shows, for browsers on this machine.

It only reads. A fixed set of paths is answered, to requests that name this server as their host: a site
elsewhere that has its own name point to this machine gets nothing. Clients are few and each has little
time, so that none of them keeps the others waiting.
"""

import ipaddress
import json
import socket
import sys
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zlib import crc32

from skillstream.errors import InputError
from skillstream.reporting.figures import COLOURS
from skillstream.streaming.watch_state import Watched

MOST_CLIENTS = 32
SLOWEST = 10.0  # seconds that a client has for its whole request and answer
LONGEST_TARGET = 1000
_POLL = 0.5  # seconds between readings of the directory
_PORTS = 20  # tried from the wanted one on
_HTML, _CSS, _JS, _JSON = (
    f"{kind}; charset=utf-8" for kind in ("text/html", "text/css", "text/javascript", "application/json")
)
_PARTS = {
    "/": ("skillstream.streaming", "watch_page/index.html", _HTML),
    "/page.css": ("skillstream.reporting", "page.css", _CSS),
    "/watch.css": ("skillstream.streaming", "watch_page/watch.css", _CSS),
    "/watch.js": ("skillstream.streaming", "watch_page/watch.js", _JS),
    "/charts.js": ("skillstream.streaming", "watch_page/charts.js", _JS),
    "/words.js": ("skillstream.streaming", "watch_page/words.js", _JS),
}
_STATE = "/state"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}


class WatchServer(ThreadingMixIn, HTTPServer):
    """Serves one stream. As a context it also reads the directory, until it is left."""

    daemon_threads = True
    request_queue_size = MOST_CLIENTS

    def __init__(self, watched: Watched, host: str = "127.0.0.1", port: int = 8642):
        self.watched, self.host = watched, host
        self.parts = {path: (_bytes(*where), kind) for path, (*where, kind) in _PARTS.items()}
        self.build = f"{crc32(b''.join(data for data, _ in self.parts.values())):08x}"
        self._clients: dict[socket.socket, float] = {}
        self._guard, self._ended = threading.Lock(), threading.Event()
        address, self.address_family = _resolve(host, port)
        super().__init__((address, port), _Handler, bind_and_activate=False)
        self._bind(address, port)
        self.is_local = ipaddress.ip_address(address.partition("%")[0]).is_loopback
        self.names = _names(host, self.is_local)

    @property
    def url(self) -> str:
        """Where a browser finds the page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_port}/"

    def __enter__(self) -> "WatchServer":
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *ending: Any) -> None:
        self._ended.set()
        self.server_close()

    def server_bind(self) -> None:
        """Bind without asking the network for the machine's name, which can take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.host, self.server_address[1]

    def answers(self, host: str) -> bool:
        """Whether a request that gives `host` as its host means this server."""
        try:
            parsed = urlsplit(f"//{host}")
            name, port = parsed.hostname, parsed.port or 80
        except ValueError:
            return False
        if name is None or port != self.server_port or host.lower() not in _spellings(name, port):
            return False
        return name in self.names or (not self.is_local and _is_address(name))

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a client if there are not too many."""
        with self._guard:
            if len(self._clients) >= MOST_CLIENTS:
                return False
            self._clients[request] = time.monotonic() + SLOWEST
            return True

    def service_actions(self) -> None:
        """Hang up on clients that took too long."""
        now = time.monotonic()
        with self._guard:
            for client in [client for client, until in self._clients.items() if until < now]:
                _hang_up(client)

    def shutdown_request(self, request: Any) -> None:
        """Let a client go."""
        with self._guard:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up or is too slow is no event; a mistake of this program is one."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def _read(self) -> None:
        while not self._ended.is_set():
            more = self.watched.refresh()
            self._ended.wait(0.005 if more else _POLL)

    def _bind(self, address: str, port: int) -> None:
        last = port if port == 0 else min(port + _PORTS - 1, 65535)
        for candidate in range(port, last + 1):
            self.server_address = (address, candidate)
            try:
                self.server_bind()
                self.server_activate()
            except OSError as error:
                if candidate == last:
                    self.server_close()
                    tried = f"{port}" if port == last else f"any of {port} to {last}"
                    message = (
                        f"--port: cannot listen on {tried} at {self.host}: {error.strerror}; name another"
                    )
                    raise InputError(message) from error
            else:
                return


class _Handler(BaseHTTPRequestHandler):
    """Answers one request, and hangs up."""

    timeout = SLOWEST / 2
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "skillstream", ""

    def do_GET(self) -> None:
        """Send a part of the page, or what it shows."""
        if len(self.path) > LONGEST_TARGET:
            return self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
        server = self._watching
        named = self.headers.get_all("Host", [])
        if len(named) != 1 or not server.answers(named[0].strip()):
            return self.send_error(HTTPStatus.MISDIRECTED_REQUEST, f"this server is {server.url}")
        path, _, query = self.path.partition("?")
        if path == _STATE:
            return self._send(HTTPStatus.OK, self._state(query), _JSON)
        if path in server.parts and not query:
            return self._send(HTTPStatus.OK, *server.parts[path])
        return self.send_error(HTTPStatus.NOT_FOUND)

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Plain words. `message` may hold what the client sent, unless it comes from here."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            code = HTTPStatus.METHOD_NOT_ALLOWED
        status = HTTPStatus(code)
        more = f"; {message}" if status == HTTPStatus.MISDIRECTED_REQUEST else ""
        extra = {"Allow": "GET, HEAD"} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
        self._send(status, f"{status.phrase}{more}\n".encode(), "text/plain; charset=utf-8", extra)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: the page asks once a second."""

    @property
    def _watching(self) -> WatchServer:
        assert isinstance(self.server, WatchServer)
        return self.server

    def _send(
        self, status: HTTPStatus, body: bytes, kind: str, extra: Mapping[str, str] | None = None
    ) -> None:
        self.close_connection = True
        self.request_version = self.protocol_version  # whatever was asked with, the headers must be there
        self.send_response(status)
        for name, value in {**_HEADERS, **(extra or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _state(self, query: str) -> bytes:
        """What the page shows; the query says which points it has, as `whole=EPOCH.NUMBER`."""
        try:
            asked = parse_qs(query, max_num_fields=4)
        except ValueError:
            asked = {}
        known = {name: _place(asked.get(name, [""])[0]) for name in ("whole", "latest")}
        server = self._watching
        view = {"build": server.build, "colours": COLOURS, **server.watched.view(**known)}
        return json.dumps(view, allow_nan=False, separators=(",", ":")).encode()


def _place(asked: str) -> tuple[str, int]:
    epoch, _, number = asked.rpartition(".")
    return (epoch, int(number)) if number.isascii() and number.isdigit() and len(number) < 8 else ("", 0)


def _bytes(package: str, name: str) -> bytes:
    return (files(package) / name).read_bytes()


def _resolve(host: str, port: int) -> tuple[str, socket.AddressFamily]:
    if not 0 <= port <= 65535:
        raise InputError(f"--port: must be from 0 (any that is free) to 65535, found {port}")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"--host: {host!r} is no address of this machine ({error})") from error
    return str(address[0]), family


def _names(host: str, is_local: bool) -> set[str]:
    """What a browser may call this server; addresses come on top where it listens to other machines."""
    names = {"localhost", "127.0.0.1", "::1", host.lower()}
    return names if is_local else names | {socket.gethostname().lower()}


def _spellings(name: str, port: int) -> set[str]:
    """A name and port as a header has them: nothing before, between or after."""
    host = f"[{name}]" if ":" in name else name
    return {f"{host}:{port}", host} if port == 80 else {f"{host}:{port}"}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _hang_up(client: socket.socket) -> None:
    try:
        client.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
