"""The report in a real browser, on a desk and on a phone: no error, no missing figure, nothing cut off."""

import os
import shutil

import pytest
from test_report import told  # noqa: F401

SIZES = {"desk": (1280, 900), "phone": (390, 844)}
FLAGS = (
    "headless=new",
    "no-sandbox",
    "disable-gpu",
    "disable-quic",
    "no-first-run",
    "disable-background-networking",
    "disable-component-update",
    "disable-sync",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    programs = shutil.which("chromium"), shutil.which("chromedriver")
    if None in programs:
        reason = "chromium and chromedriver are not installed (apt-get install chromium chromium-driver)"
        if os.environ.get("SKILLSTREAM_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for flag in (*FLAGS, f"user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(programs[1]))
    yield driver
    driver.quit()


def look(browser, url, size, scheme="light"):
    """Open a page in a window of a size; headless Chromium makes no real one as narrow as a phone."""
    width, height = SIZES[size]
    shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    chosen = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", chosen)
    browser.get_log("browser")
    browser.get(url)


@pytest.mark.parametrize("size", SIZES)
def test_a_report_in_a_browser(browser, told, size):  # noqa: F811
    look(browser, told.path.as_uri(), size)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.title").startswith("2 options learnt from hidden-goal")
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    pictures = browser.execute_script(
        "return [...document.images].map(i => [i.complete && i.naturalWidth, i.width, i.height])"
    )
    assert len(pictures) == 3
    assert all(number > 0 for picture in pictures for number in picture)
    drawn = browser.execute_script(
        """return [...document.querySelectorAll('svg[role=img]')]
            .map(s => [s.getBoundingClientRect(), s.querySelectorAll('path').length])
            .filter(([box]) => box.width > 0)
            .map(([box, paths]) => [box.width, box.height, box.left, box.right, paths])"""
    )
    assert len(drawn) == 4  # of the two made for each width, one is hidden
    for width, height, left, right, paths in drawn:
        assert width > 250
        assert height > 60
        assert left >= 0
        assert right <= SIZES[size][0]
        assert paths > 5


def test_a_report_follows_the_readers_colours(browser, told):  # noqa: F811
    colours = {}
    for scheme in ("light", "dark"):
        look(browser, told.path.as_uri(), "desk", scheme)
        colours[scheme] = browser.execute_script(
            """const text = document.querySelector('svg[role=img] text');
            return [getComputedStyle(document.body).backgroundColor, getComputedStyle(text).fill]"""
        )
    # The ink of the figures is that of the page.
    assert colours == {
        "light": ["rgb(255, 255, 255)", "rgb(29, 39, 51)"],
        "dark": ["rgb(18, 23, 29)", "rgb(227, 233, 239)"],
    }
