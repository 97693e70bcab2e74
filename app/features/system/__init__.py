"""The system card: live readings of the machine, and the names of its devices in the header."""

from app.features.system.system_card import SystemCard

FEATURE = SystemCard
