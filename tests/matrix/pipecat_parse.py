"""Gives server events, one a line of standard input, to Pipecat's own parser. Runs in Pipecat's environment.

For each event one line: `parsed`, `skipped` for a type that Pipecat does not know, or what the parser raised, and would
have ended a bot by.
"""

from __future__ import annotations

import sys

from loguru import logger
from pipecat.services.openai.realtime.events import parse_server_event

logger.remove()

for line in sys.stdin:
    try:
        event = parse_server_event(line)
    except Exception as error:  # what it raises is what is asked here
        print("raised", str(error).partition("\n\n{")[0].replace("\n", " "))
    else:
        print("skipped" if event is None else "parsed")
