"""Problems about tables, mazes and networks."""

from __future__ import annotations

from ragen_jax.envs.deepcoder.problems.draft import Draft

TABLES = (
    Draft(
        name="transpose",
        function="transpose",
        level=1,
        idea="pick item j of every row",
        statement="""\
Return the table (a list of rows of equal length) mirrored at its diagonal: rows become columns.""",
        solution="""\
def transpose(rows):
    return [list(column) for column in zip(*rows)]
""",
        broken="""\
def transpose(rows):
    return [row[::-1] for row in rows]
""",
        tests=(
            (([[1, 2], [3, 4]],), [[1, 3], [2, 4]]),
            (([[1, 2, 3]],), [[1], [2], [3]]),
            (([[5]],), [[5]]),
            (([[1], [2]],), [[1, 2]]),
            (([[1, 2], [3, 4], [5, 6]],), [[1, 3, 5], [2, 4, 6]]),
            (([[0, 1], [1, 0]],), [[0, 1], [1, 0]]),
            (([[7, 8, 9], [4, 5, 6]],), [[7, 4], [8, 5], [9, 6]]),
            (([["a", "b"], ["c", "d"]],), [["a", "c"], ["b", "d"]]),
        ),
    ),
    Draft(
        name="margins",
        function="margins",
        level=1,
        idea="sum along both directions",
        statement="""\
Return the sums of the rows and the sums of the columns of a table of numbers, as a list of these two
lists. The table has at least one row and one column.""",
        solution="""\
def margins(rows):
    return [[sum(row) for row in rows], [sum(column) for column in zip(*rows)]]
""",
        broken="""\
def margins(rows):
    return [[sum(row) for row in rows], [sum(row) for row in rows]]
""",
        tests=(
            (([[1, 2], [3, 4]],), [[3, 7], [4, 6]]),
            (([[5]],), [[5], [5]]),
            (([[1, 1, 1]],), [[3], [1, 1, 1]]),
            (([[1], [2], [3]],), [[1, 2, 3], [6]]),
            (([[0, 0], [0, 0]],), [[0, 0], [0, 0]]),
            (([[1, 2, 3], [4, 5, 6]],), [[6, 15], [5, 7, 9]]),
            (([[-1, 1], [1, -1]],), [[0, 0], [0, 0]]),
            (([[10, 20], [30, 40], [50, 60]],), [[30, 70, 110], [90, 120]]),
        ),
    ),
    Draft(
        name="spiral",
        function="spiral",
        level=2,
        idea="peel the first row and turn the rest",
        statement="""\
Return the items of a table in spiral order: along the first row to the right, down the last column, back
along the last row, up, and so on inwards.""",
        solution="""\
def spiral(rows):
    result = []
    while rows:
        result += rows[0]
        rows = [list(column) for column in zip(*rows[1:])][::-1]
    return result
""",
        broken="""\
def spiral(rows):
    result = []
    for index, row in enumerate(rows):
        result += row if index % 2 == 0 else row[::-1]
    return result
""",
        tests=(
            (([[1, 2], [4, 3]],), [1, 2, 3, 4]),
            (([[1, 2, 3], [8, 9, 4], [7, 6, 5]],), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
            (([[1]],), [1]),
            (([[1, 2, 3]],), [1, 2, 3]),
            (([[1], [2], [3]],), [1, 2, 3]),
            (([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]],), [1, 2, 3, 4, 8, 12, 11, 10, 9, 5, 6, 7]),
            (([[1, 2], [3, 4], [5, 6]],), [1, 2, 4, 6, 5, 3]),
            (([[2, 4, 6], [1, 3, 5]],), [2, 4, 6, 5, 3, 1]),
            (([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]],), [1, 2, 3, 6, 9, 12, 11, 10, 7, 4, 5, 8]),
        ),
    ),
    Draft(
        name="mark_mines",
        function="mark_mines",
        level=2,
        idea="look around each free cell",
        statement="""\
A field is a list of texts of equal length; "*" is a mine, "." is free. Return the field with each free
cell replaced by the number of mines among its up to eight neighbours; mines stay.""",
        solution="""\
def mark_mines(field):
    def count(r, c):
        return sum(
            field[i][j] == "*"
            for i in range(max(r - 1, 0), min(r + 2, len(field)))
            for j in range(max(c - 1, 0), min(c + 2, len(field[0])))
        )

    return ["".join("*" if x == "*" else str(count(r, c)) for c, x in enumerate(row)) for r, row in enumerate(field)]
""",
        broken="""\
def mark_mines(field):
    def count(r, c):
        near = ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1))
        return sum(0 <= i < len(field) and 0 <= j < len(field[0]) and field[i][j] == "*" for i, j in near)

    return ["".join("*" if x == "*" else str(count(r, c)) for c, x in enumerate(row)) for r, row in enumerate(field)]
""",
        tests=(
            ((["*.", ".."],), ["*1", "11"]),
            ((["...", "..."],), ["000", "000"]),
            ((["*"],), ["*"]),
            ((["."],), ["0"]),
            ((["*.*"],), ["*2*"]),
            ((["...", ".*.", "..."],), ["111", "1*1", "111"]),
            ((["**", "**"],), ["**", "**"]),
            (([".*.*.", "..*.."],), ["1*3*1", "12*21"]),
            ((["*..", "...", "..*"],), ["*10", "121", "01*"]),
        ),
    ),
    Draft(
        name="is_magic",
        function="is_magic",
        level=2,
        idea="collect all sums and compare",
        statement="""\
A square table of numbers is magic when all its rows, all its columns and both diagonals have the same
sum. Return True or False.""",
        solution="""\
def is_magic(rows):
    size = range(len(rows))
    sums = [sum(row) for row in rows] + [sum(column) for column in zip(*rows)]
    sums += [sum(rows[i][i] for i in size), sum(rows[i][-1 - i] for i in size)]
    return len(set(sums)) == 1
""",
        broken="""\
def is_magic(rows):
    sums = [sum(row) for row in rows] + [sum(column) for column in zip(*rows)]
    return len(set(sums)) == 1
""",
        tests=(
            (([[2, 7, 6], [9, 5, 1], [4, 3, 8]],), True),
            (([[1, 2], [3, 4]],), False),
            (([[5]],), True),
            (([[1, 1], [1, 1]],), True),
            (([[1, 2, 3], [3, 1, 2], [2, 3, 1]],), False),
            (([[8, 1, 6], [3, 5, 7], [4, 9, 2]],), True),
            (([[2, 1], [1, 2]],), False),
            (([[4, 9, 2], [3, 5, 7], [8, 1, 5]],), False),
            (([[16, 3, 2, 13], [5, 10, 11, 8], [9, 6, 7, 12], [4, 15, 14, 1]],), True),
        ),
    ),
    Draft(
        name="islands",
        function="islands",
        level=3,
        idea="flood each piece of land once",
        statement="""\
A map is a list of texts; "#" is land, "." is water. Land cells that touch at a side belong together.
Return the number of islands.""",
        solution="""\
def islands(rows):
    land = {(r, c) for r, row in enumerate(rows) for c, x in enumerate(row) if x == "#"}
    count = 0
    while land:
        count += 1
        queue = [land.pop()]
        while queue:
            r, c = queue.pop()
            for cell in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
                if cell in land:
                    land.remove(cell)
                    queue.append(cell)
    return count
""",
        broken="""\
def islands(rows):
    count = 0
    for r, row in enumerate(rows):
        for c, x in enumerate(row):
            count += x == "#" and (c == 0 or row[c - 1] != "#") and (r == 0 or rows[r - 1][c] != "#")
    return count
""",
        tests=(
            ((["#.", "##"],), 1),
            ((["#.", ".#"],), 2),
            ((["..."],), 0),
            ((["#"],), 1),
            ((["#.#", "###"],), 1),
            (([".#", "##"],), 1),
            ((["#.#.#"],), 3),
            ((["###", "#.#", "###"],), 1),
            ((["#...#", "##.##", ".###.", "....."],), 1),
        ),
    ),
    Draft(
        name="shortest_way",
        function="shortest_way",
        level=3,
        idea="breadth-first search from S",
        statement="""\
A maze is a list of texts: "#" is a wall, "S" the start, "E" the exit, "." free. Return the smallest
number of moves (up, down, left, right) from S to E, or -1 when there is no way.""",
        solution="""\
from collections import deque


def shortest_way(maze):
    cells = {(r, c): x for r, row in enumerate(maze) for c, x in enumerate(row) if x != "#"}
    start = next(cell for cell, x in cells.items() if x == "S")
    steps = {start: 0}
    queue = deque([start])
    while queue:
        r, c = queue.popleft()
        if cells[r, c] == "E":
            return steps[r, c]
        for cell in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
            if cell in cells and cell not in steps:
                steps[cell] = steps[r, c] + 1
                queue.append(cell)
    return -1
""",
        broken="""\
def shortest_way(maze):
    places = {x: (r, c) for r, row in enumerate(maze) for c, x in enumerate(row)}
    return abs(places["S"][0] - places["E"][0]) + abs(places["S"][1] - places["E"][1])
""",
        tests=(
            ((["S.E"],), 2),
            ((["S#E", "..."],), 4),
            ((["SE"],), 1),
            ((["S#E"],), -1),
            ((["S..", "##.", "E.."],), 6),
            ((["S#..", "..#E"],), -1),
            ((["....", "S##E", "...."],), 5),
            ((["S.#.E", ".#...", "....#"],), 8),
            ((["#####", "#S#E#", "#...#", "#####"],), 4),
        ),
    ),
    Draft(
        name="best_load",
        function="best_load",
        level=3,
        idea="table over weights, from heavy to light for each item",
        statement="""\
A bag holds at most the weight w. Items are lists [weight, value] of positive whole numbers, each there
once. Return the largest total value that fits into the bag.""",
        solution="""\
def best_load(items, w):
    best = [0] * (w + 1)
    for weight, value in items:
        for room in range(w, weight - 1, -1):
            best[room] = max(best[room], best[room - weight] + value)
    return best[w]
""",
        broken="""\
def best_load(items, w):
    total = 0
    for weight, value in sorted(items, key=lambda item: -item[1] / item[0]):
        if weight <= w:
            w -= weight
            total += value
    return total
""",
        tests=(
            (([[2, 3], [3, 4]], 5), 7),
            (([[5, 10]], 4), 0),
            (([], 7), 0),
            (([[1, 1], [1, 1]], 0), 0),
            (([[3, 5], [2, 3], [2, 3]], 4), 6),
            (([[1, 1], [3, 4], [4, 5], [5, 7]], 7), 9),
            (([[10, 60], [20, 100], [30, 120]], 50), 220),
            (([[6, 30], [3, 14], [4, 16], [2, 9]], 10), 46),
            (([[4, 4], [4, 4], [5, 6]], 8), 8),
        ),
    ),
    Draft(
        name="shortest_road",
        function="shortest_road",
        level=3,
        idea="Dijkstra with a heap",
        statement="""\
A network is a list of roads [a, b, length] between places with numbers 0 to n - 1; roads go both ways,
lengths are positive. Return the length of the shortest way from place 0 to place n - 1, or -1 when there
is none.""",
        solution="""\
import heapq


def shortest_road(n, roads):
    near = {place: [] for place in range(n)}
    for a, b, length in roads:
        near[a].append((b, length))
        near[b].append((a, length))
    done = set()
    heap = [(0, 0)]
    while heap:
        so_far, place = heapq.heappop(heap)
        if place == n - 1:
            return so_far
        if place not in done:
            done.add(place)
            for other, length in near[place]:
                heapq.heappush(heap, (so_far + length, other))
    return -1
""",
        broken="""\
def shortest_road(n, roads):
    place, total, used = 0, 0, set()
    while place != n - 1:
        used.add(place)
        ways = [(l, b) for a, b, l in roads if a == place and b not in used]
        ways += [(l, a) for a, b, l in roads if b == place and a not in used]
        if not ways:
            return -1
        length, place = min(ways)
        total += length
    return total
""",
        tests=(
            ((3, [[0, 1, 4], [1, 2, 1], [0, 2, 9]]), 5),
            ((2, []), -1),
            ((1, []), 0),
            ((3, [[0, 1, 1], [0, 2, 5], [1, 2, 7]]), 5),
            ((4, [[0, 1, 1], [1, 2, 1], [2, 3, 1], [0, 3, 2]]), 2),
            ((4, [[3, 2, 2], [2, 0, 3], [1, 0, 1]]), 5),
            ((5, [[0, 1, 10], [0, 2, 3], [2, 1, 4], [1, 4, 2], [2, 3, 8], [3, 4, 1]]), 9),
            ((3, [[0, 1, 2]]), -1),
            ((6, [[0, 1, 1], [1, 5, 100], [0, 2, 7], [2, 3, 7], [3, 5, 7]]), 21),
        ),
    ),
    Draft(
        name="order_tasks",
        function="order_tasks",
        level=3,
        idea="repeatedly take the smallest task without open needs",
        statement="""\
Tasks have numbers 0 to n - 1. A pair [a, b] says that a must be done before b. Return the order of all
tasks in which the smallest possible task always comes next, or an empty list when no order is possible.""",
        solution="""\
import heapq


def order_tasks(n, pairs):
    needs = [0] * n
    after = [[] for _ in range(n)]
    for a, b in pairs:
        needs[b] += 1
        after[a].append(b)
    ready = [task for task in range(n) if not needs[task]]
    order = []
    while ready:
        task = heapq.heappop(ready)
        order.append(task)
        for other in after[task]:
            needs[other] -= 1
            if not needs[other]:
                heapq.heappush(ready, other)
    return order if len(order) == n else []
""",
        broken="""\
def order_tasks(n, pairs):
    order = list(range(n))
    for a, b in pairs:
        if order.index(a) > order.index(b):
            order.remove(a)
            order.insert(order.index(b), a)
    return order
""",
        tests=(
            ((3, [[2, 0]]), [1, 2, 0]),
            ((2, [[0, 1]]), [0, 1]),
            ((1, []), [0]),
            ((2, [[0, 1], [1, 0]]), []),
            ((4, [[3, 1], [1, 0]]), [2, 3, 1, 0]),
            ((4, []), [0, 1, 2, 3]),
            ((5, [[4, 3], [3, 2], [2, 1], [1, 0]]), [4, 3, 2, 1, 0]),
            ((3, [[0, 1], [1, 2], [2, 0]]), []),
            ((6, [[5, 0], [5, 2], [4, 0], [4, 1], [2, 3], [3, 1]]), [4, 5, 0, 2, 3, 1]),
        ),
    ),
)
