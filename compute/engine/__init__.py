"""The engine: one supervised process per device that hosts the labs of all sessions.

The server asks an EngineRoom for a Supervisor and opens labs on it; each LabHandle takes requests and answers with
events. Nothing here waits for the device, and nothing in the server touches it.
"""

from compute.engine.handle import LabHandle
from compute.engine.messages import (
    Broken,
    Busy,
    Checkpoint,
    CheckpointTaken,
    Closed,
    Event,
    FrameReady,
    Paused,
    Recorded,
    Refused,
    Restarted,
    Restarting,
    Sampled,
    SnapshotTaken,
    Solved,
)
from compute.engine.room import EngineRoom
from compute.engine.supervisor import Supervisor

__all__ = [
    "Broken",
    "Busy",
    "Checkpoint",
    "CheckpointTaken",
    "Closed",
    "EngineRoom",
    "Event",
    "FrameReady",
    "LabHandle",
    "Paused",
    "Recorded",
    "Refused",
    "Restarted",
    "Restarting",
    "Sampled",
    "SnapshotTaken",
    "Solved",
    "Supervisor",
]
