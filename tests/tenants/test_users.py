"""In a queue with fair users, a label that a tenant writes gains it nothing on other namespaces."""

from tests.tenants.world import World

USER = "example.com/user"


def team(**namespaces: str) -> World:
    """A queue whose users take turns; namespaces with the user that their label names, if any."""
    world = World().queue("q", ordering="FairUsers", userLabel=USER)
    for name, user in namespaces.items():
        world.namespace(name, {USER: user} if user else {})
    return world


def submit(
    world: World, namespace: str, count: int, *, user: str = "", since: float = 30, gpus: int = 1
) -> World:
    """Pods of this user, or each of a user of its own for "fresh"."""
    for index in range(count):
        name = f"{namespace}{index}"
        labels = {USER: f"{user}-{index}" if user == "fresh" else user} if user else {}
        world.pod(name, namespace, queue="q", labels=labels, since=since - index / 100)


def test_fresh_users_of_a_namespace_share_its_turn() -> None:
    world = team(a="", b="")
    submit(world, "a", 8, user="fresh", since=60)
    submit(world, "b", 8, user="bob")
    assert world.decide().order == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]


def test_fresh_users_do_not_catch_up_with_a_namespace_that_uses_less() -> None:
    world = team(a="", b="").pods("runs", "a", 3, queue="q", on="n0", labels={USER: "old"})
    submit(world, "a", 8, user="fresh", since=60)
    submit(world, "b", 8)
    assert world.decide().order == ["b0", "b1", "b2", "a0", "b3"]


def test_users_of_one_namespace_take_turns_inside_it() -> None:
    world = team(a="", b="")
    submit(world, "a", 3, user="ann", since=60)
    world.pod("bob", "a", queue="q", labels={USER: "bob"}, since=1)
    submit(world, "b", 3, since=40)
    assert world.decide().order == ["a0", "b0", "b1", "bob", "a1", "b2", "a2"]


def test_the_label_of_the_namespace_names_the_user_of_all_its_pods() -> None:
    """Two namespaces of Ann are one user, whatever their pods say."""
    world = team(a="ann", b="ann", c="")
    submit(world, "a", 4, user="fresh", since=60)
    submit(world, "b", 4, user="fresh", since=50)
    submit(world, "c", 4, since=40)
    assert world.decide().order == ["a0", "c0", "a1", "c1", "a2", "c2", "a3", "c3"]


def test_a_pod_cannot_name_the_user_of_a_namespace() -> None:
    """A pod with the user of another namespace as its label does not count for that user."""
    world = team(a="", c="carl").pods("runs", "a", 4, queue="q", on="n0", labels={USER: "carl"})
    submit(world, "a", 4, user="carl", since=60)
    submit(world, "c", 4)
    assert world.decide().order == ["c0", "c1", "c2", "c3"]


def test_a_tie_between_namespaces_is_not_decided_by_users() -> None:
    """Both use one GPU; the older gang goes first, though the user of the other one has nothing."""
    world = team(a="", b="").pod("ra", "a", queue="q", on="n0", labels={USER: "x"})
    world.pod("rb", "b", queue="q", on="n0", labels={USER: "y"})
    world.pod("old", "a", queue="q", gpus=4, labels={USER: "x"}, since=50)
    world.pod("new", "b", queue="q", gpus=4, labels={USER: "fresh"}, since=40)
    assert world.decide().order == ["old"]
