"""The engine: one supervised process per device that hosts the labs of all sessions.

The server asks the EnginePool for a Supervisor and opens labs on it; each LabHandle takes requests and answers with
events. Nothing here waits for the device, and nothing in the server touches it.

How a slider's value travels: LabHandle.update (api.py) notes it in the LabState (registry.py) and puts an Update
(messages.py) into the RequestQueue, whose thread writes it into the Channel (channel.py). In the worker's process
Worker (worker.py) reads it between two slices and hands it to the LabHost (lab_host.py), which applies the newest
values before its next slice; the lab's own `update` and `advance` do the rest.

How a frame travels: FramePacer (pacing.py) says when one is due. The LabHost asks the lab for it, writes its arrays
into the lab's FrameRing (shared_memory.py) and sends a FrameMessage through the Channel; the Supervisor's thread
(supervisor.py) copies them out and calls the client's `on_event` with FrameReady. The client confirms frame n by
`frames_through(n + window)`: the engine never shows a frame beyond that number, and there is no other count of them.

Who may say what: the server sends Requests, the worker sends Reports, and any report is a sign of life. Events are
those reports that the app gets. What outlives a process, that is a lab's values, run state, view and last Checkpoint
(checkpoints.py), is in its LabState; when the process dies, hangs or loses its device, the Supervisor starts the next
one (process.py), which opens every lab again from that. A death in a lab's turn is charged to that lab: at its second
one it is closed with LabFailed, and the others go on. Beside the live labs a lab may be recorded (recording.py,
recording_store.py) and measured (benchmark_target.py).
"""

from compute.engine.api import LabHandle
from compute.engine.messages import (
    Busy,
    Checkpoint,
    CheckpointTaken,
    EngineBroken,
    EngineRestarted,
    EngineRestarting,
    Event,
    FrameReady,
    HistoryTold,
    LabClosed,
    LabFailed,
    Paused,
    RecordingProgress,
    Refused,
    Sampled,
    SnapshotTaken,
    Solved,
)
from compute.engine.supervisor import EnginePool, Supervisor

__all__ = [
    "Busy",
    "Checkpoint",
    "CheckpointTaken",
    "EngineBroken",
    "EnginePool",
    "EngineRestarted",
    "EngineRestarting",
    "Event",
    "FrameReady",
    "HistoryTold",
    "LabClosed",
    "LabFailed",
    "LabHandle",
    "Paused",
    "RecordingProgress",
    "Refused",
    "Sampled",
    "SnapshotTaken",
    "Solved",
    "Supervisor",
]
