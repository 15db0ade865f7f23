"""The command line. Nothing heavy is loaded before a command has been chosen and its flags are right."""

import os
import sys
import warnings

import tyro

from skillstream.commands.collect import Collect
from skillstream.commands.common import INTERRUPTED
from skillstream.commands.demo import Demo
from skillstream.commands.evaluate import Evaluate
from skillstream.commands.fit import Fit
from skillstream.commands.report import Report
from skillstream.commands.reproduce import Reproduce
from skillstream.commands.segment import Segment
from skillstream.commands.stream import Stream
from skillstream.commands.watch import Watch
from skillstream.errors import SkillstreamError

COMMANDS = {
    "demo": Demo,
    "collect": Collect,
    "fit": Fit,
    "stream": Stream,
    "watch": Watch,
    "segment": Segment,
    "evaluate": Evaluate,
    "report": Report,
    "reproduce": Reproduce,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code is 0, 2 for bad input, or 130 if it was interrupted."""
    try:
        command = tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="skillstream",
            description="Learn options (skills) from expert demonstrations, in batch or from a stream.",
            args=arguments,
            config=(tyro.conf.OmitArgPrefixes,),
        )
        _prepare_jax()
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return command.run()
    except (SkillstreamError, OSError) as error:
        print(f"skillstream: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("skillstream: interrupted", file=sys.stderr)
        return INTERRUPTED


def _prepare_jax() -> None:
    """Let XLA run larger loops as one kernel; a user's own flags stay as they are."""
    flag = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000000"
    if "xla_cpu_small_while_loop_byte_threshold" not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    """A warning as a user of the command line reads it: without the place in the source."""
    print(f"skillstream: warning: {message}", file=sys.stderr)
