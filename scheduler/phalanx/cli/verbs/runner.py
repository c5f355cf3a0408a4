"""Run one command that looks at a cluster: read, build the view, print it; again and again with --watch."""

import sys
from collections.abc import Callable, Sequence
from threading import Event
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.kubeconfig_option import existing_kubeconfig
from phalanx.cli.verbs.options import ClusterOptions, TableOptions, ViewOptions
from phalanx.cli.verbs.printing import Format, Line, show, width_of_screen
from phalanx.cli.verbs.read import Wanted, namespace_of, read_cluster
from phalanx.cli.verbs.seen import Seen
from phalanx.clock import SystemClock
from phalanx.kube.blocking import BlockingClient
from phalanx.kube.errors import ApiError
from phalanx.kube.garbage_collection import GarbageCollection
from phalanx.kube.kubeconfig import NoCluster, Source
from phalanx.model.texts import printable
from phalanx.ports import OutcomeUnknown, RequestNotSent

V = TypeVar("V")

FAILURES = (ApiError, RequestNotSent, OutcomeUnknown)


class NotFound(Exception):
    """The object that the user named does not exist, or may not be seen."""


class NotReadable(Exception):
    """The command needs something that the user may not read."""


class Question(Struct, Generic[V], frozen=True, kw_only=True):
    """What a command reads, and what it makes of it."""

    name: str
    kinds: tuple[str, ...]
    view: Callable[[Seen], V]
    lines: Callable[[V, Format], Sequence[Line]]
    """The lines for people."""
    code: Callable[[V], int] = lambda _: Exit.OK
    everywhere: frozenset[str] = frozenset()
    """Namespaced kinds that are read in all namespaces."""
    needed: tuple[str, ...] = ()
    """Kinds without which there is no answer."""
    with_gangs: bool = True
    quiet: frozenset[str] = frozenset()
    """Kinds that refine the answer a little. It is not noted that they are left out."""
    enrich: Callable[[BlockingClient, Seen], Seen] = lambda _, seen: seen
    """Read what depends on what was read."""


class Session:
    """One connection to a cluster, with the options of the user. Use as a context manager."""

    def __init__(self, options: ClusterOptions, *, all_namespaces: bool = False) -> None:
        path = existing_kubeconfig(options.kubeconfig)
        if all_namespaces and options.namespace is not None:
            raise BadInput("--all-namespaces, --namespace: expected one of them")
        access = Source(path, options.context).read()
        self.client = BlockingClient(access)
        self.home = namespace_of(named=options.namespace, of_context=access.namespace)
        self.namespace = "" if all_namespaces else self.home
        self.scheduler_name = options.scheduler_name
        self.collection = GarbageCollection()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def read(self, question: Question[V]) -> Seen:
        """Read what the question needs. Raises ApiError, RequestNotSent, OutcomeUnknown or NotReadable."""
        wanted = Wanted(
            kinds=question.kinds,
            namespace=self.namespace,
            everywhere=question.everywhere,
            home=self.home,
            with_gangs=question.with_gangs,
            scheduler_name=self.scheduler_name,
            quiet=question.quiet,
        )
        seen = read_cluster(self.client, wanted, now_ms=SystemClock().now_ms())
        missing = [seen.unread[kind] for kind in question.needed if kind in seen.unread]
        if missing:
            raise NotReadable("; ".join(missing))
        return question.enrich(self.client, seen)


def ask(options: ViewOptions, question: Question[V]) -> int:
    """Answer once, or with --watch whenever the answer changes. Return the exit code."""
    if options.interval <= 0:
        raise BadInput(f"--interval: expected a number above 0, found {options.interval:g}")

    def answer() -> int:
        with Session(options, all_namespaces=options.all_namespaces) as session:
            return _until_stopped(session, options, question)

    return reporting(question.name, answer)


def reporting(name: str, work: Callable[[], int]) -> int:
    """Run it, and report what a user can do something about in one line."""
    try:
        return work()
    except NotFound as error:
        print(printable(f"{name}: {error}"), file=sys.stderr)
        return Exit.NOT_FOUND
    except (NoCluster, NotReadable, *FAILURES) as error:
        print(printable(f"{name}: {error}"), file=sys.stderr)
        return Exit.FAILED


def _until_stopped(session: Session, options: ViewOptions, question: Question[V]) -> int:
    noted: set[str] = set()
    before: V | None = None
    pause = Event()
    while True:
        with session.collection.paused():
            seen = session.read(question)
            view = question.view(seen)
            for note in seen.notes:
                if note not in noted:
                    print(printable(f"note: {note}"), file=sys.stderr)
                    noted.add(note)
            if view != before:
                _print(view, options, question, seen.now_ms, is_again=before is not None)
        if not options.watch:
            return question.code(view)
        before = view
        sys.stdout.flush()
        pause.wait(options.interval)


def _chosen(options: ViewOptions) -> tuple[str, ...]:
    written = options.columns if isinstance(options, TableOptions) else ""
    return tuple(name.strip().lower() for name in written.split(",") if name.strip())


def _print(view: V, options: ViewOptions, question: Question[V], now_ms: int, *, is_again: bool) -> None:
    output = options.output
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(view), indent=2).decode())
    elif output == "yaml":
        import yaml

        if is_again:
            print("---")
        yaml.safe_dump(msgspec.to_builtins(view), sys.stdout, sort_keys=False, allow_unicode=True)
    else:
        if is_again:
            print()
        how = Format(
            is_wide=output == "wide",
            all_namespaces=options.all_namespaces,
            now_ms=now_ms,
            width=width_of_screen(),
            chosen=_chosen(options),
        )
        show(question.lines(view, how), width=0 if how.is_wide else how.width)
