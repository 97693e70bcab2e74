"""Exercises: the kernels to write of `fieldlab learn`, with the commands that check them."""

from app.features.exercises.exercises import Exercises

FEATURE = Exercises
