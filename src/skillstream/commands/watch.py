"""`skillstream watch`: a page in the browser about a stream, as it learns."""

import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from warnings import warn

import tyro

from skillstream.commands import common
from skillstream.errors import InputError


@dataclass(frozen=True)
class Watch:
    """Show how a stream goes on a page in your browser, which follows it. It only reads; Ctrl-C ends it.

    Example: skillstream watch runs/cart-pole-stream
    """

    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """The state directory of a stream: what its --state names."""
    host: str = "127.0.0.1"
    """The address to listen on. Beyond this machine's own, whoever reaches it can read the page."""
    port: int = 8642
    """The port to listen on, or the next that is free; 0 for any."""
    open: bool = False
    """Open the page in a browser."""
    json: bool = False
    """Print one JSON object instead of words."""

    def run(self) -> int:
        """Serve until Ctrl-C."""
        from skillstream.streaming.watch_server import WatchServer
        from skillstream.streaming.watch_state import Watched

        if not self.directory.is_dir():
            raise InputError(
                f"directory: there is no directory {self.directory}; "
                f"start a stream there (skillstream stream ... --state {self.directory}), or make it"
            )
        with WatchServer(Watched(self.directory.absolute()), self.host, self.port) as server:
            if not server.is_local:
                warn(f"--host: whoever can reach {server.url} can read this page", stacklevel=2)
            self._tell(server.url)
            if self.open:
                webbrowser.open(server.url)
            try:
                server.serve_forever(poll_interval=0.25)
            except KeyboardInterrupt:
                common.console(self.json).print("Stopped watching; the stream is as it was.")
        return 0

    def _tell(self, url: str) -> None:
        if self.json:
            common.print_json(url=url, directory=str(self.directory))
        common.console(self.json).print(f"Watching {self.directory} at {url} (Ctrl-C ends it).")
        sys.stdout.flush()  # who started this may read it from a pipe
