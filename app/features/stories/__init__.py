"""Stories: a lecture in steps, each with a text and a state of a lab."""

from app.features.stories.stories import StoryTeller

FEATURE = StoryTeller
