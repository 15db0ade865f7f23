"""The report of a run: all is there, it needs nothing but itself, and nothing in the data becomes code."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from test_reporting import random_demos, segmented

import skillstream as ss
from skillstream.acting.evaluation import Evaluation
from skillstream.commands.collect import Collect
from skillstream.commands.fit import Fit
from skillstream.commands.report import Report
from skillstream.errors import InputError, MissingExtraError
from skillstream.reporting.curves import Comparison
from skillstream.reporting.frames import plot_frames, record_frames
from skillstream.reporting.report import Agreement, write_report
from skillstream.reporting.skills import choices_by_state, describe_skills
from skillstream.runs import RunDirectory

SECTIONS = (
    "What was learnt",
    "How learning went",
    "Which option runs when",
    "What each option does",
    "How well it acts",
    "How to use it",
    "How this run was made",
)
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&$body ${style}"


class Page(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.tags, self.words, self.open, self.unclosed = [], [], [], []
        self.source = path.read_text()
        self.feed(self.source)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.unclosed.append(tag)

    def handle_data(self, data):
        self.words.append(data)

    def all(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def made_run(path: Path, policy, command="fit", **record):
    run = RunDirectory.create(path, "", command, {"learning": {"iterations": 20, "starts": 2, "seed": 0}})
    for start in (0, 1):
        for step in range(4):
            run.log(step, start=start, log_likelihood=-1.0 / (step + 1 + start))
    policy.save(run.policy)
    run.record |= {"demonstrations": "demos.npz", **record}
    run.finish(log_likelihood=-1.0)
    return run


def evaluation(mean):
    rng = np.random.default_rng(0)
    return Evaluation(rng.normal(mean, 1, 20), np.full(20, 9), np.array([0.4, 0.6]), np.array([3.0, 4.0]))


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A report of the hidden-goal world with everything in it."""
    from skillstream.experts.catalogue import make_expert

    demos = ss.collect(make_expert("hidden-goal"), "hidden-goal", 400)
    policy = make_expert("hidden-goal").policy
    run = made_run(tmp_path_factory.mktemp("runs") / "run", policy)
    path = write_report(
        run,
        demos,
        policy,
        task="hidden-goal",
        comparison=Comparison({"learnt policy": evaluation(11.5), "flat clone": evaluation(1.5)}, 12.39),
        agreement=Agreement(0.912, 0.987),
        frames=record_frames(policy, "hidden-goal", count=3),
        notes=["Something is missing."],
    )
    return Page(path)


def test_a_report_has_all_its_sections(told):
    headings = re.findall(r"<h2>(.*?)</h2>", told.source)
    assert [heading for heading in headings if heading in SECTIONS] == list(SECTIONS)
    for said in ("2 options learnt from hidden-goal", "91.2%", "98.7%", "12.39", "Something is missing."):
        assert said in told.text
    for said in ("Agent.load", "OptionPolicy.load", "skillstream evaluate", "row 0, column 10", "east"):
        assert said in told.text


def test_a_report_is_whole_html_and_not_large(told):
    assert told.open == []
    assert told.unclosed == []
    assert len(told.source) < 3_000_000
    assert told.all("html") == [{"lang": "en"}]
    names = [attributes["id"] for _, attributes in told.tags if "id" in attributes]
    assert len(names) == len(set(names))


def test_every_figure_says_what_it_shows(told):
    pictures = [a for a in told.all("svg") if a.get("role") == "img"]
    assert len(pictures) == 2 * 2 + 2  # timeline and usage at two widths, learning and comparison at one
    assert all(picture["aria-label"] for picture in pictures)
    assert len(told.all("img")) == 3
    assert all(image["alt"] for image in told.all("img"))
    assert all(cell.get("scope") in ("col", "row") for cell in told.all("th"))


def references(page):
    places = ("src", "href", "xlink:href", "data", "action", "poster", "srcset")
    return [value for _, attributes in page.tags for name, value in attributes.items() if name in places]


def test_a_report_needs_nothing_but_itself(told):
    assert references(told)
    assert all(value.startswith(("data:", "#")) for value in references(told))
    assert all(place.startswith("#") for place in re.findall(r"url\((.*?)\)", told.source))
    assert told.all("script") == []
    assert "http" not in told.source
    assert "@import" not in told.source
    defined = {attributes["id"] for _, attributes in told.tags if "id" in attributes}
    assert {value[1:] for value in references(told) if value.startswith("#")} <= defined


def test_names_from_data_stay_words(tmp_path):
    policy = ss.OptionPolicy.tabular(2, 30, 3)
    run = made_run(
        tmp_path / "r",
        policy,
        demonstrations=HOSTILE,
        versions={HOSTILE: HOSTILE},
        machine=HOSTILE,
        arguments=[HOSTILE],
        set=[HOSTILE],
        state=HOSTILE,
        began=HOSTILE,
    )
    run.record["settings"]["learning"][HOSTILE] = {HOSTILE: HOSTILE}
    results = {HOSTILE: evaluation(1.0), "other": evaluation(2.0)}
    path = write_report(
        run, random_demos(), policy, task=HOSTILE, comparison=Comparison(results, None), notes=[HOSTILE]
    )
    page = Page(path)
    assert page.all("script") == []
    assert page.all("img") == []
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert page.open == []
    assert f"options learnt from {HOSTILE}" in page.text
    assert "$body" in page.text


CASES = {
    "one option": (ss.OptionPolicy.tabular(1, 30, 3), {}),
    "one step": (ss.OptionPolicy.tabular(2, 30, 3), {"steps": 1}),
    "continuous actions": (
        ss.OptionPolicy.neural(2, 3, ss.GaussianActions(2)),
        {"size": 3, "actions": "continuous"},
    ),
}


@pytest.mark.parametrize("command", ["fit", "stream"])
@pytest.mark.parametrize("case", CASES)
def test_reports_without_a_world(tmp_path, case, command):
    policy, kind = CASES[case]
    run = made_run(tmp_path / "run", policy, command)
    page = Page(write_report(run, random_demos(**kind), policy))
    for heading in SECTIONS:
        assert f"<h2>{heading}</h2>" in page.source
    assert "Not evaluated" in page.text
    assert ("Action 0" in page.text) == (case == "continuous actions")
    assert ("online Baum-Welch" in page.text) == (command == "stream")


def test_a_report_without_metrics_says_so(tmp_path):
    policy = ss.OptionPolicy.tabular(2, 30, 3)
    run = made_run(tmp_path / "run", policy)
    (run.path / "metrics.jsonl").unlink()
    assert "no metrics" in Page(write_report(run, random_demos(), policy)).text


def test_what_options_do():
    seen, done = [0, 1, 2, 0, 3, 3, 0, 1], [1, 1, 0, 2, 2, 2, 1, 1]
    demos = ss.Demonstrations(seen, done, [6, 2])
    options = np.array([0, 0, 0, 1, 1, 1, 0, 0])
    found = segmented(demos, options)
    exact = ss.Segmentation(
        demos.episode_lengths, options, np.eye(2)[options], found.selections, found.switches, 0.0
    )
    first, second = describe_skills(exact, demos)
    assert (first.share, first.runs, first.duration, first.stops) == (0.625, 2, 2.5, 1)
    assert first.actions == [("action 1", 0.8), ("action 0", 0.2)]
    assert first.places == [("state 0", "100%")]
    # The end of an episode is not a stop.
    assert (second.runs, second.stops, second.places) == (1, 0, [])


def test_what_options_do_in_each_state():
    """Two habits that differ only in which action goes with which state."""
    seen, option = np.arange(400) % 2, np.arange(400) // 50 % 2
    demos = ss.Demonstrations(np.where(seen, 5, 0), seen ^ option)
    tables = np.zeros((6, 2, 2))
    tables[0], tables[5] = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
    tables[1:5] = 0.5
    ends = np.broadcast_to([0.95, 0.05], (6, 2, 2))
    policy = ss.OptionPolicy.from_tables(np.full((6, 2), 0.5), tables, ends)
    rows = choices_by_state(ss.segment(policy, demos), demos)
    first, second = "action 0 100%", "action 1 100%"
    assert rows == [["0", first, second], ["5", second, first]]
    continuous = ss.Demonstrations(np.zeros((4, 1)), [0, 1, 0, 1])
    learnt = ss.segment(ss.OptionPolicy.neural(2, 1, 2), continuous)
    assert choices_by_state(learnt, continuous) == []


def test_frames_of_an_agent_at_work(tmp_path):
    policy = ss.OptionPolicy.neural(2, 4, 2)
    frames = record_frames(policy, "cart-pole", count=3, every=2)
    assert frames.steps.tolist() == [0, 2, 4]
    assert frames.images.min() >= 0
    assert frames.images.max() <= 1
    assert frames.images.std() > 0.01
    again = record_frames(policy, "cart-pole", count=3, every=2)
    np.testing.assert_array_equal(frames.options, again.options)
    plot_frames(tmp_path / "frames.png", frames)
    assert (tmp_path / "frames.png").stat().st_size > 2000


def test_frames_stop_where_the_episode_does():
    frames = record_frames(
        ss.OptionPolicy.neural(2, 4, 2), "cart-pole", count=50, every=3, max_episode_steps=10
    )
    assert frames.steps.tolist() == [0, 3, 6, 9]


def blind():
    import gymnasium

    class Blind(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 0, 0.0, False, False, {}

        def render(self):
            return None

    return Blind()


def test_a_world_that_cannot_draw_itself_is_refused():
    with pytest.raises(InputError, match="cannot draw itself"):
        record_frames(ss.OptionPolicy.tabular(2, 2, 2), blind)


@pytest.fixture
def learnt(tmp_path, monkeypatch):
    """A small run of fit."""
    monkeypatch.chdir(tmp_path)
    Collect("hidden-goal", steps=400).run()
    Fit("runs/collect-hidden-goal", learning=ss.BatchConfig(iterations=5, pseudo_count=0.01)).run()
    return Path("runs/fit-hidden-goal")


def test_the_command_writes_a_report_and_overwrites_it(learnt, capsys):
    (learnt / "report.html").write_text("older")
    capsys.readouterr()
    assert Report(learnt, episodes=5, json=True).run() == 0
    said = json.loads(capsys.readouterr().out)
    assert said["report"] == str(learnt / "report.html")
    assert set(said["returns"]) == {"learnt policy", "flat clone"}
    assert said["expert_return"] == pytest.approx(12.39, abs=0.01)
    assert 0.5 <= said["agreement"] <= said["true_agreement"] <= 1
    assert said["notes"] == []
    page = Page(learnt / "report.html")
    assert "flat clone" in page.text
    assert len(page.all("img")) == 12
    assert sorted(p.name for p in learnt.iterdir() if p.name.startswith(".")) == []


def test_the_command_goes_on_without_pictures_or_world(learnt, capsys, monkeypatch):
    def missing(*_, **__):
        raise MissingExtraError("frames: pygame is not installed")

    monkeypatch.setattr("skillstream.reporting.frames.record_frames", missing)
    run = RunDirectory.open(learnt)
    assert Report(learnt, episodes=3).run() == 0
    assert "pygame is not installed" in capsys.readouterr().out
    run.record |= {"task": "no-such-world", "demonstrations": "runs/collect-hidden-goal/demonstrations.npz"}
    run.write()
    assert Report(learnt, episodes=3).run() == 0
    assert "no-such-world" in Page(learnt / "report.html").text
    with pytest.raises(InputError, match="no-such-world"):
        Report(learnt, task="no-such-world").run()


def test_the_command_says_what_it_needs(learnt):
    run = RunDirectory.open(learnt)
    run.record["demonstrations"] = "gone.npz"
    run.write()
    with pytest.raises(InputError, match=r"gone\.npz, which the run learnt from, is not there"):
        Report(learnt).run()
    with pytest.raises(FileNotFoundError, match="run of fit or stream"):
        Report(Path("runs/collect-hidden-goal")).run()
    with pytest.raises(FileNotFoundError, match="no run directory"):
        Report(Path("nowhere")).run()


def test_which_start_was_kept_is_said_only_where_it_is_known(tmp_path):
    policy = ss.OptionPolicy.tabular(2, 30, 3)
    run = made_run(tmp_path / "run", policy)
    assert "start 2, kept" in Page(write_report(run, random_demos(), policy)).text
    run.record["settings"]["held_out"] = 0.2
    page = Page(write_report(run, random_demos(), policy))
    assert ", kept" not in page.text
    assert "explains held-out episodes best" in page.text
