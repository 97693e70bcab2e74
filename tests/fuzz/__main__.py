"""`python -m tests.fuzz messages --count 100000 --seed 1`: see the module's help; `make fuzz` runs all of it."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import Campaign, fuzzed_server
from tests.fuzz.visitors import FuzzError


def main() -> int:
    """Run one campaign; the exit code is 1 if the server broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("what", choices=("messages", "sequences", "cycles"))
    parser.add_argument("--count", type=int, default=10_000, help="messages, or sequences of values (default 10000)")
    parser.add_argument(
        "--batch", type=int, default=1000, help="of them between two looks at the server (default 1000)"
    )
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "log")
        with fuzzed_server(said) as server:
            campaign = Campaign(server, chosen.seed)
            runs = {"messages": campaign.messages, "sequences": campaign.sequences, "cycles": campaign.cycles}
            try:
                asyncio.run(runs[chosen.what](chosen.count, chosen.batch))
            except KeyboardInterrupt:
                sys.stdout.write("interrupted\n")
            except FuzzError as error:
                sys.stdout.write(f"{campaign.found.words()}\nseed {chosen.seed}: {error}\n{said.read_text()[-6000:]}\n")
                return 1
        words = said.read_text(errors="replace")
        sys.stdout.write(f"{campaign.found.words()}\nthe log has {len(words)} characters\n")
        for what in campaign.found.ours:
            sys.stdout.write(f"an exception of our code: {what}\n")
    return 1 if campaign.found.ours else 0


if __name__ == "__main__":
    sys.exit(main())
