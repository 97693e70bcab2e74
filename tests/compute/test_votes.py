"""Votes: the line that asks, and the counting of phones and hands."""

from __future__ import annotations

import secrets

import pytest

from compute import votes
from compute.votes import (
    LONGEST_CHOICE,
    LONGEST_QUESTION,
    MOST_HANDS,
    Vote,
    VoteQuestion,
    VoteRefused,
    question,
)

ASKED = VoteQuestion("Which is faster?", ("NumPy", "Numba", "GPU"))


@pytest.fixture
def vote() -> Vote:
    return Vote(ASKED, 1)


def test_a_line_has_a_question_and_its_choices():
    asked = question("ask: Which is faster at n = 1000? NumPy | Numba |GPU")
    assert asked == VoteQuestion("Which is faster at n = 1000?", ("NumPy", "Numba", "GPU"))
    assert question("ask:Why? Is it so? | <b>No</b>").choices == ("Is it so?", "<b>No</b>")
    assert len(question(f"ask: {'w' * (LONGEST_QUESTION - 1)}? {' | '.join('abcdef')}").choices) == 6
    assert question(f"ask: Why? a | {'w' * LONGEST_CHOICE}").choices[1] == "w" * LONGEST_CHOICE


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ask: NumPy | Numba", "a question that ends with ?"),
        ("ask: ? a | b", "a question that ends with ?"),
        ("ask: Why?", "2 to 6 choices, separated by |, not 0"),
        ("ask: Why? only one", "2 to 6 choices, separated by |, not 1"),
        (f"ask: Why? {' | '.join('abcdefg')}", "2 to 6 choices, separated by |, not 7"),
        (f"ask: {'w' * LONGEST_QUESTION}? a | b", f"at most {LONGEST_QUESTION} characters, not {LONGEST_QUESTION + 1}"),
        (f"ask: Why? a | {'w' * (LONGEST_CHOICE + 1)}", f"1 to {LONGEST_CHOICE} characters, not {LONGEST_CHOICE + 1}"),
        ("ask: Why? a |  | b", f"1 to {LONGEST_CHOICE} characters, not 0"),
        ("ask: Why? a | b | a", "each choice must occur once"),
        ("ask: Why? a | \N{RIGHT-TO-LEFT OVERRIDE}b", "visible text"),
    ],
)
def test_an_invalid_line_is_refused_with_its_bound(line, words):
    with pytest.raises(ValueError, match="ask: ") as refused:
        question(line)
    assert words in str(refused.value)


def test_each_phone_counts_once_and_can_change_its_choice(vote):
    assert "counted" in vote.cast("a", 1)
    assert "counted" in vote.cast("b", 1)
    assert vote.counts == [2, 0, 0]
    assert "counted" in vote.cast("a", 1)  # again
    assert vote.counts == [2, 0, 0]
    assert "changed" in vote.cast("a", 3)
    assert vote.counts == [1, 0, 1]


@pytest.mark.parametrize("choice", [-1, 0, 4, 9])
def test_an_unknown_choice_is_refused_and_the_earlier_one_counts(vote, choice):
    vote.cast("a", 2)
    with pytest.raises(VoteRefused, match=f"the choices 1 to 3, not {choice}"):
        vote.cast("a", choice)
    assert vote.counts == [0, 1, 0]


def test_a_closed_vote_keeps_its_counts_without_tokens_and_refuses_late_votes(vote):
    vote.cast("a", 2)
    vote.count_hands(1, 7)
    assert "counts" not in vote.shown()  # the audience votes without knowing the others' choices
    vote.close()
    assert (vote.counts, vote.tokens) == ([7, 1, 0], 0)
    assert vote.shown() == {
        "number": 1, "question": "Which is faster?", "choices": ["NumPy", "Numba", "GPU"], "open": False,
        "counts": [7, 1, 0],
    }  # fmt: skip
    for token in ("a", "b"):
        with pytest.raises(VoteRefused, match="closed"):
            vote.cast(token, 1)
    with pytest.raises(ValueError, match="closed"):
        vote.count_hands(1, 8)
    assert vote.counts == [7, 1, 0]


def test_hands_are_counted_without_phones_and_bounded(vote):
    vote.count_hands(2, 40)
    vote.count_hands(2, 41)  # replaces the number
    assert vote.counts == [0, 41, 0]
    for choice, count, words in ((0, 1, "choice must be from 1 to 3"), (4, 1, "choice must be from 1 to 3"),
                                 (1, -1, "from 0 to 1000, not -1"), (1, MOST_HANDS + 1, "not 1001")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            vote.count_hands(choice, count)
    assert vote.counts == [0, 41, 0]


def test_two_hundred_phones_that_change_their_minds(vote):
    tokens = [secrets.token_urlsafe(12) for _ in range(200)]
    for number, token in enumerate(tokens):
        vote.cast(token, 1 + number % 3)
    assert vote.counts == [67, 67, 66]
    for token in tokens[:150]:
        vote.cast(token, 3)
    assert vote.counts == [17, 17, 166]
    assert vote.tokens == 200


def test_the_number_of_phones_is_bounded(vote, monkeypatch):
    monkeypatch.setattr(votes, "MOST_VOTERS", 2)
    vote.cast("a", 1)
    vote.cast("b", 1)
    with pytest.raises(VoteRefused, match="at most 2 phones"):
        vote.cast("c", 1)
    vote.cast("b", 2)  # known phones can still change their choice
    assert vote.counts == [1, 1, 0]
