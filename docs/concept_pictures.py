"""Draw the pictures of `concepts.md`: `python docs/concept_pictures.py` writes them to `images/concepts`.

All colours are of middle brightness, so that they can be seen on a light and on a dark page. Text is grey on the page
and black on a colour.
"""

from collections.abc import Callable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "images" / "concepts"
GREY, BLACK = "#7a828c", "#101418"
COLOURS = {"A": "#5b9bd5", "B": "#e08e3c", "C": "#3fae8f", "D": "#c678b4", "G": "#a58be0"}
"""The colour of each job."""
IDLE, IN_USE, DRAINED = ".#x"
"""How a node without a job of the picture is written; any other character is the name of a job."""
SIDE, STEP = 18, 22
"""Width of a node, and distance between neighbouring nodes."""
RACK_WIDTH, RACK_STEP = 4 * STEP + 6, 4 * STEP + 22
"""Width of a rack of four nodes, and distance between neighbouring racks."""
HOUR = 44
"""Width of an hour."""
DASHED = ' stroke-dasharray="4 3"'


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = GREY) -> str:
    """Write words to the right of a point (`start`), around it (`middle`) or to the left of it (`end`)."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str = "none", more: str = "") -> str:
    """Draw a rectangle; `more` are further attributes."""
    size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {size} rx="3" fill="{fill}" stroke="{GREY}"{more}/>'


def line(*points: tuple[float, float], colour: str = GREY, width: float = 1, more: str = "") -> str:
    """Draw a line through points."""
    places = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width:g}"{more}/>'


def arrow(x: float, y: float, length: float, *, down: bool = False) -> str:
    """Draw an arrow to the right, or downwards."""
    turn = f' transform="rotate(90 {x:g} {y:g})"' if down else ""
    tip = x + length
    head = f'<polygon points="{tip:g},{y:g} {tip - 9:g},{y - 5:g} {tip - 9:g},{y + 5:g}" fill="{GREY}"/>'
    return f"<g{turn}>{line((x, y), (tip - 4, y), width=2)}{head}</g>"


def node(x: float, y: float, holds: str = IDLE) -> str:
    """Draw a node: idle, in use by other jobs, drained, or with the name of its job."""
    if holds == DRAINED:
        cross = line((x + 4, y + 4), (x + 14, y + 14)) + line((x + 14, y + 4), (x + 4, y + 14))
        return box(x, y, SIDE, SIDE, more=DASHED) + cross
    if holds in (IDLE, IN_USE):
        return box(x, y, SIDE, SIDE, GREY if holds == IN_USE else "none")
    return box(x, y, SIDE, SIDE, COLOURS[holds]) + text(x + SIDE / 2, y + 14, holds, "middle", BLACK)


def rack(x: float, y: float, nodes: str, name: str = "") -> str:
    """Draw a rack: a leaf switch on top, its nodes below, one character of `nodes` for each."""
    middle = x + RACK_WIDTH / 2
    parts = [box(x, y, RACK_WIDTH, 60, more=DASHED), box(middle - 18, y + 6, 36, 7, GREY)]
    for place, holds in enumerate(nodes):
        left = x + 5 + place * STEP
        parts += [line((middle, y + 13), (left + SIDE / 2, y + 36)), node(left, y + 36, holds)]
    return "".join(parts) + text(middle, y + 76, name, "middle")


def racks(x: float, y: float, *nodes: str, names: bool = False) -> str:
    """Draw racks side by side, and the top switch that connects them."""
    middle = x + ((len(nodes) - 1) * RACK_STEP + RACK_WIDTH) / 2
    parts = [box(middle - 18, y, 36, 7, GREY)]
    for place, held in enumerate(nodes):
        left = x + place * RACK_STEP
        parts += [line((middle, y + 7), (left + RACK_WIDTH / 2, y + 32))]
        parts += [rack(left, y + 26, held, f"rack {place + 1}" if names else "")]
    return "".join(parts)


def request(x: float, y: float, job: str, words: str, width: float = 150) -> str:
    """Draw what a job asks for, beside its name."""
    card = box(x + STEP, y, width - STEP, SIDE) + text(x + STEP + 6, y + 14, words)
    return node(x, y, job) + card


def runs(x: float, y: float, job: str, time: tuple[int, int], rows: tuple[int, int], *, plan: bool = False) -> str:
    """Draw when a job runs, from hour to hour, on a range of rows, each of which is a node; a plan is dashed."""
    left, top = x + time[0] * HOUR, y + rows[0] * STEP
    width, height = (time[1] - time[0]) * HOUR - 2, (rows[1] - rows[0]) * STEP - 4
    fill = ("none", DASHED) if plan else (COLOURS[job],)
    name = text(left + width / 2, top + height / 2 + 5, job, "middle", COLOURS[job] if plan else BLACK)
    return box(left, top, width, height, *fill) + name


def time_axis(x: float, y: float, count: int) -> str:
    """Draw a time axis below four nodes, with a mark for each hour."""
    parts = [text(x - 8, y + row * STEP + 14, f"node {row + 1}", "end") for row in range(4)]
    base = y + 4 * STEP
    parts += [line((x, y - 2), (x, base), (x + count * HOUR, base))]
    for hour in range(count + 1):
        mark = x + hour * HOUR
        parts += [line((mark, base), (mark, base + 4))]
        parts += [text(mark, base + 18, f"{hour} h" if hour else "now", "middle")]
    return "".join(parts)


def picture(title: str, width: int, height: int, *parts: str) -> str:
    """Return a picture as the text of an SVG file."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="system-ui, Segoe UI, Roboto, Helvetica, Arial, sans-serif" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>\n"])


def cluster() -> str:
    """Draw eight nodes on a network, and what is in a node."""
    nodes = []
    for place in range(8):
        x = 20 + place * 38
        nodes += [line((x + 9, 38), (x + 9, 60)), node(x, 60)]
    network = [box(14, 28, 296, 10, GREY), text(162, 18, "network", "middle"), text(162, 100, "eight nodes", "middle")]
    detail = [box(400, 26, 100, 78), text(420, 48, "cores"), text(420, 70, "memory"), text(420, 92, "GPUs")]
    lens = [line((304, 60), (400, 26), more=DASHED), line((304, 78), (400, 104), more=DASHED)]
    return picture("A cluster of eight nodes", 514, 112, *network, *nodes, *lens, *detail)


def rack_of_nodes() -> str:
    """Draw three racks below a top switch."""
    tree = racks(10, 10, "....", "....", "....", names=True)
    words = [text(198, 18, "top switch"), text(346, 54, "leaf switches"), text(346, 86, "nodes")]
    return picture("Three racks of four nodes", 440, 118, tree, *words)


def job() -> str:
    """Draw the requests of two jobs: one runs, one waits."""
    asked = [
        text(10, 24, "requests"),
        request(10, 34, "A", "3 nodes, 2 hours"),
        request(10, 58, "B", "2 nodes, 1 hour"),
    ]
    step = [text(242, 38, "scheduler", "middle"), arrow(196, 48, 92)]
    state = [text(308, 118, "A runs, B waits: only one node is idle")]
    return picture("Two jobs: A runs, B waits", 560, 126, *asked, *step, racks(308, 8, "AAA#", "###."), *state)


def gang() -> str:
    """Draw a gang that waits for its third node, and the same gang running."""
    asked = [request(10, 42, "G", "gang of 3 nodes")]
    before = [rack(200, 16, "##.."), text(247, 92, "2 idle: G waits", "middle")]
    after = [rack(374, 16, "#GGG"), text(421, 92, "3 idle: G starts", "middle")]
    return picture("A gang starts with all of its nodes", 490, 100, *asked, *before, arrow(312, 46, 44), *after)


def window() -> str:
    """Draw a window, and an allocation of it."""
    jobs = [
        request(18, 38, "A", "3 nodes", 94),
        request(18, 62, "B", "2 nodes", 94),
        request(18, 86, "C", "1 node", 94),
    ]
    asked = [box(8, 28, 328, 96, more=DASHED), *jobs, racks(124, 32, "#...", ".#.."), text(8, 18, "window")]
    answer = [text(402, 18, "allocation"), racks(402, 32, "#AAA", "C#BB")]
    return picture("A window and its allocation", 626, 132, *asked, arrow(346, 76, 46), *answer)


def hop_cost() -> str:
    """Draw one job in a rack and in two racks, each with a path between two of its nodes."""
    short = line((24, 74), (57, 51), (46, 74), colour=COLOURS["B"], width=3)
    way_up, way_down = ((336, 74), (347, 51), (347, 44)), ((457, 44), (457, 51), (424, 74))
    long = line(*way_up, (402, 19), *way_down, colour=COLOURS["B"], width=3)
    within = [racks(10, 12, "AAAA", "####"), short, text(20, 30, "2 hops")]
    across = [racks(300, 12, "AA##", "AA##"), long, text(428, 22, "4 hops")]
    sums = [text(10, 120, "from each node: 2 + 2 + 2 = 6"), text(300, 120, "from each node: 2 + 4 + 4 = 10")]
    return picture("Hops within a rack and between racks", 540, 130, *within, *across, *sums)


def axis_of_costs(y: float, bound: int, answer: int, words: str) -> str:
    """Draw an axis of hop costs: no allocation is below the bound, the optimum is between bound and answer."""
    left, low, high, right = (20 + (cost - 8000) * 0.16 for cost in (8000, bound, answer, 11000))
    impossible = box(left, y - 9, low - left, 18, GREY) + text((left + low) / 2, y + 5, "impossible", "middle", BLACK)
    gap = box(low, y - 9, high - low, 18, COLOURS["B"]) if low < high else ""
    marks = line((low, y - 13), (low, y + 13), width=3) + line((high, y - 13), (high, y + 13), width=3)
    names = text(low - 4, y + 28, f"bound {bound:,}", "end") + text(high + 4, y + 28, f"answer {answer:,}")
    axis = line((left, y), (right, y)) + text(right + 8, y + 5, "hop cost")
    return "".join([axis, impossible, gap, marks, names, text((low + high) / 2, y - 20, words, "middle")])


def bound() -> str:
    """Draw an answer above its bound, and an answer that equals its bound."""
    apart = axis_of_costs(42, 9000, 10000, "gap 10 %: the optimum is between them")
    equal = axis_of_costs(124, 9600, 9600, "gap 0: the answer is proved optimal")
    return picture("Answer, bound and gap", 590, 160, apart, equal)


def backfilling() -> str:
    """Draw the same three jobs without and with backfilling."""
    jobs = [request(10, 10, "A", "3 nodes, 2 hours"), request(190, 10, "B", "4 nodes, 1 hour")]
    jobs += [request(370, 10, "C", "1 node, 2 hours")]
    parts = []
    for x, start, words in ((70, 3, "without backfilling"), (400, 0, "with backfilling")):
        first = [runs(x, 68, "A", (0, 2), (0, 3)), runs(x, 68, "B", (2, 3), (0, 4))]
        parts += [text(x, 58, words), time_axis(x, 68, 5), *first, runs(x, 68, "C", (start, start + 2), (3, 4))]
    return picture("Backfilling", 640, 182, *jobs, *parts)


def reservation() -> str:
    """Draw the nodes reserved for a job, and two jobs of which one may start before it."""
    x, y = 70, 10
    plan = [time_axis(x, y, 5), runs(x, y, "A", (0, 2), (0, 3)), runs(x, y, "B", (2, 3), (0, 4), plan=True)]
    later = [runs(x, y + 118, "C", (0, 2), (0, 1)), runs(x, y + 118, "D", (0, 3), (1, 2))]
    words = [text(320, y + 132, "C ends in time: it starts on node 4"), text(320, y + 154, "D would delay B: it waits")]
    return picture("A reservation for job B", 560, 178, *plan, text(320, 54, "dashed: reserved for B"), *later, *words)


def fragmentation() -> str:
    """Draw the same number of idle nodes scattered over two racks and together in one."""
    scattered = [racks(10, 8, "#.#.", ".##."), text(10, 118, "4 idle nodes, at most 2 in a rack")]
    together = [racks(300, 8, "....", "####"), text(300, 118, "4 idle nodes in one rack")]
    return picture("Fragmentation", 530, 128, *scattered, *together)


def relocation() -> str:
    """Draw a move, a stop and a drain, each with the nodes before and after it."""
    steps = (
        ("move", ("BB..", "##.."), ("GGGG", "##BB"), "B moves, G starts"),
        ("stop", ("BBB.", "####"), ("GGGG", "####"), "B waits again, G starts"),
        ("drain", ("BC..", "##.."), ("xxxx", "##BC"), "B and C move"),
    )
    parts = []
    for place, (name, before, after, words) in enumerate(steps):
        x = 10 + place * 236
        parts += [text(x, 18, name), *(rack(x + number * RACK_STEP, 28, held) for number, held in enumerate(before))]
        parts += [arrow(x + 102, 92, 24, down=True)]
        parts += [*(rack(x + number * RACK_STEP, 122, held) for number, held in enumerate(after)), text(x, 200, words)]
    return picture("Move, stop and drain", 700, 208, *parts)


def shared_node() -> str:
    """Draw a node of 8 cores, 4 GPUs and 256 GB that two jobs share."""
    parts = [box(10, 10, 262, 92, more=DASHED)]
    for row, (words, held) in enumerate((("cores", "AAAABB.."), ("GPUs", "AAB."), ("memory", "AAAB...."))):
        parts += [text(20, 36 + row * 26, words)]
        parts += [node(84 + place * STEP, 22 + row * 26, who) for place, who in enumerate(held)]
    asked = [request(300, 24, "A", "4 cores, 2 GPUs, 96 GB", 200), request(300, 50, "B", "2 cores, 1 GPU, 32 GB", 200)]
    return picture("Two jobs share a node", 510, 112, *parts, *asked)


def regret() -> str:
    """Draw the nodes that a job got, and the best nodes among those that were idle."""
    chosen = [text(10, 18, "the nodes that A got"), racks(10, 28, "AA..", "AA##"), text(10, 136, "hop cost 10,000")]
    best = [
        text(300, 18, "the best of the idle nodes"),
        racks(300, 28, "AAAA", "..##"),
        text(300, 136, "hop cost 6,000"),
    ]
    return picture("Regret of a choice of nodes", 530, 146, *chosen, *best)


PICTURES: dict[str, Callable[[], str]] = {
    "cluster": cluster,
    "rack": rack_of_nodes,
    "job": job,
    "gang": gang,
    "window": window,
    "hop_cost": hop_cost,
    "bound": bound,
    "backfilling": backfilling,
    "reservation": reservation,
    "fragmentation": fragmentation,
    "relocation": relocation,
    "shared_node": shared_node,
    "regret": regret,
}


def main() -> None:
    """Write all pictures."""
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
