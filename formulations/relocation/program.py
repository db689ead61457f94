"""The integer program of a relocation, over cells of nodes (`allocopt.formulations.relocation.cells`).

Jobs that may get new nodes (running jobs that may move, and waiting gangs) are numbered k. Running jobs that may leave
are numbered j. ``x_{k,t,c}`` is the number of nodes of cell c on which k gets t tasks, ``z_k`` is 1 if k gets new
nodes, ``s_j`` if j stops; j leaves its nodes if ``l_j = s_j + z_j`` is 1. With n present nodes of a job, minimize

    ``sum stop_cost s + sum (move_cost + n node_cost) z - sum of node_cost x in its own cells + sum wait_cost (1 - z)``

- Each k: ``least_nodes z <= sum x <= most_nodes z``, ``sum t x = tasks z``; a gang that must start has ``z >= 1``. With
  several node sets, ``h_{k,m}`` chooses one: ``sum h = z``, ``x <= size(c) sum of the h of sets with c``.
- Each j: ``l_j <= 1``, and ``l_j >= 1`` if one of its nodes has to be empty.
- Each level with ``most_groups`` or segments: ``y_{k,l,g,i}`` is 1 if k has at least i segments in group g; without
  segments, i is 1, and y is 1 if k has any node in g. ``sum of y with i = 1 <= most_groups z``,
  ``sum of x in g = segment sum over i of y``, and ``x <= size(c) y_{k,l,g,1}``. The last row makes the relaxation
  tight: without it, the idle nodes of all racks would add up to one rack.
- Each cell: jobs get at most its nodes, and ``x <= size(c) l_j`` for jobs that do not fit beside j. If the cell is a
  single node, new and remaining jobs use at most the free amounts, and an exclusive job excludes all others.

All columns are binary: a count of at most u is a sum of columns with weights 1, 2, 4, .. that add up to u.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import gt

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray, places_by_value
from allocopt.cluster.request import ClusterRequest
from allocopt.formulations.backends.program import BinaryProgram, Formulation, Names, Rows
from allocopt.formulations.relocation.cells import Cells, least_tasks, pieces_of, placeable
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.relocation.fitting import new_places
from allocopt.problems.relocation.order import ordered
from allocopt.problems.relocation.problem import Occupancy, Places, Relocation, RelocationProblem


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """A job that may get new nodes, and its columns.

    An entry is a cell with a number of tasks per node; the job may get up to ``most`` nodes of it. Column ``x[i]``
    stands for ``weights[i]`` nodes of entry ``of[i]``.
    """

    request: ClusterRequest
    running: int | None  # its number among the running jobs; None for a waiting gang
    is_new: IntArray  # the column of z
    tasks: IntArray  # tasks per node of each entry
    cells: IntArray  # cell of each entry
    most: IntArray  # most nodes of each entry
    x: IntArray
    of: IntArray
    weights: IntArray

    @property
    def amounts(self) -> IntArray:
        """Amounts that each entry takes of a node, shape ``(entries, resources)``."""
        return self.request.use(self.tasks)


class RelocationModel(Formulation):
    """The program of a relocation problem.

    With ``leaves_moves_open`` the program is a relaxation: it frees the nodes of moving jobs, but does not choose their
    new nodes. It only requires that gangs and moving jobs together need no more nodes than become free, in the cluster
    and in each leaf group. ``w_{size,g}`` counts the moving jobs of a size whose new nodes are all in group g. `decode`
    then looks for nodes for the moving jobs, one after the other; a job for which there are none stops, if it may.

    ``within``, shape ``(gangs, groups)``, says in which leaf groups each gang may get nodes. Every relocation that
    gives a gang nodes in another group costs at least ``least_beyond``.
    """

    def __init__(
        self,
        problem: RelocationProblem,
        leaves_moves_open: bool = False,
        cells: Cells | None = None,
        within: BoolArray | None = None,
        least_beyond: float = 0.0,
    ) -> None:
        self._problem = problem
        self._leaves_moves_open = leaves_moves_open
        self._within, self._least_beyond = within, least_beyond
        self._cells = cells or Cells.of(problem)
        placeable_requests = placeable(problem)
        self._pieces = pieces_of(placeable_requests)
        self._is_open = self._cells.may_serve(placeable_requests)
        self._groups = problem.groups[:, self._cells.first]  # group of each cell, by level
        self._rows, self._names, self._costs, self._n_columns = Rows(), list[Names](), list[FloatArray](), 0
        # By the index of a job in `_placed`: the columns h of its node sets; and for each level with y the level, the
        # segment size, and the columns y by group.
        self._sets: dict[int, IntArray] = {}
        self._steps: dict[int, list[tuple[int, int, dict[int, IntArray]]]] = {}
        running = problem.running
        may_leave = self._leaving_for_gangs()
        stops = [number for number, job in enumerate(running) if job.stop_cost is not None and may_leave[number]]
        moves = [number for number, job in enumerate(running) if job.move_cost is not None]
        stop_costs = [running[number].stop_cost or 0.0 for number in stops]
        # If moves are left open, a moving job may keep all nodes that need not be emptied.
        given_up = np.bincount(
            problem.pieces[0], problem.emptied[problem.pieces[1]] | (not leaves_moves_open), len(running)
        )
        move_costs = [(running[at].move_cost or 0.0) + running[at].node_cost * float(given_up[at]) for at in moves]
        # The columns s (stop) and z (move) of running jobs, by the number of the job.
        self._stops = dict(zip(stops, self._new(("s", np.array(stops)), stop_costs).tolist(), strict=True))
        self._moves = dict(zip(moves, self._new(("z", np.array(moves)), move_costs).tolist(), strict=True))
        self._let_leave()
        placed = {} if leaves_moves_open else self._moves
        self._placed: list[_Placed] = []
        for at, z in placed.items():
            self._placed.append(self._new_places(running[at].request, at, np.array([z])))
        for number, gang in enumerate(problem.waiting):
            is_new = self._new(("z", np.array([len(running) + number])), [-(gang.wait_cost or 0.0)])
            if gang.wait_cost is None:
                self._rows.at_most(1, (is_new, 1), lower=1)
            within = None if self._within is None else self._within[number]
            self._placed.append(self._new_places(gang.request, None, is_new, within))
        self._share_cells()
        if leaves_moves_open and problem.waiting:
            self._hold_all()

    def is_empty(self) -> bool:
        return not self._problem.waiting and not self._problem.leaving

    def program(self) -> BinaryProgram:
        return self._rows.program(np.concatenate(self._costs), self._names)

    def is_whole(self) -> bool:
        return self._within is None

    def bound_of(self, bound: float) -> float:
        # The costs of the program are relative to the answer in which every gang waits that need not start.
        found = max(0.0, bound + sum(gang.wait_cost or 0.0 for gang in self._problem.waiting))
        return found if self.is_whole() else min(found, self._least_beyond)

    def decode(self, chosen: IntArray) -> Relocation | None:
        is_one = np.zeros(self._n_columns, dtype=np.bool_)
        is_one[chosen] = True
        problem, cells = self._problem, self._cells
        running: list[Places | None] = [job.places for job in problem.running]
        for number, column in self._stops.items():
            if is_one[column]:
                running[number] = None
        waiting: list[Places] = []
        left = [nodes.tolist() for nodes in cells.nodes]
        found: list[list[NodeTasks]] = [[] for _ in self._placed]
        counts = [np.bincount(one.of, one.weights * is_one[one.x], len(one.most)).astype(int) for one in self._placed]
        # If a job may leave a cell of several nodes, it has all of them. So nodes that it gets there are its own.
        for one, given, places in zip(self._placed, counts, found, strict=True):
            for tasks, cell, count in zip(one.tasks.tolist(), one.cells.tolist(), given.tolist(), strict=True):
                there = left[cell]
                places += [NodeTasks(node, tasks) for node in there[:count]]
                # Jobs may share a node that is a separate cell.
                left[cell] = there if len(there) == 1 else there[count:]
        for one, places in zip(self._placed, found, strict=True):
            if one.running is None:
                waiting.append(tuple(places))
            elif is_one[one.is_new[0]]:
                running[one.running] = tuple(places)
        if self._leaves_moves_open and not self._move_on(is_one, running, waiting):
            return None
        return ordered(problem, running, waiting).relocation

    def _move_on(self, is_one: BoolArray, running: list[Places | None], waiting: Sequence[Places]) -> bool:
        """Give nodes to moving jobs, or stop them; return False if one finds no nodes and must not stop."""
        problem = self._problem
        moving = [number for number, column in self._moves.items() if is_one[column]]
        for number in moving:
            running[number] = None
        room = Occupancy.at_first(problem)
        for job, places in zip(problem.running, running, strict=True):
            if places is None:
                room.release(job.request, job.places)
        for gang, places in zip(problem.waiting, waiting, strict=True):
            room.enter(gang.id, gang.request, places)
        found = new_places(problem, room, [problem.running[number] for number in moving])
        if found is None:
            return False
        for number in moving:
            running[number] = found.get(problem.running[number].id)
        return True

    def encode(self, solution: Relocation) -> IntArray | None:
        """Return the columns of a solution; None if moves are left open or the program leaves out one of its nodes."""
        if self._leaves_moves_open:
            return None
        stopped = [number for number, places in enumerate(solution.running) if places is None]
        if not self._stops.keys() >= set(stopped):
            return None
        chosen = [self._stops[number] for number in stopped]
        moved = (
            () if solution.running[number] == self._problem.running[number].places else solution.running[number]
            for number in self._moves
        )
        for number, (one, places) in enumerate(zip(self._placed, (*moved, *solution.waiting), strict=True)):
            if places:
                found = self._encoded_places(number, one, places)
                if found is None:
                    return None
                chosen += found
        return np.sort(np.array(chosen, dtype=np.int64))

    def _encoded_places(self, number: int, placed: _Placed, places: Places) -> list[int] | None:
        """Return the columns that give a job these nodes; None if the program leaves one of them out."""
        nodes, tasks = np.array(places, dtype=np.int64).T
        entry_of = {pair: at for at, pair in enumerate(zip(placed.tasks.tolist(), placed.cells.tolist(), strict=True))}
        entries = [entry_of.get(pair, -1) for pair in zip(tasks.tolist(), self._cells.of_node[nodes], strict=True)]
        if min(entries) < 0:
            return None
        chosen = [int(placed.is_new[0])]
        left = np.bincount(entries, minlength=len(placed.most))
        # Weights are 1, 2, 4, .. and a rest, so choosing the largest that fits first gives every count.
        for at in np.argsort(-placed.weights, kind="stable").tolist():
            if 0 < placed.weights[at] <= left[placed.of[at]]:
                left[placed.of[at]] -= placed.weights[at]
                chosen.append(int(placed.x[at]))
        if number in self._sets:
            chosen.append(int(self._sets[number][placed.request.masks[:, nodes].all(axis=1).argmax()]))
        for level, segment, steps in self._steps.get(number, ()):
            names, counts = np.unique(self._groups[level, self._cells.of_node[nodes]], return_counts=True)
            for name, count in zip(names.tolist(), counts.tolist(), strict=True):
                chosen += steps[name][: count // segment if segment else 1].tolist()
        return chosen

    def _leaving_for_gangs(self) -> BoolArray:
        """Return whether each running job may leave in the program.

        If ``within`` is given and no job may move, only jobs in its leaf groups or on nodes to be emptied may leave;
        otherwise all may.
        """
        problem = self._problem
        if self._within is None or any(job.move_cost is not None for job in problem.running):
            return np.ones(len(problem.running), dtype=np.bool_)
        jobs, nodes, _ = problem.pieces
        is_asked = np.zeros(len(problem.running), dtype=np.bool_)
        is_within = np.logical_or.reduce(self._within)[problem.groups[0, nodes]]
        is_asked[jobs[is_within | problem.emptied[nodes]]] = True
        return is_asked

    def _new(self, named: Names, costs: Sequence[float] | FloatArray) -> IntArray:
        """Add columns and return their numbers."""
        first, self._n_columns = self._n_columns, self._n_columns + len(costs)
        self._costs.append(np.asarray(costs, dtype=np.float64))
        self._names.append(named)
        return np.arange(first, self._n_columns)

    def _let_leave(self) -> None:
        """Add rows by which each job leaves at most once, and exactly once if one of its nodes has to be emptied."""
        must_leave = self._problem.leaving
        for number in sorted(must_leave | (self._stops.keys() & self._moves.keys())):
            self._rows.at_most(1, (self._leaving(number), 1), lower=float(number in must_leave))

    def _leaving(self, job: int) -> IntArray:
        """Return the columns whose sum is 1 if a running job leaves its nodes, otherwise 0."""
        found = [columns[job] for columns in (self._stops, self._moves) if job in columns]
        return np.array(found, dtype=np.int64)

    def _new_places(
        self, asked: ClusterRequest, running: int | None, is_new: IntArray, within: BoolArray | None = None
    ) -> _Placed:
        """Add the columns and rows of a job that may get new nodes, anywhere or within some leaf groups."""
        tasks, cells = self._entries(asked)
        if within is not None:
            is_within = within[self._groups[0, cells]]
            tasks, cells = tasks[is_within], cells[is_within]
        most = np.minimum(self._cells.sizes[cells], asked.most_nodes)
        of, weights = _split_counts(most)
        costs = np.zeros(len(of))
        if running is not None:
            job = self._problem.running[running]
            is_own = np.isin(self._cells.first, [node for node, _ in job.places])
            costs[is_own[cells[of]]] = -job.node_cost
            costs *= weights
        x = self._new(("x", is_new, np.arange(len(of))), costs)
        placed = _Placed(asked, running, is_new, tasks, cells, most, x, of, weights)
        rows = self._rows
        rows.at_most(0, (x, weights), (is_new, -asked.most_nodes))
        rows.at_most(0, (x, -weights), (is_new, asked.least_nodes))
        rows.at_most(0, (x, weights * tasks[of]), (is_new, -asked.tasks), lower=0)
        there, row_of = np.unique(cells, return_inverse=True)
        if len(there) < len(cells):
            # Each node has a single number of tasks.
            rows.add(row_of[of], x, weights, self._cells.sizes[there])
        self._choose_set(placed)
        for level, group in enumerate(self._groups):
            if asked.most_groups[level] or (asked.segments and asked.segments[level]):
                self._choose_groups(placed, level, group[cells])
        return placed

    def _entries(self, asked: ClusterRequest) -> tuple[IntArray, IntArray]:
        """Return the tasks and cell of every entry of a job, as if all jobs that may leave had left."""
        cells = self._cells
        is_open = asked.masks[:, cells.first].any(axis=0) & ~cells.is_closed
        if asked.is_exclusive:
            is_open &= ~cells.is_taken
        found = []
        for tasks in range(least_tasks(asked), asked.most_tasks + 1):
            fits = is_open & (asked.per_node + tasks * asked.per_task <= cells.free).all(axis=1)
            if not fits.any():
                break
            at = np.flatnonzero(fits)
            found.append(np.stack((np.full(len(at), tasks), at)))
        if not found:
            return (np.zeros(0, dtype=np.int64),) * 2
        tasks_of, cell_of = np.concatenate(found, axis=1)
        # Leave out groups that have too few nodes.
        for level, group in enumerate(self._groups):
            segment = asked.segments[level] if asked.segments else 0
            needed = max(segment, asked.least_nodes if asked.most_groups[level] == 1 else 0)
            if needed > 1:
                there, at = np.unique(cell_of, return_index=True)
                room = np.bincount(group[there], self._cells.sizes[there], int(group.max()) + 1)
                keep = room[group[cell_of]] >= needed
                tasks_of, cell_of = tasks_of[keep], cell_of[keep]
        return tasks_of, cell_of

    def _choose_set(self, placed: _Placed) -> None:
        """Add rows by which all nodes of a job are from the same one of its node sets."""
        masks = placed.request.masks[:, self._cells.first]
        if len(masks) == 1 or masks[:, placed.cells].all(axis=1).any():
            return
        h = self._sets[len(self._placed)] = self._new(("h", placed.is_new, np.arange(len(masks))), np.zeros(len(masks)))
        self._rows.at_most(0, (h, 1), (placed.is_new, -1), lower=0)
        entry, number = np.nonzero(masks[:, placed.cells].T)
        row_of, columns = np.append(placed.of, entry), np.append(placed.x, h[number])
        values = np.append(placed.weights, -placed.most[entry])
        self._rows.add(row_of, columns, values, np.zeros(len(placed.most)))

    def _choose_groups(self, placed: _Placed, level: int, group: IntArray) -> None:
        """Add rows for the segments and the most groups of a level; ``group`` has the group of each entry."""
        asked, rows = placed.request, self._rows
        segment = asked.segments[level] if asked.segments else 0
        limit = asked.most_groups[level]
        names, row_of = np.unique(group, return_inverse=True)
        there = np.unique(placed.cells)
        room = np.bincount(self._groups[level, there], self._cells.sizes[there], int(group.max(initial=0)) + 1)[names]
        room = np.minimum(room, asked.most_nodes).astype(np.int64)
        steps = np.maximum(1, room // segment) if segment else np.ones(len(names), dtype=np.int64)
        at = np.repeat(np.arange(len(names)), steps)
        first = np.cumsum(steps) - steps
        y = self._new((f"y_{level}", placed.is_new, np.arange(len(at))), np.zeros(len(at)))
        begins = y[first] if len(names) else y
        by_group = dict(zip(names.tolist(), np.split(y, first[1:]), strict=False))
        self._steps.setdefault(len(self._placed), []).append((level, segment, by_group))
        if limit:
            rows.at_most(0, (begins, 1), (placed.is_new, -limit))
        later = np.setdiff1d(np.arange(len(at)), first)
        numbers = np.arange(len(later))
        rows.add(
            np.tile(numbers, 2), np.append(y[later], y[later - 1]), np.repeat([1, -1], len(later)), np.zeros(len(later))
        )
        # From each group, a job gets whole segments; without segments, nodes up to the room of the group, or all of its
        # nodes if their number is fixed and it may use only one group.
        size = np.repeat(segment, len(at)) if segment else room[at]
        is_whole = bool(segment) or (limit == 1 and asked.least_nodes == asked.most_nodes)
        if not segment and is_whole:
            size = np.repeat(asked.most_nodes, len(at))
        columns, values = np.append(placed.x, y), np.append(placed.weights, -size)
        zeros = np.zeros(len(names))
        rows.add(np.append(row_of[placed.of], at), columns, values, zeros, zeros if is_whole else None)
        entries = np.arange(len(placed.most))
        columns, values = np.append(placed.x, begins[row_of]), np.append(placed.weights, -placed.most)
        rows.add(np.append(placed.of, entries), columns, values, np.zeros(len(entries)))

    def _hold_all(self) -> None:
        """Add rows by which gangs and moving jobs together need at most the nodes without jobs that stay.

        The rows are added only if no two of these jobs can share a node. A moving job that may use only one leaf group
        needs all its nodes in the same group, so such jobs are counted by size and group.
        """
        if not self._cells.never_share:
            return
        running = self._problem.running
        moves = np.array(list(self._moves), dtype=np.int64)
        columns = np.array(list(self._moves.values()), dtype=np.int64)
        least = np.array([running[number].request.least_nodes for number in moves], dtype=np.int64)
        whole = np.zeros(len(self._cells.nodes), dtype=np.int64)
        self._hold_within(whole, [(0, columns, least)])
        if len(self._groups):
            is_bound = np.array([running[number].request.most_groups[0] == 1 for number in moves], dtype=np.bool_)
            self._hold_within(self._groups[0], self._counted_by_group(columns[is_bound], least[is_bound]))

    def _counted_by_group(self, moves: IntArray, least: IntArray) -> list[tuple[int, IntArray, IntArray]]:
        """Add columns that count moving jobs of each size by leaf group; return group, columns and their nodes."""
        found: list[tuple[int, IntArray, IntArray]] = []
        groups = self._groups[0]
        names, row_of = np.unique(groups, return_inverse=True)
        room = np.bincount(row_of, self._cells.sizes * self._is_open, len(names)).astype(np.int64)
        for size in np.unique(least).tolist():
            of, weights = _split_counts(room // size)
            w = self._new((f"w_{size}", names[of]), np.zeros(len(of)))
            self._rows.at_most(0, (moves[least == size], 1), (w, -weights))
            found += [(int(names[of[part[0]]]), w[part], weights[part] * size) for part in places_by_value(of)]
        return found

    def _hold_within(self, groups: IntArray, moved: Sequence[tuple[int, IntArray, IntArray]]) -> None:
        """Add rows by which gangs and moving jobs need no more nodes of a group than there are.

        If there are several groups but no moving jobs, no row is needed.
        """
        if not moved and groups.any():
            return
        terms: dict[int, list[tuple[IntArray, IntArray]]] = {}
        for group, columns, nodes in moved:
            terms.setdefault(group, []).append((columns, nodes))
        for gang in self._placed:
            of_columns = groups[gang.cells[gang.of]]
            for part in places_by_value(of_columns):
                terms.setdefault(int(of_columns[part[0]]), []).append((gang.x[part], gang.weights[part]))
        for cells in places_by_value(groups):
            group = int(groups[cells[0]])
            room, freed = self._room_of(cells[self._is_open[cells]])
            if wanted := [term for term in (*terms.get(group, ()), *freed) if len(term[0])]:
                self._rows.at_most(room, *wanted)

    def _room_of(self, cells: IntArray) -> tuple[int, list[tuple[IntArray, IntArray]]]:
        """Return the number of free nodes of cells, and terms for nodes that become free when jobs leave."""
        pieces, room, freed = self._pieces, 0, list[tuple[IntArray, IntArray]]()
        for cell in cells.tolist():
            size = len(self._cells.nodes[cell])
            for job, taken in self._taken(cell):
                left = (self._cells.free[cell] - taken).tolist()
                is_alone = self._problem.running[job].request.is_exclusive
                if is_alone or all(alone or any(map(gt, amounts, left)) for alone, *amounts in pieces):
                    # No job fits there before this one has left.
                    freed.append((self._leaving(job), np.array(-size)))
                    size = 0
            room += size
        return room, freed

    def _share_cells(self) -> None:
        """Add rows by which jobs get no more nodes of a cell than it has, and none that another job still blocks."""
        cells, placed = self._cells, self._placed
        if not placed:
            return
        cell = np.concatenate([one.cells for one in placed])
        starts = np.cumsum([0, *(len(one.most) for one in placed)])
        of = np.concatenate([one.of + start for one, start in zip(placed, starts, strict=False)])
        x, weights = (np.concatenate([getattr(one, key) for one in placed]) for key in ("x", "weights"))
        most, amounts = (np.concatenate([getattr(one, key) for one in placed]) for key in ("most", "amounts"))
        is_alone = np.repeat([one.request.is_exclusive for one in placed], np.diff(starts))
        ends = np.cumsum(np.bincount(of, minlength=len(cell)))[:-1]
        by_entry = np.argsort(of, kind="stable")
        columns, shares = np.split(x[by_entry], ends), np.split(weights[by_entry], ends)
        for entries in places_by_value(cell):
            at = int(cell[entries[0]])
            size = len(cells.nodes[at])
            terms = {int(entry): (columns[entry], shares[entry]) for entry in entries}
            self._make_room(at, entries, terms, amounts, is_alone)
            if size == 1:
                self._share_node(at, entries, terms, amounts, is_alone)
            elif most[entries].sum() > size:
                self._rows.at_most(size, *terms.values())

    def _make_room(
        self,
        cell: int,
        entries: IntArray,
        terms: dict[int, tuple[IntArray, IntArray]],
        amounts: IntArray,
        is_alone: IntArray,
    ) -> None:
        """Add rows by which jobs get nodes of a cell only if jobs that leave no room for them have left."""
        size, free = len(self._cells.nodes[cell]), self._cells.free[cell]
        for job, taken in self._taken(cell):
            is_shared = ~is_alone[entries] & (amounts[entries] + taken <= free).all(axis=1)
            is_shared &= not self._problem.running[job].request.is_exclusive
            beside = entries[~is_shared].tolist()
            # On a cell of a single node, several entries may share the node, so each has its own row.
            parts = [[entry] for entry in beside] if size == 1 else [beside] if beside else []
            for part in parts:
                self._rows.at_most(0, *(terms[entry] for entry in part), (self._leaving(job), -size))

    def _share_node(
        self,
        cell: int,
        entries: IntArray,
        terms: dict[int, tuple[IntArray, IntArray]],
        amounts: IntArray,
        is_alone: IntArray,
    ) -> None:
        """Add rows by which jobs share a node that is a separate cell."""
        rows, free = self._rows, self._cells.free[cell]
        x = np.array([int(terms[entry][0][0]) for entry in entries.tolist()])
        residents = self._taken(cell)
        for resource in range(len(free)):
            given, taken = amounts[entries, resource], [int(units[resource]) for _, units in residents]
            if int(given.sum()) + sum(taken) > free[resource] and given.any():
                leave = [(self._leaving(job), -units) for (job, _), units in zip(residents, taken, strict=True)]
                rows.at_most(float(free[resource] - sum(taken)), (x, given), *leave)
        alone, shared = x[is_alone[entries]], x[~is_alone[entries]]
        if len(alone) and len(x) > 1:
            most = max(1, len(shared))
            rows.at_most(most, (alone, most), (shared, 1))

    def _taken(self, cell: int) -> list[tuple[int, IntArray]]:
        """Return the jobs of a cell that may leave, and the amounts that each takes of a node."""
        node, found = int(self._cells.first[cell]), []
        for number in self._cells.residents[cell]:
            job = self._problem.running[number]
            tasks = next(one.tasks for one in job.places if one.node == node)
            found.append((number, job.request.per_node + tasks * job.request.per_task))
        return found


def _split_counts(most: IntArray) -> tuple[IntArray, IntArray]:
    """Split each number into weights 1, 2, 4, .. and a rest; return the index of a weight's number, and the weight."""
    of, weights = [], []
    for number, left in enumerate(most.tolist()):
        weight = 1
        while left > 0:
            weight = min(weight, left)
            of.append(number)
            weights.append(weight)
            left, weight = left - weight, 2 * weight
    return np.array(of, dtype=np.int64), np.array(weights, dtype=np.int64)
