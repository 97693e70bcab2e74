"""`python -m tests.fuzz messages --count 100000 --seed 1`, or `sequences`; `make fuzz` runs both and the parsers."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import Campaign, fuzzed_server
from tests.fuzz.visitors import FuzzError


def main() -> int:
    """Run one campaign; return exit code 1 if the server broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("what", choices=("messages", "sequences"))
    parser.add_argument("--count", type=int, default=10_000, help="messages, or sequences of values (default 10000)")
    parser.add_argument("--batch", type=int, default=1000, help="of them between two checks of the server")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with fuzzed_server(log) as server:
            campaign = Campaign(server, chosen.seed)
            run = {"messages": campaign.messages, "sequences": campaign.sequences}[chosen.what]
            try:
                asyncio.run(run(chosen.count, chosen.batch))
            except FuzzError as error:
                print(f"{campaign.found.words()}\nseed {chosen.seed}: {error}\n{log.read_text()[-6000:]}")
                return 1
    print(campaign.found.words())
    return 1 if campaign.found.ours else 0


if __name__ == "__main__":
    sys.exit(main())
