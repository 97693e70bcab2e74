"""Votes: the question of a story's step, and the answers of an audience.

One line of a step asks the question, which ends with the first question mark, before the choices:

    ask: Which is fastest for a short array? NumPy | Numba on all cores | A GPU

A vote counts one choice of each phone, and the hands that the lecturer counts in the room. A phone is known by a random
token that it generates. A vote stores the tokens only while it is open, so that choices can be changed; a closed vote
has counts alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from compute.files.documents import short

ASK = "ask:"  # first word of the line
FEWEST_CHOICES, MOST_CHOICES = 2, 6
LONGEST_QUESTION = 120  # characters
LONGEST_CHOICE = 40  # characters
MOST_VOTERS = 2000  # phones
MOST_HANDS = 1000  # per choice


class VoteRefused(ValueError):
    """Raised for a vote that does not count; the message is the reason, for the phone."""


@dataclass(frozen=True)
class VoteQuestion:
    """A question with its choices, as plain text."""

    text: str
    choices: tuple[str, ...]


def question(line: str) -> VoteQuestion:
    """Return the question of a line `ask: …`; raise ValueError with the bound that it breaks."""
    text, mark, rest = line.removeprefix(ASK).partition("?")
    text, choices = text.strip(), tuple(part.strip() for part in rest.split("|"))
    if not (text and mark):
        raise ValueError(f"{ASK} needs a question that ends with ?, then its choices, as in {ASK} Why? A | B")
    if not line.isprintable():
        raise ValueError(f"{ASK} the question and its choices must be visible text")
    if len(text) + 1 > LONGEST_QUESTION:
        raise ValueError(f"{ASK} a question has at most {LONGEST_QUESTION} characters, not {len(text) + 1}")
    found = len(choices) if rest.strip() else 0
    if not FEWEST_CHOICES <= found <= MOST_CHOICES:
        bound = f"{FEWEST_CHOICES} to {MOST_CHOICES}"
        raise ValueError(f"{ASK} a question has {bound} choices, separated by |, not {found}")
    for choice in choices:
        if not 1 <= len(choice) <= LONGEST_CHOICE:
            raise ValueError(f"{ASK} a choice has 1 to {LONGEST_CHOICE} characters, not {len(choice)}: {short(choice)}")
    if len(set(choices)) < len(choices):
        raise ValueError(f"{ASK} each choice must occur once")
    return VoteQuestion(f"{text}?", choices)


class Vote:
    """The votes on one question. number: of the vote, from 1; open: whether votes are accepted.

    hands: the counted hands of each choice.
    """

    def __init__(self, asked: VoteQuestion, number: int) -> None:
        self.question, self.number, self.open = asked, number, True
        self.hands = [0] * len(asked.choices)
        self._phones = [0] * len(asked.choices)
        self._chosen: dict[str, int] = {}  # token -> index of the choice

    @property
    def counts(self) -> list[int]:
        """The votes for each choice, of phones and hands."""
        return [phones + hands for phones, hands in zip(self._phones, self.hands, strict=True)]

    @property
    def tokens(self) -> int:
        """The number of stored tokens."""
        return len(self._chosen)

    def cast(self, token: str, choice: int) -> str:
        """Count a phone's choice, from 1, in place of an earlier one; return the confirmation for the phone.

        Raise VoteRefused for a closed vote, an unknown choice, or more than MOST_VOTERS phones.
        """
        if not self.open:
            raise VoteRefused("The vote is closed.")
        if not 1 <= choice <= len(self._phones):
            raise VoteRefused(f"This vote has the choices 1 to {len(self._phones)}, not {choice}.")
        before = self._chosen.get(token)
        if before is None and len(self._chosen) >= MOST_VOTERS:
            raise VoteRefused(f"A vote counts at most {MOST_VOTERS} phones.")
        if before is not None:
            self._phones[before] -= 1
        self._phones[choice - 1] += 1
        self._chosen[token] = choice - 1
        done = "changed" if before not in (None, choice - 1) else "counted"
        return f"Your vote is {done}. You can change it until the vote is closed."

    def count_hands(self, choice: int, count: int) -> None:
        """Set the counted hands of a choice, from 1; raise ValueError for a closed vote or an invalid number."""
        if not self.open:
            raise ValueError("the vote is closed")
        if not 1 <= choice <= len(self.hands):
            raise ValueError(f"choice must be from 1 to {len(self.hands)}, not {choice}")
        if not 0 <= count <= MOST_HANDS:
            raise ValueError(f"hands must be from 0 to {MOST_HANDS}, not {count}")
        self.hands[choice - 1] = count

    def close(self) -> None:
        """Accept no further votes, and delete the tokens."""
        self.open = False
        self._chosen.clear()

    def shown(self) -> dict[str, object]:
        """Return number, question, choices, open, and, of a closed vote, counts: the data that the audience sees."""
        shown = {
            "number": self.number, "question": self.question.text, "choices": list(self.question.choices),
            "open": self.open,
        }  # fmt: skip
        return shown if self.open else {**shown, "counts": self.counts}
