"""The reproduction of Figure 1: trials, the runner, the statistics, the words, the page."""

import json
from dataclasses import replace

import numpy as np
import pytest

import skillstream as ss
from skillstream.errors import FileFormatError
from skillstream.experiments.reproduction import runner, trials, words
from skillstream.experiments.reproduction.figure1 import write_csv
from skillstream.experiments.reproduction.plan import (
    Scope,
    ablation_trials,
    cause_trials,
    main_trials,
    measured_budgets,
    read_budgets,
    shipped_budgets,
)
from skillstream.experiments.reproduction.protocol import CHANGES, FIGURE, TASKS, setting_of
from skillstream.experiments.reproduction.published import published
from skillstream.experiments.reproduction.runner import Workers, run_trials, unfinished
from skillstream.experiments.reproduction.statistics import claims, differences, points, standings
from skillstream.experiments.reproduction.story import Findings, panels, write_story
from skillstream.experiments.reproduction.trials import Failure, Outcome, Trial, attempt, run_trial
from skillstream.runs import RunDirectory

SMALL = Trial("grid-world", 20, 0, "online", "bounded", episodes=3)


def outcome(share, seed=0, learner="batch", task="grid-world", size=500, **others):
    told = {"penalties": "bounded", "change": "protocol", "budget": "steps", **others}
    return Outcome(
        task=task, size=size, seed=seed, learner=learner, mean_return=share, share=share, log_likelihood=-1.0,
        gradient_steps=100, seconds=2.0 if learner == "online" else 1.0, held=2048, machine="here", **told,
    )  # fmt: skip


def pairs(gaps, task="grid-world", size=500):
    rows = [outcome(0.5, seed, "batch", task, size) for seed in range(len(gaps))]
    return rows + [outcome(0.5 + gap, seed, "online", task, size) for seed, gap in enumerate(gaps)]


def test_the_protocol_is_the_papers():
    trials_ = main_trials(Scope(penalties=("bounded",), learners=("batch", "online")), {})
    assert len(trials_) == 2 * (5 * 30 + 5 * 10 + 5 * 10 + 4 * 10)
    setting = setting_of("paper", "protocol", 500)
    assert (setting.batch.iterations, setting.batch.epochs, setting.batch.batch_size) == (20, 50, 32)
    assert (setting.online.steps, setting.online.weighting, setting.online.every) == (30, "uniform", 1)
    assert setting.online.penalties == setting.batch.penalties == ss.Penalties.paper()
    assert not setting_of("none", "protocol", 500).online.penalties
    assert published("cart-pole", 600)["batch"].mean == 1.013


def test_every_change_changes_what_it_says():
    base = setting_of("none", "protocol", 500)
    changed = {name: setting_of("none", name, 500) for name in CHANGES if name != "protocol"}
    assert len({repr(setting) for setting in changed.values()} | {repr(base)}) == len(changed) + 1
    for name, setting in changed.items():
        learners = CHANGES[name].learners
        assert (
            (setting.batch == base.batch) == ("batch" not in learners)
            or setting.passes > 1
            or name in ("standardised")
        )
    assert changed["late-start"].online.min_samples == 500 // 3 - 20


def test_a_trials_name_changes_with_what_decides_it():
    others = [replace(SMALL, **{name: value}) for name, value in
              (("task", "cart-pole"), ("size", 30), ("seed", 1), ("learner", "batch"), ("penalties", "none"),
               ("change", "balance"), ("iterations", 7), ("episodes", 4))]  # fmt: skip
    assert len({trial.key for trial in [SMALL, *others]}) == len(others) + 1
    assert replace(SMALL).key == SMALL.key


def test_the_share_of_the_expert_is_on_the_tasks_scale():
    assert TASKS["pendulum"].share(-1000.0, -150.0) == 0.0
    assert TASKS["pendulum"].share(-150.0, -150.0) == 1.0
    assert TASKS["grid-world"].share(6.0, 12.0) == 0.5


@pytest.fixture(scope="module")
def ran():
    return run_trial(SMALL)


def test_a_trial_gives_the_same_numbers_twice(ran):
    (first,), (again,) = ran, run_trial(SMALL)
    assert replace(first, seconds=0.0) == replace(again, seconds=0.0)
    assert first.gradient_steps == 20 * 30
    assert first.seconds > 0
    assert first.held > 10_000
    assert np.isfinite([first.share, first.log_likelihood]).all()


def test_batch_has_both_budgets_on_one_path():
    trial = replace(SMALL, learner="batch", iterations=22)
    steps, time = run_trial(trial)
    (alone,) = run_trial(replace(trial, iterations=0))
    assert (steps.budget, time.budget) == ("steps", "time")
    assert (steps.gradient_steps, time.gradient_steps) == (20 * 50, 22 * 50)
    assert time.seconds > steps.seconds
    assert replace(steps, seconds=0.0) == replace(alone, seconds=0.0)


def test_pieces_come_from_all_over_a_recording():
    trial = replace(SMALL, change="pieces")
    demos = trials._demonstrations(trial)
    assert demos.num_steps == trial.size
    assert demos.num_episodes >= 10
    assert trials._demonstrations(SMALL).num_episodes == 1


def test_acting_from_one_start_always_begins_there():
    worlds = trials._world(Trial("pendulum", 100, 3, "batch", change="same-start"))()
    first = [worlds.reset(seed=seed)[0].tolist() for seed in (5, 6)]
    assert first[0] == first[1]
    demos = trials._demonstrations(Trial("pendulum", 100, 3, "batch"))
    np.testing.assert_allclose(first[0], demos.observations[0])


def test_trials_are_kept_and_not_run_again(ran, tmp_path, monkeypatch):
    ran_now = []

    def pretend(trial, cache):
        ran_now.append(trial)
        return ran

    monkeypatch.setattr(runner, "attempt", pretend)
    both = [SMALL, replace(SMALL, seed=1)]
    once = Workers(1, "sequential")
    first, _ = run_trials(both[:1], tmp_path / "trials", once)
    assert unfinished(both, tmp_path / "trials") == both[1:]
    second, _ = run_trials(both, tmp_path / "trials", once)
    assert ran_now == both
    assert first == ran
    assert second == ran * 2
    for file in (tmp_path / "trials").iterdir():
        file.write_text(file.read_text()[:-20])  # as a disk that was full might leave it
    assert unfinished(both, tmp_path / "trials") == both


def test_a_trial_that_fails_does_not_stop_the_others(ran, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "run_trial", lambda trial: ran if trial.seed else 1 / 0)
    seen = []
    both = [SMALL, replace(SMALL, seed=1)]
    outcomes, failures = run_trials(
        both, tmp_path / "trials", Workers(1, "sequential"), lambda trial, failed: seen.append(len(failed))
    )
    assert outcomes == ran
    assert [failure.trial for failure in failures] == both[:1]
    assert "ZeroDivisionError" in failures[0].error
    assert seen == [1, 1]
    assert isinstance(attempt(SMALL), Failure)


def test_processes_give_what_this_one_gives(ran, tmp_path):
    outcomes, failures = run_trials([SMALL, replace(SMALL, task="nowhere")], tmp_path / "t", Workers(2))
    assert [replace(row, seconds=0.0) for row in outcomes] == [replace(row, seconds=0.0) for row in ran]
    assert "nowhere" in failures[0].error


def test_points_are_means_over_seeds():
    (point,) = points([outcome(0.2, 0), outcome(0.6, 1)])
    assert (point.mean, point.std, point.seeds, point.seconds) == (0.4, pytest.approx(0.2), 2, 1.0)


def test_differences_are_paired_by_seed():
    rng = np.random.default_rng(0)
    shared = rng.normal(0, 0.3, 10)
    rows = [outcome(x, seed, "batch") for seed, x in enumerate(shared)]
    rows += [outcome(x + 0.1 + 0.01 * (-1) ** seed, seed, "online") for seed, x in enumerate(shared)]
    (found,) = differences(rows[::-1])
    assert found.mean == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1 - 2.2622 * np.std([0.01, -0.01] * 5, ddof=1) / 10**0.5, abs=1e-5)
    assert found.p == pytest.approx(2 / 2**10)


def test_the_interval_covers_the_truth_19_times_in_20():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        gaps = rng.normal(0.3, 1, 6)
        mean, error = gaps.mean(), gaps.std(ddof=1) / 6**0.5
        (found,) = differences(pairs(gaps))
        assert found.mean == pytest.approx(mean)
        assert found.high - found.low == pytest.approx(2 * 2.5706 * error, rel=1e-4)
        hits += found.low < 0.3 < found.high
    assert 180 <= hits <= 199


@pytest.mark.parametrize(
    ("task", "gaps", "verdict"),
    [
        ("grid-world", [0.2, 0.21, 0.19, 0.22], "holds"),
        ("grid-world", [-0.2, -0.21, -0.19, -0.22], "does not hold"),
        ("grid-world", [0.5, -0.5, 0.4, -0.3], "undecided"),
        ("pendulum", [-0.01, 0.01, -0.02, 0.0], "holds"),
        ("pendulum", [-0.2, -0.21, -0.19, -0.22], "does not hold"),
        ("pendulum", [0.5, -0.5, 0.4, -0.3], "undecided"),
    ],
)
def test_claims_stand_as_the_numbers_say(task, gaps, verdict):
    (claim,) = claims(differences(pairs(gaps, task)))
    assert claim.verdict == verdict
    (sentence,) = words.claim_sentences([claim])
    assert {"undecided": "cannot be told"}.get(verdict, verdict) in sentence


def test_where_ours_is_behind_is_said_and_looked_into():
    rows = [outcome(0.5), outcome(0.6, learner="online"), outcome(0.7, learner="flat", penalties="none")]
    rows.append(outcome(0.9, learner="batch", size=2000))
    rows.append(outcome(0.65, learner="skillstream", penalties="none"))
    found = standings(points(rows))
    behind, ahead = sorted(found, key=lambda row: row.size)
    assert (behind.ours, behind.published, behind.default, behind.flat) == (0.6, 0.843, 0.65, 0.7)
    assert (ahead.ours, ahead.published) == (0.9, 0.925)
    told = " ".join(words.standing_sentences(found))
    assert "at 0 of 2 sizes" in told
    assert "grid world at 500 (0.60 to 0.84)" in told
    assert "flat cloning at 0 of 1 sizes" in told
    causes = cause_trials(Scope(seeds=1), found)
    assert {(trial.size, trial.change) for trial in causes} == {(500, "pieces"), (500, "same-start")}


def test_an_ablation_says_what_helps():
    base = [outcome(0.5 + 0.01 * (seed % 2), seed, penalties="none") for seed in range(10)]
    worse = [replace(row, share=row.share - 0.3, change="divergence-taken") for row in base]
    same = [replace(row, change="adamax-anew") for row in base]
    (sentence,) = words.ablation_sentences(points(base + worse + same))
    assert sentence == "Batch does worse with: only L_KL, the paper's estimate (-0.30)."


def test_budgets_are_iterations_in_the_time_of_online(tmp_path):
    budgets = measured_budgets(pairs([0.0, 0.0]), 20)
    assert budgets == {("grid-world", 500): 40}  # online took twice as long
    file = tmp_path / "budgets.csv"
    write_csv(file, [{"task": "grid-world", "size": 500, "iterations": 40}])
    assert read_budgets(file) == budgets
    file.write_text("task,size\ngrid-world,500\n")
    with pytest.raises(FileFormatError, match=r"budgets\.csv: must have the columns"):
        read_budgets(file)


def test_budgets_are_shipped_for_the_whole_figure():
    assert {(task, size) for task in FIGURE for size in TASKS[task].sizes} <= set(shipped_budgets())


@pytest.mark.parametrize(
    ("scope", "message"),
    [
        ({"tasks": ("grid",)}, "--env: 'grid' is not one of"),
        ({"seeds": 0}, "--seeds: must be at least 1"),
        ({"sizes": (5,)}, "--sizes: must be at least 10"),
        ({"tasks": ()}, "--env: there is none"),
    ],
)
def test_a_scope_that_cannot_be_is_refused(scope, message):
    with pytest.raises(ss.InputError, match=message):
        Scope(**scope)


def test_nothing_is_run_that_was_not_asked_for():
    scope = Scope(tasks=("cart-pole",), sizes=(100,), seeds=2, penalties=("none",), learners=("online",))
    assert [(trial.size, trial.seed, trial.learner) for trial in main_trials(scope, {})] == [
        (100, 0, "online"), (100, 1, "online"),
    ]  # fmt: skip
    assert ablation_trials(scope) == []
    assert len(ablation_trials(Scope(seeds=1))) == sum(len(change.learners) for change in CHANGES.values())


def test_curves_are_those_of_the_setting_and_the_budget():
    rows = [outcome(0.5), outcome(0.6, budget="time"), outcome(0.7, penalties="none")]
    rows += [outcome(0.8, learner="online"), outcome(0.9, change="balance")]
    (panel,) = panels(points(rows), "bounded", "time", ("grid-world",))
    assert [(curve.name, curve.means) for curve in panel.curves if not curve.dashed] == [
        ("batch", [0.6]), ("online", [0.8]),
    ]  # fmt: skip
    assert {curve.name for curve in panel.curves if curve.dashed} == {"batch, published", "online, published"}


def test_the_page_tells_what_was_found(tmp_path):
    run = RunDirectory.create(tmp_path / "run", "x", "reproduce", {})
    rows = pairs([0.1, 0.2, 0.15]) + pairs([0.0, 0.01, -0.01], "pendulum")
    rows += [replace(row, budget="time") for row in rows if row.learner == "batch"]
    rows += [replace(row, change="pieces", penalties="none") for row in rows[:3]]
    rows += [
        replace(row, change=name, penalties="none") for row in rows[:3] for name in ("protocol", "balance")
    ]
    failures = [Failure(SMALL, "Traceback\nValueError: <b>bad</b>")]
    page = write_story(run, Findings(rows, failures, None)).read_text()
    for told in (
        "Figure 1: Table 1&#x27;s weights",
        "equal wall time",
        "Why it is behind",
        "One change at a time",
        "Online outperforms batch on the grid world",
        "ValueError: &lt;b&gt;bad&lt;/b&gt;",
    ):
        assert told in page
    assert "nan" not in page.lower().replace("unanimous", "")
    for name in ("figure1-bounded.png", "figure1-bounded.svg"):
        assert (run.path / name).stat().st_size > 5000


def test_the_command_runs_and_goes_on(tmp_path, capsys):
    from skillstream.cli import main

    flags = (
        "reproduce figure1 --env grid-world --sizes 20 --seeds 1 --learners online --penalties none --jobs 1"
    )
    flags += " --backend sequential --no-ablation --quick --json"
    target = tmp_path / "run"
    (target / "trials").mkdir(parents=True)
    target.rename(tmp_path / "kept")
    assert main([*flags.split(), "--output", str(target)]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == 0
    written = {file.name for file in target.iterdir()}
    assert {
        "report.html",
        "results.csv",
        "points.csv",
        "differences.csv",
        "budgets.csv",
        "costs.csv",
    } <= written
    before = (target / "results.csv").read_bytes()
    assert main([*flags.split(), "--resume", str(target)]) == 0
    assert (target / "results.csv").read_bytes() == before
    assert main([*flags.split(), "--resume", str(target), "--output", str(target)]) == 2
