"""Audience mode: phones that follow the page, and the lecturer's second window."""

from app.features.audience.mode import AudienceMode

FEATURE = AudienceMode
