"""The gate: what is a sample, what is not and why, in lines one by one and many at once."""

import json
import re

import numpy as np
import pytest
import streams

import skillstream as ss
from skillstream.streaming import lines
from skillstream.streaming.spaces import Space

TABLES = streams.SPACE
NUMBERS = Space(2, 0, "one", (3,))
SEVERAL = Space(2, 0, "several", (3, 2))
TORQUES = Space(2, 0, "numbers", (0,))

GOOD = {
    "a step": (TABLES, b'{"observation": 4, "action": 2}', [4], [2]),
    "a gap": (TABLES, b'{"observation": 4, "action": null}', [4], [0]),
    "no action": (TABLES, b'{"observation": 4}', [4], [0]),
    "spaces about it": (TABLES, b'  {"observation": 4, "action": 2} \r', [4], [2]),
    "an episode": (TABLES, b'{"observations": [0, 1], "actions": [2, null]}', [0, 1], [2, 0]),
    "what is not read": (
        TABLES,
        b'{"observation": 1, "action": 0, "reward": NULL}'.replace(b"NULL", b'"x"'),
        [1],
        [0],
    ),
    "numbers": (NUMBERS, b'{"observation": [1, 0.5], "action": 2}', [[1, 0.5]], [2]),
    "several": (SEVERAL, b'{"observation": [1, 0.5], "action": [2, 1]}', [[1, 0.5]], [[2, 1]]),
    "a torque": (TORQUES, b'{"observation": [1, 0.5], "action": -0.5}', [[1, 0.5]], [[-0.5]]),
    "a masked one": (TABLES, b'{"observation": 1, "action": 2, "action_mask": false}', [1], [0]),
}
BAD = {
    "not JSON": (TABLES, b'{"observation": 4, "acti', "malformed: not JSON"),
    "two in a line": (
        TABLES,
        b'{"observation": 4, "action": 2}{"observation": 4, "action": 2}',
        "malformed: not one",
    ),
    "no object": (TABLES, b"[1, 2]", "malformed: must be an object"),
    "no text": (TABLES, b'{"observation": "\xff"}', "malformed: not UTF-8"),
    "too deep": (TABLES, b'{"observation": ' + 100_000 * b"[", "malformed: nested too deeply"),
    "too many digits": (TABLES, b'{"observation": ' + 5000 * b"1" + b"}", "malformed: "),
    "another key": (
        TABLES,
        b'{"observation": 1, "action": 0, "acton": 1}',
        "wrong type: 'acton' is not known",
    ),
    "no observation": (TABLES, b'{"action": 0}', "wrong type: 'observation' is missing"),
    "a float": (
        TABLES,
        b'{"observation": 1.0, "action": 0}',
        "wrong type: observation: must be a whole number",
    ),
    "true": (TABLES, b'{"observation": true, "action": 0}', "wrong type: observation"),
    "text": (TABLES, b'{"observation": "1", "action": 0}', "wrong type: observation"),
    "a list": (TABLES, b'{"observation": [1], "action": 0}', "wrong type: observation"),
    "a far state": (
        TABLES,
        b'{"observation": 5, "action": 0}',
        "out of space: observation: 5 is not among the 5",
    ),
    "below zero": (TABLES, b'{"observation": -1, "action": 0}', "out of space: observation"),
    "beyond 64 bits": (
        TABLES,
        b'{"observation": 99999999999999999999, "action": 0}',
        "out of space: observation",
    ),
    "a far action": (TABLES, b'{"observation": 0, "action": 3}', "out of space: action"),
    "NaN": (NUMBERS, b'{"observation": [NaN, 0.5], "action": 0}', "malformed: NaN is no number"),
    "infinity": (NUMBERS, b'{"observation": [1e999, 0.5], "action": 0}', "out of space: observation"),
    "huge": (
        NUMBERS,
        b'{"observation": [' + 400 * b"1" + b', 0.5], "action": 0}',
        "out of space: observation",
    ),
    "too few": (
        NUMBERS,
        b'{"observation": [0.5], "action": 0}',
        "inconsistent shape: observation: must be 2",
    ),
    "a deeper list": (NUMBERS, b'{"observation": [[0.5], 1], "action": 0}', "wrong type: observation"),
    "true among numbers": (NUMBERS, b'{"observation": [0.5, true], "action": 0}', "wrong type: observation"),
    "too few choices": (SEVERAL, b'{"observation": [1, 2], "action": [2]}', "inconsistent shape: action"),
    "a far choice": (SEVERAL, b'{"observation": [1, 2], "action": [2, 2]}', "out of space: action"),
    "ragged": (
        TABLES,
        b'{"observations": [0, 1], "actions": [2]}',
        "inconsistent shape: found 2 observations",
    ),
    "an empty episode": (TABLES, b'{"observations": [], "actions": []}', "inconsistent shape"),
    "bad within": (TABLES, b'{"observations": [0, 9], "actions": [2, 2]}', "out of space: .* .in its step 1"),
    "no list": (TABLES, b'{"observations": 3, "actions": [2]}', "wrong type: observations and actions"),
    "an odd episode": (TABLES, b'{"episode": [1], "observation": 0, "action": 0}', "wrong type: episode"),
    "an odd mask": (TABLES, b'{"observation": 0, "action": 0, "action_mask": 1}', "wrong type: action_mask"),
    "too long": (
        TABLES,
        b'{"observation": 0, "action": 0' + 200_000 * b" " + b"}",
        "too long: more than 150000 bytes",
    ),
}


def parse(found, space, name=None):
    return lines.parse(found, space, 150_000, name)


@pytest.mark.parametrize("kind", GOOD)
def test_samples_are_read(kind):
    space, line, seen, done = GOOD[kind]
    parsed = parse([line], space)
    np.testing.assert_array_equal(parsed.batch.observations, seen)
    np.testing.assert_array_equal(parsed.batch.actions, done)
    assert parsed.rejected == []
    empty = space.empty(0)
    assert (parsed.batch.observations.dtype, parsed.batch.actions.dtype) == tuple(x.dtype for x in empty)


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_sample_is_left_out_and_says_why(kind):
    space, line, reason = BAD[kind]
    good = next(line for of, line, *_ in GOOD.values() if of is space)
    for around in ([], [good], 3 * [good]):
        parsed = parse([*around, line, *around], space)
        assert len(parsed.batch) == 2 * len(around)
        ((place, said),) = parsed.rejected
        assert place == len(around)
        assert re.match(reason, said)


def test_many_lines_at_once_are_what_they_are_one_by_one():
    rng = np.random.default_rng(0)
    usual = [line for space, line, *_ in GOOD.values() if space is TABLES]
    odd = [line for space, line, _ in BAD.values() if space is TABLES and len(line) < 1000]
    for share in (0, 0.02, 0.5):
        found = [
            (odd[rng.integers(len(odd))] if rng.random() < share / 2 else usual[rng.integers(len(usual))])
            if rng.random() < share
            else streams.steps(1, i)[0]
            for i in range(300)
        ]
        whole = parse(found, TABLES)
        name, place = None, 0
        for row, line in enumerate(found):
            one = parse([line], TABLES, name)
            rows = slice(place, place + len(one.batch))
            for column in ("observations", "actions", "recorded", "starts"):
                np.testing.assert_array_equal(
                    getattr(whole.batch, column)[rows], getattr(one.batch, column), err_msg=f"{row}: {line}"
                )
            assert (one.names[0], bool(one.rejected)) == (
                whole.names[row],
                row in dict(whole.rejected),
            )
            name, place = one.names[0], place + len(one.batch)
        assert place == len(whole.batch)


def test_episodes_begin_where_their_names_change():
    def starts(*records, name=None):
        parsed = parse([json.dumps(record).encode() for record in records], TABLES, name)
        return parsed.batch.starts.tolist(), parsed.names[-1]

    step = {"observation": 0, "action": 0}
    assert starts(step, step) == ([False, False], None)
    assert starts({**step, "episode": 3}, {**step, "episode": 3}, {**step, "episode": "b"}) == (
        [True, False, True],
        "b",
    )
    assert starts({**step, "episode": 3}, step, name=3) == ([False, False], 3)
    whole = {"observations": [0, 1], "actions": [0, 1]}
    assert starts(whole, step, step) == ([True, False, True, False], None)
    assert starts(step, name=True) == ([True], None)


def test_the_form_of_most_lines_decides():
    found = [b'{"observation": [1.5], "action": 0}', *streams.steps(20), b"garbage"]
    assert lines.guess(found, 1000) == Space(None, 10_000, "one", (1000,))
    assert lines.guess([b'{"observation": [1, 2.5], "action": [0.5]}'], 1000) == Space(2, 0, "numbers", (0,))
    assert lines.guess([b'{"observations": [[1, 2]], "actions": [[0, 1]]}'], 1000) == Space(
        2, 0, "several", (1000, 1000)
    )
    assert lines.guess([b'{"observation": 1}', b"7"], 1000) is None


@pytest.mark.parametrize(
    ("policy", "space"),
    [
        (ss.OptionPolicy.tabular(2, 5, 3), TABLES),
        (ss.OptionPolicy.neural(2, 2, 3), NUMBERS),
        (ss.OptionPolicy.neural(2, 2, (3, 2)), SEVERAL),
        (ss.OptionPolicy.neural(2, 2, ss.GaussianActions(1)), TORQUES),
        (ss.OptionPolicy.tabular(2, 5, ss.GaussianActions(2)), Space(None, 5, "numbers", (0, 0))),
    ],
)
def test_a_policy_says_what_it_takes(policy, space):
    assert Space.of(policy) == space


def test_a_standardised_policy_takes_nothing_too_far_for_it():
    demos = ss.Demonstrations([[0.0, 1e-6], [1e-6, 0.0]], [0, 1])
    policy = ss.OptionPolicy.neural(2, 2, 3, standardise=demos)
    far = Space.of(policy).far
    assert 1e8 < far < 1e9
    line = json.dumps({"observation": [2 * far, 0], "action": 0}).encode()
    assert "out of space" in parse([line], Space.of(policy)).rejected[0][1]
    ss.OnlineLearner(policy).partial_fit([[far, -far]], [0])
