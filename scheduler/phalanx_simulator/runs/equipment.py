"""What serves the claims to volumes and devices in a simulated cluster: provisioners and drivers."""

from phalanx_simulator.campaigns.claims import (
    DEVICE_DRIVER,
    DEVICES,
    DISK_DRIVER,
    PREPARING_S,
    PROVISIONING_S,
    SPACE_GIB,
)
from phalanx_simulator.embedded.controllers.device_driver import DeviceDriver
from phalanx_simulator.embedded.controllers.device_preparer import BINDING, DevicePreparer
from phalanx_simulator.embedded.controllers.ephemeral_claims import EphemeralClaims
from phalanx_simulator.embedded.controllers.provisioner import LocalVolumes, Provisioner
from phalanx_simulator.embedded.controllers.resource_claims import ResourceClaims, serve
from phalanx_simulator.runs.world import World


def equip(world: World, *, prepares: bool = False) -> None:
    """Serve the kinds of devices, and start what creates, publishes and takes back; before the cluster is
    created.

    `prepares`: drivers prepare allocated devices before their pods are bound.
    """
    serve(world.server)
    client = world.client
    if prepares:
        preparer = DevicePreparer(client, driver=DEVICE_DRIVER, delay_s=PREPARING_S)
        world.controllers.callback(preparer.close)
    parts = (
        EphemeralClaims(client),
        Provisioner(client, driver=DISK_DRIVER, delay_s=PROVISIONING_S, space_gib=SPACE_GIB),
        LocalVolumes(client),
        ResourceClaims(client),
        DeviceDriver(client, driver=DEVICE_DRIVER, count=DEVICES, fields=BINDING if prepares else {}),
    )
    for part in parts:
        world.controllers.callback(part.close)
