"""`python -m tests.fuzz messages --count 100000 --seed 1`; `make fuzz` runs all of it.

With --jobs, messages, sequences and cycles are split over as many servers, with the seeds --seed, --seed + 1 and so on,
and as many parsers run at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import tempfile
from pathlib import Path

from tests.fuzz import jobs
from tests.fuzz.campaign import Campaign, fuzzed_server
from tests.fuzz.visitors import FuzzError


def main() -> int:
    """Run one campaign; return exit code 1 if the server broke a promise."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("messages", "sequences", "cycles", "parsers"))
    parser.add_argument("--count", type=int, default=10_000, help="messages, or sequences of values (default 10000)")
    parser.add_argument(
        "--batch", type=int, default=1000, help="of them between two looks at the server (default 1000)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default 1)")
    parser.add_argument("--minutes", type=float, help="of each parser (default 10); of the others at most")
    parser.add_argument("--only", default="", help="parsers that have this in their name")
    chosen = parser.parse_args()
    if chosen.jobs < 1 or chosen.count < 1 or chosen.batch < 1:
        parser.error("--jobs, --count and --batch are at least 1")
    if chosen.what == "parsers":
        return jobs.parsers(10.0 if chosen.minutes is None else chosen.minutes, chosen.jobs, chosen.seed, chosen.only)
    minutes = math.inf if chosen.minutes is None else chosen.minutes
    if chosen.jobs > 1:
        return jobs.campaigns(chosen.what, chosen.count, chosen.batch, chosen.seed, minutes, chosen.jobs)
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "log")
        with fuzzed_server(said) as server:
            campaign = Campaign(server, chosen.seed, minutes)
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
