"""`python -m demo`: the command, loaded so that Ctrl-C meanwhile ends it without a traceback."""

import signal


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from demo.command import main as demo

    demo()


if __name__ == "__main__":
    main()
