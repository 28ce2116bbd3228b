"""The verdict judge: an endpoint's language model says COMPLETE, INCOMPLETE or WAIT, in one token.

Small models can't do it (of ten sentences SmolLM2-135M judged none right, Qwen2.5-1.5B seven), so a model first has to
pass a check of 20 sentences; see verdict_check.py.
"""

from __future__ import annotations

import asyncio
import math
import re
from typing import Any

from models.engines.calibration import Calibration
from models.engines.openai_endpoint import (
    as_engine_error,
    authorization,
    normal_base_url,
    open_client,
    post_json,
    server_name,
)
from models.engines.spoken_words import plain_words
from models.interfaces import EngineError, Judgement, Utterance

NAME = "verdict"

DEADLINE_S = 2.0
"""An answer that comes later decides nothing: semantic_vad with high eagerness ends the turn then (chosen)."""

ANSWER_TOKENS = 4
"""Enough for INCOMPLETE in any tokeniser; the first token decides where its probabilities are shown."""

SURE = 0.9
"""What a bare verdict is worth: wrong one time in ten (chosen: what models of 7 B score on such texts, and what the
check demands)."""

CALIBRATION = Calibration(slope=0.5, offset=0.0)
"""Instruct models are surer than they are right: half the log odds (chosen, until a model is measured)."""

LONGEST_TEXT = 600
"""Characters of the user's and of the agent's words that are sent, from their end (chosen; bounds what a judgement
costs)."""

INSTRUCTIONS = (
    "You watch a phone call. You get the last thing the agent said and what the caller has said since, as a speech "
    "recogniser wrote it, up to a short pause. They may speak any language; judge by the grammar of that language. "
    "Decide whether the caller has finished. Answer with one of three English words:\n"
    "COMPLETE: the agent should answer now. Short answers, questions and requests can be complete.\n"
    "INCOMPLETE: the caller will go on: the sentence, number, name or list is unfinished, ends in a filler word, or is "
    "being corrected.\n"
    'WAIT: the caller asks for time or silence ("hold on", "let me check").'
)

_WAYS: tuple[dict[str, Any], ...] = (
    {"max_tokens": ANSWER_TOKENS, "temperature": 0, "logprobs": True, "top_logprobs": 5},
    {"max_completion_tokens": ANSWER_TOKENS, "temperature": 0, "logprobs": True, "top_logprobs": 5},
    {"max_tokens": ANSWER_TOKENS, "temperature": 0},
    {"max_completion_tokens": ANSWER_TOKENS},
)
"""How servers may want to be asked, the most telling first: some refuse log probabilities, and OpenAI's newer models
`max_tokens` and a temperature."""

_LABELS = ("COMPLETE", "INCOMPLETE", "WAIT")
_ANSWER = re.compile(r"[^A-Za-z]{0,8}(INCOMPLETE|COMPLETE|WAIT)\b", re.IGNORECASE)


class VerdictJudge:
    """EndOfTurnJudge over `POST {base_url}/chat/completions`. Each judgement is one request, which may cost."""

    name = NAME
    listens = False

    def __init__(self, base_url: str, model: str, *, api_key: str = "", deadline_s: float = DEADLINE_S) -> None:
        self.model = model
        self.base_url = normal_base_url(base_url)
        self.server = server_name(self.base_url)
        self._client = open_client(self.base_url, api_key)
        self._headers = authorization(api_key)
        self._deadline_s = deadline_s
        self._ways = _WAYS

    async def judge(self, utterance: Utterance) -> Judgement:
        """Return the verdict, graded if the server shows the first token's probabilities.

        Raises EngineError: eot_timeout, eot_bad_verdict (an answer that is none of the three words), or what the
        server's failure is called (`as_engine_error`).
        """
        if not plain_words(utterance.text):
            return Judgement(None)
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await self._ask(_messages(utterance))
        except TimeoutError as error:
            raise EngineError(
                "eot_timeout", f"The language model server {self.server} took too long to judge."
            ) from error
        except Exception as error:  # the SDK's, JSON's and the network's: one sentence for the client
            raise as_engine_error(error, self.server) from error
        return read_verdict(answer, self.server)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def _ask(self, messages: list[dict[str, str]]) -> Any:
        """Return the answer. Ways of asking that the server refuses are not tried again once another one worked."""
        import openai

        ways = self._ways
        while True:
            try:
                body = {"model": self.model, "messages": messages, "stream": False, **ways[0]}
                answer = await post_json(self._client, "/chat/completions", body, self._headers)
            except (openai.BadRequestError, openai.UnprocessableEntityError):
                if len(ways) == 1:
                    raise
                ways = ways[1:]
            else:
                self._ways = ways
                return answer


def read_verdict(answer: Any, server: str) -> Judgement:
    """Return the judgement in a chat completion. Raises EngineError eot_bad_verdict where there is none."""
    try:
        choice = answer["choices"][0]
        found = _ANSWER.match(choice["message"]["content"] or "")
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise _bad_verdict(server) from error
    if found is None:
        raise _bad_verdict(server)
    label = found.group(1).upper()
    score = _graded(choice.get("logprobs"), label)
    if score is None:
        return Judgement(SURE if label == "COMPLETE" else 1.0 - SURE, wait=label == "WAIT")
    return Judgement(CALIBRATION.probability(score), wait=label == "WAIT")


def _bad_verdict(server: str) -> EngineError:
    return EngineError("eot_bad_verdict", f"The language model at {server} gave no verdict on the end of a turn.")


def _graded(logprobs: Any, label: str) -> float | None:
    """Return COMPLETE's share of the three words' probability at the first token, None where it isn't shown.

    A token may be a word's beginning ("IN"); one that begins none or several of them counts for none.
    """
    shares = dict.fromkeys(_LABELS, 0.0)
    try:
        for entry in logprobs["content"][0]["top_logprobs"]:
            token = str(entry["token"]).strip(" \n\t\"'*`").upper()
            begun = [word for word in _LABELS if token and (word.startswith(token) or token.startswith(word))]
            if len(begun) == 1:
                shares[begun[0]] += math.exp(min(0.0, float(entry["logprob"])))
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    total = sum(shares.values())
    if not total > 0.0 or max(shares, key=shares.__getitem__) != label:  # the first token wasn't the verdict's
        return None
    return shares["COMPLETE"] / total


def _messages(utterance: Utterance) -> list[dict[str, str]]:
    agent = utterance.agent_text.strip()[-LONGEST_TEXT:] or "(nothing yet)"
    caller = " ".join(plain_words(utterance.text[-LONGEST_TEXT:]))
    return [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": f"Agent: {agent}\nCaller: {caller}"},
    ]
