"""Options of ``sbatch``, grouped by how the reader of traces handles them."""

import shlex
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

# Long options by their short forms.
_LONG: Mapping[str, str] = MappingProxyType(
    {
        "A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint", "c": "cpus-per-task",
        "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "h": "help",
        "I": "immediate", "i": "input", "J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters",
        "m": "distribution", "N": "nodes", "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition",
        "Q": "quiet", "q": "qos", "S": "core-spec", "s": "oversubscribe", "t": "time", "V": "version", "v": "verbose",
        "W": "wait", "w": "nodelist", "x": "exclude",
    }
)  # fmt: skip
# Options without a value, or with an optional value after an equals sign.
FLAGS = frozenset(
    (
        "contiguous exclusive get-user-env help hold ignore-pbs immediate kill-on-invalid-dep nice no-kill no-requeue "
        "overcommit oversubscribe parsable propagate quiet reboot requeue resv-ports spread-job stepmgr test-only "
        "usage use-min-nodes verbose version wait"
    ).split()
)
# Options that are read: for the request, and for the job's name, user, time limit and dependency.
USED = frozenset(
    (
        "constraint cpus-per-task dependency exclude exclusive gpus gpus-per-node gpus-per-task gres job-name "
        "licenses mem mem-per-cpu mem-per-gpu nodelist nodes ntasks ntasks-per-gpu ntasks-per-node partition time "
        "tres-per-task uid cpus-per-gpu"
    ).split()
)
# Options that affect neither what a job needs nor when it may start.
HARMLESS = frozenset(
    (
        "account acctg-freq chdir comment container container-id error export export-file extra get-user-env gid help "
        "ignore-pbs input kill-on-invalid-dep mail-type mail-user no-kill no-requeue open-mode output parsable "
        "profile propagate qos quiet requeue signal test-only usage verbose version wait wait-all-nodes wckey wrap "
        "gpu-bind mem-bind tres-bind cpu-freq gpu-freq stepmgr"
    ).split()
)
# Options that no request can express: they ask for resources or hosts, or stand for several jobs.
DEMANDS = frozenset(
    (
        "array batch bb bbf cluster-constraint clusters contiguous core-spec cores-per-socket extra-node-info "
        "gpus-per-socket mcs-label mincpus network nodefile ntasks-per-core ntasks-per-socket reservation "
        "resv-ports segment sockets-per-node switches thread-spec threads-per-core tmp"
    ).split()
)
# Options that change when or how a job starts, which is not modelled.
NOT_MODELLED = frozenset(
    (
        "begin deadline delay-boot distribution gres-flags hint hold immediate nice overcommit oversubscribe power "
        "prefer priority reboot spread-job time-min use-min-nodes"
    ).split()
)
_QUOTES = frozenset("\"'\\")
KNOWN = USED | HARMLESS | DEMANDS | NOT_MODELLED


class Option(NamedTuple):
    """The long name of an option, and its value, empty if it has none."""

    name: str
    value: str


def options_of(text: str, single_dash: Mapping[str, str]) -> Iterator[Option]:
    """Yield the options before the script in a command line that is quoted as for a shell.

    ``single_dash`` maps further options, which begin with one dash and take a value, to their long names. The next word
    is taken as the value of an unknown option, except if it is the last word or begins with a dash. Raises `ValueError`
    for an open quote, and for a known option without its value.
    """
    try:
        # Splitting by a shell's rules is slow, and few lines have quotes.
        words = shlex.split(text) if set(text) & _QUOTES else text.split()
    except ValueError as error:
        raise ValueError(f"cannot be split into options: {error}") from None
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if not word.startswith("-") or word == "-":
            return
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--") and name in single_dash:
            name = single_dash[name]
        elif not word.startswith("--"):
            short, attached = word[1], word[2:]
            name, equals, value = _LONG.get(short, short), attached[:1], attached.removeprefix("=")
        if not equals and name not in FLAGS:
            is_known = name in KNOWN or name in single_dash.values()
            is_value = place < len(words) if is_known else place + 1 < len(words) and words[place][:1] != "-"
            if is_known and not is_value:
                raise ValueError(f"has the option {word} without a value")
            if is_value:
                value = words[place]
                place += 1
        yield Option(name, value)
