"""Use a changed configuration file without a restart.

The file is read again and again, and compared by a digest of its content: a ConfigMap mount is a symbolic
link that the kubelet replaces, which notifications of changed files miss. A file that is wrong is refused and
the configuration in effect stays; so is one that changes what is fixed while the scheduler runs.
"""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import fields

from phalanx.framework.config import ConfigError, SchedulerConfig
from phalanx.framework.registry import declared_reads, default_spread, reads_images
from phalanx.observe.ports import ConfigReports
from phalanx.service.limits import CONFIG_BYTES_MAX, CONFIG_POLL_S

_log = structlog.get_logger(__name__)

_FIXED: Final = (
    "scheduler_name",
    "nominating_schedulers",
    "evictable_pods",
    "queue_dialects",
    "state_taints",
    "workloads",
    "tracing",
)
"""What the cache keeps, what is watched, and where traces are sent follows from these fields."""


class ConfigFile(Struct, frozen=True):
    """The configuration file of a running scheduler."""

    read: Callable[[], bytes]
    """Return the content now. Raises OSError."""
    parse: Callable[[bytes], SchedulerConfig]
    """Check all of the content. Raises ConfigError."""


class Reloaded(Struct, frozen=True):
    """What became of a changed file."""

    is_used: bool
    message: str
    """One sentence for users."""


class ConfigReload:
    """Looks at the file while `run` runs; `apply` gets each new configuration, `on_outcome` each outcome."""

    def __init__(
        self,
        file: ConfigFile,
        *,
        config: SchedulerConfig,
        apply: Callable[[SchedulerConfig], None],
        on_outcome: Callable[[Reloaded], None],
        reports: ConfigReports,
    ) -> None:
        """`config` is the configuration in effect."""
        self._file = file
        self._config = config
        self._apply = apply
        self._on_outcome = on_outcome
        self._reports = reports
        self._digest = b""
        self._refusal = ""

    async def run(self) -> None:
        """Look at the file until cancelled."""
        while True:
            await asyncio.sleep(CONFIG_POLL_S)
            await self.look()

    async def look(self) -> None:
        """Use the file if it has changed and is good.

        It is read and checked in a thread: constructors of plugins and a file system may take long, and the
        Lease must be renewed meanwhile.
        """
        try:
            config = await asyncio.to_thread(self._changed_config)
        except (OSError, ConfigError) as error:
            self._refuse(str(error))
        except Exception as error:  # a plugin can fail in any way, and a file must not stop the scheduler
            self._refuse(repr(error))
        else:
            if config is not None:
                self._use(config)

    def _changed_config(self) -> SchedulerConfig | None:
        """The configuration in the file; None if its content is that of the last look."""
        content = self._file.read()
        digest = hashlib.blake2b(content).digest()
        if digest == self._digest:
            return None
        self._digest = digest
        if len(content) > CONFIG_BYTES_MAX:
            raise ConfigError(f"expected a file of at most {CONFIG_BYTES_MAX} bytes, found {len(content)}")
        config = self._file.parse(content)
        fixed = fixed_changes(self._config, config)
        if fixed:
            raise ConfigError(f"{', '.join(fixed)} changed, for which the scheduler must be restarted")
        return config

    def _use(self, config: SchedulerConfig) -> None:
        """Use a configuration that may also be the one in effect, if only comments changed."""
        was_refused, self._refusal = bool(self._refusal), ""
        self._reports.config_read(is_used=True)
        if config == self._config and not was_refused:
            return
        changed = changed_keys(self._config, config)
        self._config = config
        if changed:
            self._apply(config)
        message = f"The configuration was reloaded; changed: {', '.join(changed) or 'nothing'}"
        _log.info("configuration reloaded", changed=changed)
        self._on_outcome(Reloaded(is_used=True, message=message))

    def _refuse(self, problem: str) -> None:
        """Keep the configuration in effect; the same problem is reported once."""
        self._reports.config_read(is_used=False)
        if problem == self._refusal:
            return
        self._refusal = problem
        _log.error("configuration refused, the old one stays in effect", problem=problem)
        message = f"The configuration was refused, the old one stays in effect: {problem}"
        self._on_outcome(Reloaded(is_used=False, message=message))


def changed_keys(before: SchedulerConfig, after: SchedulerConfig) -> tuple[str, ...]:
    """The top-level keys that differ."""
    return tuple(
        field.encode_name
        for field in fields(SchedulerConfig)
        if getattr(before, field.name) != getattr(after, field.name)
    )


def fixed_changes(before: SchedulerConfig, after: SchedulerConfig) -> tuple[str, ...]:
    """What differs and needs a restart. Raises ConfigError for a plugin that does not exist."""
    changed = changed_keys(before, after)
    fixed = [each.encode_name for each in fields(SchedulerConfig) if each.name in _FIXED]
    known, needed = declared_reads(before), declared_reads(after)
    annotations = sorted(
        (needed.pod_annotations - known.pod_annotations) | (needed.node_annotations - known.node_annotations)
    )
    of_plugins = [f"annotations that plugins read ({', '.join(annotations)})"] if annotations else []
    if default_spread(before) != default_spread(after):
        of_plugins.append("defaultConstraints of plugin topology-spread")
    if reads_images(after) and not reads_images(before):
        of_plugins.append("weight of plugin image-locality")
    return (*(key for key in fixed if key in changed), *of_plugins)
