"""Who may say and hear what on the bus. The server's config is written from this table, and the checks ask about it."""

from dataclasses import dataclass

from wire import subjects


@dataclass(frozen=True)
class Rights:
    """What is not named here is refused. `answers`: may answer a request, to its reply subject, within 60 s."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False


def of_bot() -> Rights:
    return Rights(
        publish=("$JS.API.>", "$JS.ACK.>", subjects.command("*"), subjects.key_change("*")),
        subscribe=(
            f"{subjects.inbox(subjects.BOT)}.>",
            subjects.HEARTBEATS,
            subjects.JOINS,
            "$JS.EVENT.ADVISORY.>",
        ),
    )


def of_node(name: str) -> Rights:
    """Nothing of JetStream's interface, and nothing of other nodes."""
    return Rights(
        publish=(subjects.observations(name), subjects.heartbeat(name)),
        subscribe=(subjects.command(name), subjects.key_change(name), f"{subjects.inbox(name)}.>"),
        answers=True,
    )


def of_join_key(name: str) -> Rights:
    """One message, and nothing to hear."""
    return Rights(publish=(subjects.join(name),), subscribe=())


def permissions(rights: Rights) -> str:
    """In the words of the server's config."""
    publish = ", ".join(f'"{subject}"' for subject in rights.publish)
    allowed = ", ".join(f'"{subject}"' for subject in rights.subscribe)
    subscribe = f"{{ allow: [{allowed}] }}" if allowed else '{ deny: [">"] }'
    answers = ', allow_responses: { max: 2, expires: "60s" }' if rights.answers else ""
    return f"{{ publish: {{ allow: [{publish}] }}, subscribe: {subscribe}{answers} }}"
