"""The engine: one supervised process per device, which hosts the labs of all sessions.

The server gets a Supervisor from the EnginePool and opens labs on it. Each LabHandle accepts requests and delivers
events. No call of the server waits for the device, and the server process never uses it.

Path of a slider value: LabHandle.update (api.py) stores it in the LabState (registry.py) and puts an Update
(messages.py) into the RequestQueue, whose thread writes it to the Channel (channel.py). In the worker process, Worker
(worker.py) reads it between two slices and passes it to the LabHost (lab_host.py), which applies the latest values
before its next slice by the lab's own `update` and `advance`.

Path of a frame: FramePacer (pacing.py) decides when a frame is due. The LabHost renders it, writes its arrays into the
lab's FrameRing (shared_memory.py) and sends a FrameMessage through the Channel. The Supervisor's thread (supervisor.py)
copies the arrays and calls the client's `on_event` with FrameReady. The client confirms frame n by calling
`frames_through(n + window)`; the engine never shows a frame beyond that number, and keeps no second count.

Direction of messages: the server sends Requests, the worker sends Reports, and every report is a sign of life. Events
are the reports that reach the app. A lab's values, run state, view and last Checkpoint (checkpoints.py) outlive the
process in its LabState. When the process dies, hangs or loses its device, the Supervisor starts the next one
(process.py), which reopens every lab from its LabState. A death during a lab's turn is charged to that lab; the second
charge closes it with LabFailed, and the other labs continue. A live lab can also be recorded (recording.py,
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
