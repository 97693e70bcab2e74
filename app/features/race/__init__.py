"""The race: the shown lab's work on two to four lanes, side by side."""

from app.features.race.race import RaceTrack

FEATURE = RaceTrack
