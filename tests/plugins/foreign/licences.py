"""Each node has two of each licence that pods name in the annotation `acme.example/licence`."""

from phalanx.model.api.core import Pod
from phalanx.model.supplies.supply import Supply

LICENCE = "acme.example/licence"


class Licences(Supply):
    name = "licence"

    def requests(self, pod: Pod, wrong: list[str]) -> dict[str, int]:
        wanted = pod.metadata.annotations.get(LICENCE)
        return {self.resource(wanted): 1} if wanted else {}

    def reads(self, pod: Pod) -> str | None:
        return pod.metadata.annotations.get(LICENCE)

    def offered(self, resource: str) -> int:
        return 2
