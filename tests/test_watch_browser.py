"""The watch page in a browser: it follows the files, says when nobody writes, runs nothing that it shows."""

import json
import os
import threading
from contextlib import contextmanager

import pytest
from selenium.webdriver.support.ui import WebDriverWait
from test_browser import SIZES, browser, look  # noqa: F401
from test_watch import gone  # noqa: F401
from watched import append, status, write_state, write_status

from skillstream.streaming import watch_server
from skillstream.streaming.watch_server import WatchServer
from skillstream.streaming.watch_state import Watched

SCRIPT = "<script>document.title='owned'</script>"
HOSTILE = f"</td></script>{SCRIPT}<img src=x onerror=alert(1)>\ud800\x1b[2J\u202e"
MINUS = "\N{MINUS SIGN}"


@contextmanager
def watching(directory, port=0):
    """A server that follows a directory until the block ends."""
    with WatchServer(Watched(directory), port=port) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(watch_server, "_POLL", 0.05)


def shows(browser, words, where="main"):  # noqa: F811
    """Wait until a part of the page shows words; as when one comes back to it, the page asks at once."""
    script = """document.dispatchEvent(new Event('visibilitychange'));
        return document.querySelector(arguments[0]).innerText"""
    try:
        WebDriverWait(browser, 15, 0.05).until(lambda b: words in b.execute_script(script, where))
    except Exception as error:
        raise AssertionError(f"{words!r} is not in {browser.execute_script(script, where)!r}") from error


def drawn(browser):  # noqa: F811
    """For each figure, the ends of its drawing and how many shapes it has."""
    return browser.execute_script(
        """return Object.fromEntries([...document.querySelectorAll('figure')].map(figure => {
            const svg = figure.querySelector('svg'), box = svg.getBoundingClientRect();
            const shapes = svg.querySelectorAll('path[d^=M], circle').length;
            return [figure.id, [box.left, box.right, box.height, shapes]];
        }))"""
    )


@pytest.mark.parametrize("size", SIZES)
def test_the_page_follows_the_stream(browser, tmp_path, gone, size):  # noqa: F811
    directory = tmp_path / "cart-pole"
    directory.mkdir()
    with watching(directory) as server:
        look(browser, server.url, size, "dark" if size == "phone" else "light")
        shows(browser, "nothing yet", "#pill")
        write_state(directory, options=8)
        shows(browser, "running", "#pill")
        for words in (
            "120,000",
            "2,346",
            f"{MINUS}0.483",
            f"3e{MINUS}7",
            "window of 64 samples",
            "last: line 91,266",
        ):
            shows(browser, words, "#tiles")
        shows(browser, "action: 18 is outside 0 to 1", "#latest-rejects")
        shows(browser, "reaction forget", "#events")
        figures = drawn(browser)
        assert len(figures) == 6
        for left, right, height, shapes in figures.values():
            assert left >= 0
            assert right <= SIZES[size][0]
            assert height > 100
            assert shapes >= 1
        assert figures["timeline"][3] == figures["usage"][3] == 8
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        append(directory, [{"step": 130_000, "recent_log_likelihood": -0.1234, "usage": [0.125] * 8}])
        write_status(directory, options=8, samples=130_000, state="waiting")
        shows(browser, "130,000", "#tiles")
        shows(browser, f"{MINUS}0.1234", "#likelihood")
        shows(browser, "waiting", "#pill")
        write_status(directory, options=8, samples=130_000, pid=gone, updated=1.7e9)
        os.utime(directory / "metrics.jsonl", (1.7e9, 1.7e9))
        shows(browser, "dead", "#pill")
        shows(browser, f"Process {gone} ended without a word", ".alarm")
        write_status(directory, options=8, samples=140_000)
        shows(browser, "running", "#pill")
        write_status(directory, options=8, samples=140_000, state="finished")
        shows(browser, "finished", "#pill")
        assert browser.get_log("browser") == []


def test_a_chart_is_read_with_the_keys(browser, tmp_path):  # noqa: F811
    with watching(write_state(tmp_path / "state")) as server:
        look(browser, server.url, "desk")
        shows(browser, "latest", "#likelihood .readout")
        press = """const plot = document.querySelector('#likelihood .plot'); plot.focus();
            plot.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))"""
        browser.execute_script(press, "Home")
        shows(browser, "sample 300", "#likelihood .readout")
        browser.execute_script(press, "ArrowRight")
        shows(browser, "sample 600", "#likelihood .readout")
        label = browser.execute_script("return document.querySelector('#likelihood .plot').ariaLabel")
        assert label.startswith(
            f"Log-likelihood a sample over 400 points up to sample 120,000: recent {MINUS}0."
        )
        browser.execute_script("document.getElementById('show-latest').click()")
        assert browser.execute_script("return document.getElementById('show-latest').ariaPressed") == "true"
        assert browser.get_log("browser") == []


def test_hostile_data_are_shown_and_run_nothing(browser, tmp_path):  # noqa: F811
    rejects = [
        {"line": 10**400, "reason": HOSTILE, "text": HOSTILE},
        {"line": "x", "reason": 7, "text": None},
    ]
    write_state(tmp_path / "<b>state", rejects=rejects, source=HOSTILE, position={HOSTILE: HOSTILE})
    append(tmp_path / "<b>state", [{"step": 120_001, "event": HOSTILE, HOSTILE: HOSTILE}])
    append(
        tmp_path / "<b>state", [{"step": 120_002, "log_likelihood": 1e300, "rate": "<b>", "usage": ["<b>"]}]
    )
    with watching(tmp_path / "<b>state") as server:
        look(browser, server.url, "phone")
        for where in ("#reasons", "#latest-rejects", "#events", "#facts", "#beside"):
            shows(browser, SCRIPT, where)
        shows(browser, "\\ud800\\x1b[2J\\u202e", "#latest-rejects")
        shows(browser, "<b>state", "h1")
        found = browser.execute_script(
            "return document.querySelectorAll('main img, main script, main b b').length"
        )
        assert found == 0
        assert "owned" not in browser.execute_script("return document.title")
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        for kind in (7, "<b>", [], {}, None, 1e308, -1):
            wrong = dict.fromkeys(
                ("samples", "rate", "usage", "recent", "option", "certificate", "updated"), kind
            )
            last = status(source=f"kind {kind}") | wrong
            (tmp_path / "<b>state" / "status.json").write_text(json.dumps(last))
            shows(browser, f"kind {kind}", "#facts")
        assert browser.get_log("browser") == []


def test_the_page_outlives_its_server(browser, tmp_path):  # noqa: F811
    with watching(write_state(tmp_path / "state")) as server:
        look(browser, server.url, "desk")
        shows(browser, "120,000", "#tiles")
    shows(browser, "Lost the server", "#lost")
    write_status(tmp_path / "state", samples=150_000)
    append(tmp_path / "state", [{"step": 150_000, "recent_log_likelihood": -0.2345}])
    with watching(tmp_path / "state", server.server_port) as server:
        shows(browser, "150,000", "#tiles")
        shows(browser, f"{MINUS}0.2345", "#likelihood")
        assert browser.execute_script("return document.getElementById('lost').hidden")
        server.build = "that of a newer skillstream"
        kind = "return performance.getEntriesByType('navigation')[0].type"
        WebDriverWait(browser, 15, 0.05).until(lambda b: b.execute_script(kind) == "reload")
        shows(browser, "150,000", "#tiles")
