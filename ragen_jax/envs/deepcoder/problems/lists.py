"""Problems about lists."""

from __future__ import annotations

from ragen_jax.envs.deepcoder.problems.draft import Draft

LISTS = (
    Draft(
        name="second_largest",
        function="second_largest",
        level=1,
        idea="sort the different numbers",
        statement="""\
Return the second largest of the different numbers in the list, or None when there are fewer than two
different ones.""",
        solution="""\
def second_largest(numbers):
    different = sorted(set(numbers))
    return different[-2] if len(different) > 1 else None
""",
        broken="""\
def second_largest(numbers):
    return sorted(numbers)[-2] if len(numbers) > 1 else None
""",
        tests=(
            (([3, 1, 2],), 2),
            (([5, 5, 4],), 4),
            (([],), None),
            (([7],), None),
            (([2, 2],), None),
            (([-1, -5, -3],), -3),
            (([10, 9, 10, 8],), 9),
            (([0, 0, 0, -1],), -1),
            (([4, 6, 6, 5],), 5),
        ),
    ),
    Draft(
        name="rotate",
        function="rotate",
        level=1,
        idea="cut at minus k modulo the length",
        statement="""\
Return the list turned k places to the right: the last k items come to the front. k may be larger than
the list; the list may be empty.""",
        solution="""\
def rotate(items, k):
    if not items:
        return []
    k %= len(items)
    return items[-k:] + items[:-k] if k else list(items)
""",
        broken="""\
def rotate(items, k):
    return items[k:] + items[:k]
""",
        tests=(
            (([1, 2, 3, 4], 1), [4, 1, 2, 3]),
            ((["a", "b", "c"], 2), ["b", "c", "a"]),
            (([], 3), []),
            (([1], 5), [1]),
            (([1, 2, 3], 3), [1, 2, 3]),
            (([1, 2, 3, 4, 5], 7), [4, 5, 1, 2, 3]),
            (([9, 8], 1), [8, 9]),
            (([0, 0, 1], 1), [1, 0, 0]),
            (([4, 5, 6, 7], 0), [4, 5, 6, 7]),
            (([1, 2, 3, 4, 5, 6], 4), [3, 4, 5, 6, 1, 2]),
        ),
    ),
    Draft(
        name="running_totals",
        function="running_totals",
        level=1,
        idea="keep a sum and append it",
        statement="""\
Return the running totals of a list of numbers: item i is the sum of the first i + 1 numbers.""",
        solution="""\
def running_totals(numbers):
    result = []
    total = 0
    for number in numbers:
        total += number
        result.append(total)
    return result
""",
        broken="""\
def running_totals(numbers):
    return [a + b for a, b in zip([0] + numbers, numbers)]
""",
        tests=(
            (([1, 2, 3],), [1, 3, 6]),
            (([5],), [5]),
            (([],), []),
            (([-1, 1, -1],), [-1, 0, -1]),
            (([0, 0],), [0, 0]),
            (([10, 20, 30, 40],), [10, 30, 60, 100]),
            (([1, 1, 1, 1, 1],), [1, 2, 3, 4, 5]),
            (([2, -2, 4],), [2, 0, 4]),
            (([100, -50, 25, -12],), [100, 50, 75, 63]),
        ),
    ),
    Draft(
        name="is_rising",
        function="is_rising",
        level=1,
        idea="compare neighbours",
        statement="""\
Return True when each number of the list is larger than the one before it. Lists with fewer than two
numbers count as such.""",
        solution="""\
def is_rising(numbers):
    return all(a < b for a, b in zip(numbers, numbers[1:]))
""",
        broken="""\
def is_rising(numbers):
    return numbers == sorted(numbers)
""",
        tests=(
            (([1, 2, 3],), True),
            (([2, 1],), False),
            (([],), True),
            (([4],), True),
            (([1, 1],), False),
            (([1, 2, 2, 3],), False),
            (([-3, -2, 0, 7],), True),
            (([5, 6, 4, 8],), False),
            (([0, 10, 20, 19],), False),
        ),
    ),
    Draft(
        name="merge",
        function="merge",
        level=2,
        idea="take the smaller head again and again",
        statement="""\
Merge two sorted lists into one sorted list that holds every item of both.""",
        solution="""\
def merge(a, b):
    result = []
    i = j = 0
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and a[i] <= b[j]):
            result.append(a[i])
            i += 1
        else:
            result.append(b[j])
            j += 1
    return result
""",
        broken="""\
def merge(a, b):
    return sorted(set(a + b))
""",
        tests=(
            (([1, 3], [2, 4]), [1, 2, 3, 4]),
            (([1], [1]), [1, 1]),
            (([], []), []),
            (([], [5, 6]), [5, 6]),
            (([1, 2, 3], []), [1, 2, 3]),
            (([1, 1, 2], [1, 3]), [1, 1, 1, 2, 3]),
            (([0, 10], [-5, 5, 15]), [-5, 0, 5, 10, 15]),
            (([7, 7], [7]), [7, 7, 7]),
            (([-2, -1], [-3, 0]), [-3, -2, -1, 0]),
        ),
    ),
    Draft(
        name="balance_point",
        function="balance_point",
        level=2,
        idea="move a left sum along and compare with the rest",
        statement="""\
Return the index at which the numbers to the left and the numbers to the right have the same sum (the
number at the index belongs to neither). Return the smallest such index, or -1 when there is none.""",
        solution="""\
def balance_point(numbers):
    left, total = 0, sum(numbers)
    for index, number in enumerate(numbers):
        if 2 * left + number == total:
            return index
        left += number
    return -1
""",
        broken="""\
def balance_point(numbers):
    left, total = 0, sum(numbers)
    for index, number in enumerate(numbers):
        left += number
        if 2 * left == total:
            return index
    return -1
""",
        tests=(
            (([1, 7, 3, 8],), 2),
            (([1, 2],), -1),
            (([],), -1),
            (([5],), 0),
            (([2, 0, 2],), 1),
            (([0, 0, 0],), 0),
            (([1, 2, 3, 3],), 2),
            (([-1, 3, -1],), 1),
            (([10, -10, 4],), 2),
            (([4, 1, 5, 2, 3],), 2),
        ),
    ),
    Draft(
        name="by_frequency",
        function="by_frequency",
        level=2,
        idea="stable sort by the negative count",
        statement="""\
Return the numbers of the list without repeats, ordered by how often they occur, most often first;
equally frequent ones in the order in which they first appear.""",
        solution="""\
def by_frequency(numbers):
    different = list(dict.fromkeys(numbers))
    return sorted(different, key=lambda number: -numbers.count(number))
""",
        broken="""\
def by_frequency(numbers):
    return sorted(set(numbers), key=lambda number: (-numbers.count(number), number))
""",
        tests=(
            (([3, 1, 3],), [3, 1]),
            (([9, 4],), [9, 4]),
            (([],), []),
            (([2, 2, 2],), [2]),
            (([5, 1, 1, 5, 7],), [5, 1, 7]),
            (([8, 6, 7, 6, 8, 6],), [6, 8, 7]),
            (([4, 3, 2, 1],), [4, 3, 2, 1]),
            (([1, 2, 2, 3, 3, 3],), [3, 2, 1]),
            (([9, 0, 9, 0, 1],), [9, 0, 1]),
        ),
    ),
    Draft(
        name="flatten",
        function="flatten",
        level=2,
        idea="recurse into lists",
        statement="""\
A list holds numbers and lists of such lists. Return all its numbers in one flat list, in their order.""",
        solution="""\
def flatten(items):
    result = []
    for item in items:
        if isinstance(item, list):
            result += flatten(item)
        else:
            result.append(item)
    return result
""",
        broken="""\
def flatten(items):
    result = []
    for item in items:
        result += item if isinstance(item, list) else [item]
    return result
""",
        tests=(
            (([1, [2, 3]],), [1, 2, 3]),
            (([[1], [2]],), [1, 2]),
            (([],), []),
            (([[[]]],), []),
            (([1, [2, [3, [4]]]],), [1, 2, 3, 4]),
            (([[5, 6], [], 7],), [5, 6, 7]),
            (([[[8]], 9],), [8, 9]),
            (([0, 0, [0]],), [0, 0, 0]),
            (([[1, [1, [1]]], 2],), [1, 1, 1, 2]),
        ),
    ),
    Draft(
        name="pairs_with_sum",
        function="pairs_with_sum",
        level=2,
        idea="count how often the missing partner was seen",
        statement="""\
Return the number of pairs of positions i < j at which the numbers of the list have the sum s.""",
        solution="""\
def pairs_with_sum(numbers, s):
    seen = {}
    count = 0
    for number in numbers:
        count += seen.get(s - number, 0)
        seen[number] = seen.get(number, 0) + 1
    return count
""",
        broken="""\
def pairs_with_sum(numbers, s):
    return sum(1 for number in set(numbers) if s - number in numbers) // 2
""",
        tests=(
            (([1, 2, 3, 4], 5), 2),
            (([2, 2, 2], 4), 3),
            (([], 0), 0),
            (([5], 10), 0),
            (([1, 1, 1, 1], 2), 6),
            (([-1, 1, 0], 0), 1),
            (([3, 3, 3, 4], 7), 3),
            (([0, 0, 0], 0), 3),
            (([10, 20, 30], 100), 0),
        ),
    ),
    Draft(
        name="in_both",
        function="in_both",
        level=2,
        idea="walk the first list and skip what was taken",
        statement="""\
Return the items that are in both lists, each once, in the order of the first list.""",
        solution="""\
def in_both(a, b):
    return [item for item in dict.fromkeys(a) if item in b]
""",
        broken="""\
def in_both(a, b):
    return [item for item in a if item in b]
""",
        tests=(
            (([1, 2, 3], [3, 1]), [1, 3]),
            (([1, 1, 2], [1]), [1]),
            (([], [1]), []),
            (([5], []), []),
            (([4, 4, 3, 3], [3, 4]), [4, 3]),
            (([1, 2], [3, 4]), []),
            ((["x", "y", "x"], ["x"]), ["x"]),
            (([9, 8, 7, 9], [9, 7]), [9, 7]),
            (([2, 1], [1, 2]), [2, 1]),
        ),
    ),
    Draft(
        name="best_piece",
        function="best_piece",
        level=3,
        idea="best sum that ends here",
        statement="""\
Return the largest sum of neighbouring numbers in the list: of a piece with at least one number. The list
is not empty.""",
        solution="""\
def best_piece(numbers):
    best = ending = numbers[0]
    for number in numbers[1:]:
        ending = max(ending + number, number)
        best = max(best, ending)
    return best
""",
        broken="""\
def best_piece(numbers):
    best = ending = 0
    for number in numbers:
        ending = max(ending + number, 0)
        best = max(best, ending)
    return best
""",
        tests=(
            (([1, -2, 3, 4],), 7),
            (([-1],), -1),
            (([5],), 5),
            (([-3, -2, -7],), -2),
            (([2, -1, 2],), 3),
            (([-2, 1, -3, 4, -1, 2, 1, -5, 4],), 6),
            (([0, 0],), 0),
            (([8, -9, 8],), 8),
            (([1, 2, 3, -10, 6],), 6),
        ),
    ),
    Draft(
        name="longest_rise",
        function="longest_rise",
        level=3,
        idea="for each length keep the smallest last number, by bisection",
        statement="""\
Return the length of the longest strictly rising subsequence of the list: numbers that stand in this
order, not necessarily next to each other, each larger than the one before.""",
        solution="""\
from bisect import bisect_left


def longest_rise(numbers):
    tails = []
    for number in numbers:
        place = bisect_left(tails, number)
        tails[place : place + 1] = [number]
    return len(tails)
""",
        broken="""\
def longest_rise(numbers):
    best = length = 1 if numbers else 0
    for a, b in zip(numbers, numbers[1:]):
        length = length + 1 if b > a else 1
        best = max(best, length)
    return best
""",
        tests=(
            (([3, 1, 2, 5],), 3),
            (([4, 3, 2],), 1),
            (([],), 0),
            (([7, 7, 7],), 1),
            (([10, 9, 2, 5, 3, 7, 101, 18],), 4),
            (([0, 1, 0, 3, 2, 3],), 4),
            (([1],), 1),
            (([5, 1, 6, 2, 7, 3],), 3),
            (([2, 1, 4, 3, 6, 5, 8, 7],), 4),
        ),
    ),
    Draft(
        name="unite",
        function="unite",
        level=3,
        idea="sort by start and extend the last one",
        statement="""\
Intervals are lists [start, end] with start <= end. Unite those that overlap or touch and return the
result sorted by start.""",
        solution="""\
def unite(intervals):
    result = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1][1] = max(result[-1][1], end)
        else:
            result.append([start, end])
    return result
""",
        broken="""\
def unite(intervals):
    result = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1][1] = end
        else:
            result.append([start, end])
    return result
""",
        tests=(
            (([[1, 3], [2, 5]],), [[1, 5]]),
            (([[4, 6], [1, 2]],), [[1, 2], [4, 6]]),
            (([],), []),
            (([[1, 1]],), [[1, 1]]),
            (([[1, 10], [2, 3]],), [[1, 10]]),
            (([[1, 2], [2, 3]],), [[1, 3]]),
            (([[5, 6], [1, 4], [3, 5]],), [[1, 6]]),
            (([[0, 9], [1, 2], [3, 4], [8, 12]],), [[0, 12]]),
            (([[7, 8], [7, 8]],), [[7, 8]]),
        ),
    ),
    Draft(
        name="joint_median",
        function="joint_median",
        level=3,
        idea="merge and take the middle",
        statement="""\
Return the median of all numbers of two sorted lists together, as a number with a decimal point; for an
even count it is the mean of the two middle ones. At least one list is not empty.""",
        solution="""\
def joint_median(a, b):
    both = sorted(a + b)
    middle = len(both) // 2
    return float(both[middle]) if len(both) % 2 else (both[middle - 1] + both[middle]) / 2
""",
        broken="""\
def joint_median(a, b):
    both = sorted(a + b)
    return float(both[len(both) // 2])
""",
        tests=(
            (([1, 3], [2]), 2.0),
            (([1, 2], [3, 4]), 2.5),
            (([5], []), 5.0),
            (([], [2, 4]), 3.0),
            (([1, 1], [1, 1]), 1.0),
            (([-5, 0], [5, 10]), 2.5),
            (([1, 2, 9], [3, 4, 5]), 3.5),
            (([100], [1]), 50.5),
            (([2, 2, 3], [7, 8, 9]), 5.0),
        ),
    ),
)
