"""The two automata of a conversation and their only transitions.

They run side by side: every pair of states is legal, overlap included. The diagram in ARCHITECTURE.md is generated from
these tables.
"""

from __future__ import annotations

from enum import StrEnum


class IllegalTransition(Exception):
    """A trigger that its state does not allow: a bug in the machine, never a client's mistake."""


class User(StrEnum):
    """What the user does."""

    SILENT = "silent"
    SPEAKING = "speaking"
    PAUSED = "paused"


class UserTrigger(StrEnum):
    """What changes it."""

    ONSET = "speech onset"
    PAUSE = "voice pauses"
    RESUME = "voice resumes"
    TURN_END = "turn ends"
    DROP = "input dropped"


class Agent(StrEnum):
    """What the agent does: speaking means that its audio is audible or on its way."""

    IDLE = "idle"
    THINKING = "thinking"
    SPEAKING = "speaking"


class AgentTrigger(StrEnum):
    """What changes it."""

    RESPONSE_START = "response starts"
    FIRST_AUDIO = "audio leaves"
    RESPONSE_END = "response ends"
    PLAYOUT_END = "playout ends"
    PLAYOUT_GAP = "playout runs dry"
    CUT = "cut short"


USER_TRANSITIONS: dict[tuple[User, UserTrigger], User] = {
    (User.SILENT, UserTrigger.ONSET): User.SPEAKING,
    (User.SPEAKING, UserTrigger.PAUSE): User.PAUSED,
    (User.PAUSED, UserTrigger.RESUME): User.SPEAKING,
    (User.SPEAKING, UserTrigger.TURN_END): User.SILENT,
    (User.PAUSED, UserTrigger.TURN_END): User.SILENT,
    (User.SPEAKING, UserTrigger.DROP): User.SILENT,
    (User.PAUSED, UserTrigger.DROP): User.SILENT,
}

AGENT_TRANSITIONS: dict[tuple[Agent, AgentTrigger], Agent] = {
    (Agent.IDLE, AgentTrigger.RESPONSE_START): Agent.THINKING,
    (Agent.THINKING, AgentTrigger.FIRST_AUDIO): Agent.SPEAKING,
    (Agent.THINKING, AgentTrigger.RESPONSE_END): Agent.IDLE,
    (Agent.THINKING, AgentTrigger.CUT): Agent.IDLE,
    (Agent.SPEAKING, AgentTrigger.RESPONSE_START): Agent.SPEAKING,
    (Agent.SPEAKING, AgentTrigger.RESPONSE_END): Agent.SPEAKING,
    (Agent.SPEAKING, AgentTrigger.PLAYOUT_GAP): Agent.THINKING,
    (Agent.SPEAKING, AgentTrigger.PLAYOUT_END): Agent.IDLE,
    (Agent.SPEAKING, AgentTrigger.CUT): Agent.IDLE,
}


def next_user(state: User, trigger: UserTrigger) -> User:
    """Return the user's next state. Raises IllegalTransition."""
    try:
        return USER_TRANSITIONS[state, trigger]
    except KeyError:
        raise IllegalTransition(f"user {state}: {trigger}") from None


def next_agent(state: Agent, trigger: AgentTrigger) -> Agent:
    """Return the agent's next state. Raises IllegalTransition."""
    try:
        return AGENT_TRANSITIONS[state, trigger]
    except KeyError:
        raise IllegalTransition(f"agent {state}: {trigger}") from None


def mermaid() -> str:
    """Return both automata as one Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    state User {", f"        [*] --> user_{User.SILENT}"]
    lines += [f"        user_{a} --> user_{b}: {t}" for (a, t), b in USER_TRANSITIONS.items()]
    lines += ["    }", "    state Agent {", f"        [*] --> agent_{Agent.IDLE}"]
    lines += [f"        agent_{a} --> agent_{b}: {t}" for (a, t), b in AGENT_TRANSITIONS.items()]
    return "\n".join([*lines, "    }"])
