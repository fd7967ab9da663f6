"""``python -I -S warm_stub.py SOCKET MODULE ARGUMENT…``: stands for a fork of a warm process, see ``warm_command``.

It hands over its stdin, stdout, stderr, variables and folder, passes on signals, and ends as the fork ends. The fork
is killed when this process dies. It imports little (no pathlib): this is all that a start costs.
"""

import os
import signal
import socket
import sys


def main() -> None:
    place, *arguments = sys.argv[1:]
    keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    keeper.connect(place)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, frame: keeper.send(bytes([got])))
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    told = "\0".join([os.getcwd(), str(len(arguments)), *arguments, *variables])  # noqa: PTH109
    socket.send_fds(keeper, [os.fsencode(told)], [0, 1, 2])
    for descriptor in range(3):
        os.close(descriptor)  # Their other ends are to notice when the fork closes them.
    status = int.from_bytes(keeper.recv(4), "big", signed=True)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
