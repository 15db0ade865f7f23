"""The server of the watch page: what it answers, to whom, and that nobody keeps it busy."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest
from watched import append, write_state, write_status

from skillstream.cli import main
from skillstream.errors import InputError
from skillstream.streaming import watch_server
from skillstream.streaming.watch_server import WatchServer
from skillstream.streaming.watch_state import Watched


@contextmanager
def serving(server):
    """Answer requests until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    watched = Watched(write_state(tmp_path_factory.mktemp("watched")))
    watched.refresh()
    with serving(WatchServer(watched, port=0)) as server:
        yield server


def ask(server, target="/", method="GET", **headers):
    """The answer to a request: status, headers, body."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)) as connection:
        connection.request(method, target, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def say(server, request):
    """What comes back for bytes on the wire."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall(request.replace(b"PORT", str(server.server_port).encode()))
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("path", "kind", "holds"),
    [
        ("/", "text/html", b'<script type="module" src="watch.js">'),
        ("/page.css", "text/css", b"--ground"),
        ("/watch.css", "text/css", b".pill"),
        ("/watch.js", "text/javascript", b"textContent"),
        ("/charts.js", "text/javascript", b"export class Plot"),
        ("/words.js", "text/javascript", b"export function"),
        ("/state", "application/json", b'"samples":120000'),
    ],
)
def test_every_part_of_the_page_is_served_with_its_guards(served, path, kind, holds):
    status, headers, body = ask(served, path)
    assert status == 200
    assert headers["Content-Type"] == f"{kind}; charset=utf-8"
    assert holds in body
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = headers["Content-Security-Policy"]
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert "Access-Control-Allow-Origin" not in headers
    assert "Python" not in headers["Server"]
    head = ask(served, path, "HEAD")
    assert head[0] == 200
    assert head[2] == b""
    assert path == "/state" or head[1]["Content-Length"] == str(len(body))


def test_the_page_takes_nothing_from_elsewhere_and_puts_in_no_html(served):
    for body, kind in served.parts.values():
        text = body.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//\w+\.\w", text), kind
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text
        )
        assert not re.search(r"<style|\sstyle=|\son\w+=\"|<script(?![^>]*src)", text)


@pytest.mark.parametrize(
    "target",
    [
        "/nothing",
        "/../page.css",
        "/..%2fwatch_state.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/watch_page/watch.js",
        "/watch.js?x",
        "/watch.js/",
        "/state/",
        "/status.json",
    ],
)
def test_there_is_nothing_else(served, target):
    status, headers, body = ask(served, target)
    assert (status, body) == (404, b"Not Found\n")
    assert headers["Content-Type"].startswith("text/plain")
    assert "Content-Security-Policy" in headers


@pytest.mark.parametrize("host", ["localhost:PORT", "LOCALHOST:PORT", "127.0.0.1:PORT", "[::1]:PORT"])
def test_a_host_that_is_this_machine_is_answered(served, host):
    request = f"GET /state HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    assert say(served, request).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["localhost"],
        ["127.0.0.1"],
        ["localhost:1"],
        ["localhost:"],
        ["localhost:PORT:PORT"],
        ["evil.example:PORT"],
        ["localhost.evil.example:PORT"],
        ["evil@localhost:PORT"],
        ["localhost:PORT/x"],
        ["localhost.:PORT"],
        ["127.0.0.2:PORT"],
        ["[::1:PORT"],
        ["localhost:PORT", "evil.example:PORT"],
    ],
)
def test_a_host_that_is_not_this_server_is_refused(served, hosts):
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    answer = say(served, f"GET /state HTTP/1.1\r\n{lines}\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 421 ")
    assert b"samples" not in answer
    assert b"evil" not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "NONSENSE"])
def test_nothing_can_be_changed(served, method):
    status, headers, _ = ask(served, "/state", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /state?whole=" + b"x" * 2000 + b" HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: localhost:PORT\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: localhost:PORT\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"431"),
        (b"<script>alert(1)</script>\r\n\r\n", b"400"),
        (b"GET / HTTP/9\r\n\r\n", b"400"),
        (b"GET http://localhost/state HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n", b"404"),
    ],
)
def test_requests_that_are_none_get_plain_words(served, request_, status):
    answer = say(served, request_)
    assert answer.split(b" ")[1] == status
    assert b"text/plain" in answer
    assert b"script>" not in answer


@pytest.mark.parametrize(
    "query", ["", "?whole=nonsense&latest=1.2.3", "?whole=.99999999999&x=%00&whole=%ff", "?&&&&&&"]
)
def test_a_query_that_is_nonsense_gets_everything(served, query):
    status, _, body = ask(served, f"/state{query}")
    assert status == 200
    assert len(json.loads(body)["whole"]["points"]) == 400


def test_a_page_is_told_what_is_new(tmp_path):
    watched = Watched(write_state(tmp_path))
    with serving(WatchServer(watched, port=0)) as server:
        watched.refresh()
        found = json.loads(ask(server, "/state")[2])["whole"]
        append(tmp_path, [{"step": 125_000, "recent_log_likelihood": -0.3}])
        watched.refresh()
        news = json.loads(ask(server, f"/state?whole={found['epoch']}.{len(found['points'])}")[2])
    assert news["whole"]["first"] == 399
    assert [point[0] for point in news["whole"]["points"]] == [120_000, 125_000]
    assert news["latest"]["first"] == 0


def test_slow_clients_are_few_and_let_go(tmp_path, monkeypatch):
    monkeypatch.setattr(watch_server, "SLOWEST", 1.0)
    monkeypatch.setattr(watch_server, "MOST_CLIENTS", 3)
    with serving(WatchServer(Watched(tmp_path), port=0)) as server, ExitStack() as stack:
        address = ("127.0.0.1", server.server_port)
        slow = [stack.enter_context(socket.create_connection(address, timeout=4)) for _ in range(3)]
        slow[0].sendall(b"GET / HT")
        slow[1].sendall(b"GET /state HTTP/1.1\r\nX: ")
        with pytest.raises(ConnectionError):  # connections are taken in order: this is the fourth
            ask(server)
        for client in slow:
            with suppress(ConnectionError):
                assert client.recv(100) == b""  # hung up on
        until, status = time.monotonic() + 10, 0
        while status != 200 and time.monotonic() < until:  # their threads end a little later
            with suppress(ConnectionError):
                status = ask(server)[0]
        assert status == 200


def test_a_port_in_use_makes_way_for_the_next(tmp_path):
    watched = Watched(tmp_path)
    one = WatchServer(watched, port=0)
    with serving(one), serving(WatchServer(watched, port=one.server_port)) as two:
        assert one.server_port < two.server_port < one.server_port + 20
        assert ask(two)[0] == 200


def test_what_cannot_be_listened_on(tmp_path, monkeypatch):
    watched = Watched(tmp_path)
    with pytest.raises(InputError, match="--port: must be from 0"):
        WatchServer(watched, port=65536)
    with pytest.raises(InputError, match="--host: 'no such host' is no address"):
        WatchServer(watched, host="no such host")
    monkeypatch.setattr(watch_server, "_PORTS", 1)
    with serving(WatchServer(watched, port=0)) as first:
        taken = first.server_port
        with pytest.raises(
            InputError, match=f"--port: cannot listen on {taken} at 127.0.0.1: .*name another"
        ):
            WatchServer(watched, port=taken)


def test_beyond_this_machine_addresses_and_its_name_are_answered(tmp_path):
    server = WatchServer(Watched(tmp_path), host="0.0.0.0", port=0)
    port = server.server_port
    server.server_close()
    assert not server.is_local
    for name in ("192.168.1.5", "[fe80::1]", "localhost", socket.gethostname()):
        assert server.answers(f"{name}:{port}"), name
    for name in ("evil.example", "192.168.1.5.evil.example"):
        assert not server.answers(f"{name}:{port}"), name


# ---- the command


@pytest.mark.filterwarnings("always:--host")
def test_the_command_warns_beyond_this_machine(tmp_path, monkeypatch, capsys):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(WatchServer, "serve_forever", interrupted)
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["watch", str(tmp_path), "--port", "0", "--host", "0.0.0.0", "--open"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("skillstream: warning: --host: whoever can reach http://0.0.0.0:")
    assert opened[0] in said.out.replace("\n", "")


def test_the_command_needs_a_directory(tmp_path, capsys):
    (tmp_path / "file").touch()
    for name in ("nothing", "file"):
        assert main(["watch", str(tmp_path / name)]) == 2
        assert "directory: there is no directory" in capsys.readouterr().err


def test_the_command_follows_a_directory_until_ctrl_c(tmp_path):
    code = "import sys; from skillstream.cli import main; code = main(sys.argv[1:]); "
    code += (
        "print([name for name in ('jax', 'matplotlib', 'gymnasium') if name in sys.modules]); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "watch", str(tmp_path), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = json.loads(process.stdout.readline())["url"]
            write_state(tmp_path)
            until, samples = time.monotonic() + 20, None
            while samples != 130_000 and time.monotonic() < until:
                with urllib.request.urlopen(f"{url}state", timeout=10) as answer:
                    view = json.loads(answer.read())
                samples = view["status"] and view["status"]["samples"]
                write_status(tmp_path, samples=130_000)
                time.sleep(0.05)
            assert samples == 130_000
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, "")
    assert out.strip() == "[]"
