"""State directories as `skillstream stream --state` leaves them, made up: for what reads them."""

import json
import os
import socket
import time

import numpy as np


def status(options=3, samples=120_000, state="running", **changes):
    """The writer's last word."""
    rng = np.random.default_rng(options)
    running = np.repeat(rng.integers(0, options, 40), 10)
    running = np.eye(options)[running]
    recent = np.stack([np.convolve(running[:, k], np.full(5, 0.2), "same") for k in range(options)], 1)
    recent = recent * 0.9 + 0.1 * rng.dirichlet(np.full(options, 2.0), 400)
    recent /= recent.sum(1, keepdims=True)
    usage = rng.dirichlet(np.full(options, 6.0))
    return {
        "state": state,
        "pid": os.getpid(),
        "updated": time.time(),
        "began": time.time() - 266_400,
        "source": "/var/log/cart-pole/steps.jsonl",
        "position": {"inode": 7431, "offset": 9_412_338, "line": samples + 17},
        "samples": samples,
        "episodes": samples // 180,
        "rate": 2346.4,
        "log_likelihood": -0.6121,
        "recent_log_likelihood": -0.4832,
        "certificate": 3.1e-7,
        "window": 64,
        "impossible": 2,
        "rejected": 4,
        "memory": 412_000_000,
        "option": int(recent[-1].argmax()),
        "option_probabilities": recent[-1].tolist(),
        "usage": usage.tolist(),
        "drifts": 1,
        "last_drift": samples // 2,
        "checkpoint": samples - 5_000,
        "recent": {
            "options": recent.tolist(),
            "starts": [i % 130 == 20 for i in range(400)],
            "first": samples - 400,
        },
        **changes,
    }


def metrics(options=3, lines=400, samples=120_000):
    """Lines of numbers in which the likelihood rises, falls where the expert changes, and rises again."""
    rng = np.random.default_rng(1)
    found, total = [], 0.0
    base = rng.dirichlet(np.full(options, 4.0))
    for i in range(1, lines + 1):
        since = i if i < lines / 2 else i - lines // 2
        recent = -0.45 - 0.9 * np.exp(-since / (0.07 * lines)) + 0.02 * rng.standard_normal()
        total += recent
        waves = base * (1 + 0.5 * np.sin(i / lines * 9 + np.arange(options)))
        line = {
            "step": i * samples // lines,
            "seconds": i * 2.1,
            "log_likelihood": total / i,
            "recent_log_likelihood": recent,
            "rate": 2300 + 150 * rng.standard_normal(),
            "certificate": 3e-7 * np.exp(0.4 * rng.standard_normal()),
            "rejected": i // 100,
            "memory": 412_000_000 - int(9e7 * np.exp(-i / 20)),
            "usage": (waves / waves.sum()).tolist(),
        }
        if i == lines // 2:
            line |= {"event": "drift", "usual": -0.4536791, "block": -1.348, "reaction": "forget"}
        found.append(line)
    return found


REJECTS = (
    {
        "line": 812,
        "reason": "not JSON: Expecting ',' delimiter",
        "text": '{"observation": [0.1 0.2], "action": 1}',
    },
    {
        "line": 40_117,
        "reason": "action: 17 is outside 0 to 1",
        "text": '{"observation": [0.1, 0.2], "action": 17}',
    },
    {
        "line": 40_118,
        "reason": "action: 18 is outside 0 to 1",
        "text": '{"observation": [0.1, 0.2], "action": 18}',
    },
    {"line": 91_266, "reason": "observation: holds NaN", "text": '{"observation": [NaN, 0.2], "action": 0}'},
)


def write_status(directory, **changes):
    temporary = directory / ".status"
    temporary.write_text(json.dumps(status(**changes)))
    temporary.replace(directory / "status.json")


def append(directory, lines, name="metrics.jsonl"):
    with (directory / name).open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def write_state(directory, options=3, lines=400, samples=120_000, rejects=REJECTS, **changes):
    """A whole state directory; `changes` are of the status."""
    directory.mkdir(parents=True, exist_ok=True)
    held = {"pid": changes.get("pid", os.getpid()), "host": socket.gethostname(), "began": time.time()}
    (directory / "lock").write_text(json.dumps(held))
    (directory / "checkpoints").mkdir(exist_ok=True)
    (directory / "checkpoints" / f"checkpoint-{samples - 5000:015}.safetensors").write_bytes(b"")
    append(directory, metrics(options, lines, samples))
    append(directory, rejects, "rejects.jsonl")
    write_status(directory, options=options, samples=samples, **changes)
    return directory
