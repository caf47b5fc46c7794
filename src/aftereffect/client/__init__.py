"""A client of the service: live experiments over HTTP, with the methods of `Experiment`.

>>> client = Client("http://127.0.0.1:8750")
>>> client.experiment("banner")
<RemoteExperiment 'banner' at http://127.0.0.1:8750>
"""

from aftereffect.client._client import Client
from aftereffect.client._remote import RemoteExperiment

__all__ = [
    "Client",
    "RemoteExperiment",
]
