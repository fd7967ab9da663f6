"""Starts a command that is killed by the kernel when the process that started it dies, even by SIGKILL.

Run as a script: ``python -I -S tether.py PARENT_PID COMMAND…``. It becomes the command by exec, so there is no process
in between. This is not done between fork and exec (``preexec_fn``), because the runtime has threads. The thread that
starts it must live as long as the runtime: the kernel watches that thread. Other systems than Linux have no such
signal; there a connector notices by the end of its stdin and by its broken stdout.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2)


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            sys.exit(1)
    # Python ignores these; exec would hand that on, and the command would not end with its pipe.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be executed: {error.strerror}\n")
        sys.exit(126)


if __name__ == "__main__":
    main()
