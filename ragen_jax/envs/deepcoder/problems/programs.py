"""Problems for programs that read standard input and print."""

from __future__ import annotations

from ragen_jax.envs.deepcoder.problems.draft import Draft

PROGRAMS = (
    Draft(
        name="add_two",
        level=1,
        idea="read, add, print",
        statement="""\
Read two whole numbers from one line and print their sum.""",
        solution="""\
a, b = map(int, input().split())
print(a + b)
""",
        broken="""\
a, b = map(int, input().split())
print(abs(a) + abs(b))
""",
        tests=(
            ("2 3", "5"),
            ("10 -4", "6"),
            ("0 0", "0"),
            ("-7 -8", "-15"),
            ("1000000000 1", "1000000001"),
            ("99 1", "100"),
            ("-5 5", "0"),
            ("123456789 987654321", "1111111110"),
        ),
    ),
    Draft(
        name="extremes",
        level=1,
        idea="read the list, print min and max",
        statement="""\
The first line holds n, the second line n whole numbers. Print the smallest and the largest of them,
separated by a space.""",
        solution="""\
input()
numbers = list(map(int, input().split()))
print(min(numbers), max(numbers))
""",
        broken="""\
input()
numbers = input().split()
print(min(numbers), max(numbers))
""",
        tests=(
            ("3\n4 1 9", "1 9"),
            ("1\n5", "5 5"),
            ("2\n10 9", "9 10"),
            ("4\n-1 -20 3 0", "-20 3"),
            ("5\n100 20 3 1000 7", "3 1000"),
            ("3\n2 2 2", "2 2"),
            ("6\n5 15 25 -5 -15 -25", "-25 25"),
            ("2\n-100 -99", "-100 -99"),
        ),
    ),
    Draft(
        name="star_triangle",
        level=1,
        idea="print lines of growing length",
        statement="""\
Read a whole number n, 1 <= n <= 20, and print a triangle: line i, for i from 1 to n, consists of i
stars.""",
        solution="""\
for i in range(1, int(input()) + 1):
    print("*" * i)
""",
        broken="""\
for i in range(int(input())):
    print("*" * i)
""",
        tests=(
            ("3", "*\n**\n***"),
            ("1", "*"),
            ("2", "*\n**"),
            ("4", "*\n**\n***\n****"),
            ("5", "*\n**\n***\n****\n*****"),
            ("7", "*\n**\n***\n****\n*****\n******\n*******"),
            ("10", "*\n**\n***\n****\n*****\n******\n*******\n********\n*********\n**********"),
            (
                "20",
                "*\n**\n***\n****\n*****\n******\n*******\n********\n*********\n**********\n***********\n************\n*************\n**************\n***************\n****************\n*****************\n******************\n*******************\n********************",
            ),
        ),
    ),
    Draft(
        name="vowels",
        level=1,
        idea="count letters that are vowels",
        statement="""\
Read one line of text. Print how many vowels (a, e, i, o, u, capital or small) it has.""",
        solution="""\
print(sum(c in "aeiou" for c in input().lower()))
""",
        broken="""\
print(sum(c in "aeiou" for c in input()))
""",
        tests=(
            ("Hello World", "3"),
            ("xyz", "0"),
            ("AEIOU", "5"),
            ("Python", "1"),
            ("banana split", "4"),
            ("Rhythm", "0"),
            ("Queue Up Again", "8"),
            ("a", "1"),
        ),
    ),
    Draft(
        name="tick_tock",
        level=1,
        idea="test both divisors and join the words",
        statement="""\
Read a whole number n and print the numbers from 1 to n, one a line; but print Tick for multiples of 4,
Tock for multiples of 6 and TickTock for multiples of both.""",
        solution="""\
for k in range(1, int(input()) + 1):
    print(("Tick" * (k % 4 == 0) + "Tock" * (k % 6 == 0)) or k)
""",
        broken="""\
for k in range(1, int(input()) + 1):
    print("Tick" if k % 4 == 0 else "Tock" if k % 6 == 0 else k)
""",
        tests=(
            ("4", "1\n2\n3\nTick"),
            ("6", "1\n2\n3\nTick\n5\nTock"),
            ("1", "1"),
            ("12", "1\n2\n3\nTick\n5\nTock\n7\nTick\n9\n10\n11\nTickTock"),
            ("3", "1\n2\n3"),
            ("13", "1\n2\n3\nTick\n5\nTock\n7\nTick\n9\n10\n11\nTickTock\n13"),
            (
                "24",
                "1\n2\n3\nTick\n5\nTock\n7\nTick\n9\n10\n11\nTickTock\n13\n14\n15\nTick\n17\nTock\n19\nTick\n21\n22\n23\nTickTock",
            ),
            (
                "25",
                "1\n2\n3\nTick\n5\nTock\n7\nTick\n9\n10\n11\nTickTock\n13\n14\n15\nTick\n17\nTock\n19\nTick\n21\n22\n23\nTickTock\n25",
            ),
        ),
    ),
    Draft(
        name="best_name",
        level=1,
        idea="read all lines, keep the best",
        statement="""\
The input has several lines, each with a name and a whole number, until the end of the input. Print the
name with the largest number; of equal ones the first.""",
        solution="""\
import sys

best = None
for line in sys.stdin:
    if line.strip():
        name, points = line.split()
        if best is None or int(points) > best[0]:
            best = int(points), name
print(best[1])
""",
        broken="""\
import sys

rows = [line.split() for line in sys.stdin if line.strip()]
print(max(rows, key=lambda row: row[1])[0])
""",
        tests=(
            ("ann 3\nbob 7", "bob"),
            ("eve 1", "eve"),
            ("ann 10\nbob 9", "ann"),
            ("zoe 5\namy 5", "zoe"),
            ("kim -3\nlee -4", "kim"),
            ("a 100\nb 20\nc 3", "a"),
            ("tom 2\ntim 12\ntam 7", "tim"),
            ("x 0\ny 0\nz 1", "z"),
        ),
    ),
    Draft(
        name="edge_sum",
        level=2,
        idea="add first and last rows, and the ends of the others",
        statement="""\
The first line holds the numbers of rows r and columns c, then r lines with c whole numbers each follow.
Print the sum of the numbers on the edge of the table.""",
        solution="""\
r, c = map(int, input().split())
rows = [list(map(int, input().split())) for _ in range(r)]
print(sum(x for i, row in enumerate(rows) for j, x in enumerate(row) if i in (0, r - 1) or j in (0, c - 1)))
""",
        broken="""\
r, c = map(int, input().split())
rows = [list(map(int, input().split())) for _ in range(r)]
print(sum(rows[0]) + sum(rows[-1]) + sum(row[0] + row[-1] for row in rows))
""",
        tests=(
            ("2 2\n1 2\n3 4", "10"),
            ("3 3\n1 1 1\n1 5 1\n1 1 1", "8"),
            ("1 1\n7", "7"),
            ("1 4\n1 2 3 4", "10"),
            ("4 1\n1\n2\n3\n4", "10"),
            ("3 4\n1 2 3 4\n5 6 7 8\n9 10 11 12", "65"),
            ("2 3\n0 0 0\n1 1 1", "3"),
            ("4 4\n1 1 1 1\n1 9 9 1\n1 9 9 1\n1 1 1 1", "12"),
        ),
    ),
    Draft(
        name="stack",
        level=2,
        idea="follow the commands with a list",
        statement="""\
Read a whole number q, then q lines with commands for a stack that is empty at first: "push x" puts x on
top, "pop" takes the top off and prints it, "size" prints how many items there are. A pop from an empty
stack prints EMPTY.""",
        solution="""\
stack = []
for _ in range(int(input())):
    command = input().split()
    if command[0] == "push":
        stack.append(command[1])
    elif command[0] == "size":
        print(len(stack))
    else:
        print(stack.pop() if stack else "EMPTY")
""",
        broken="""\
stack = []
for _ in range(int(input())):
    command = input().split()
    if command[0] == "push":
        stack.append(command[1])
    elif command[0] == "size":
        print(len(stack))
    else:
        print(stack.pop(0) if stack else "EMPTY")
""",
        tests=(
            ("3\npush 5\npop\nsize", "5\n0"),
            ("1\npop", "EMPTY"),
            ("2\nsize\nsize", "0\n0"),
            ("4\npush 1\npush 2\npop\npop", "2\n1"),
            ("5\npush a\npush b\nsize\npop\nsize", "2\nb\n1"),
            ("3\npop\npush 9\npop", "EMPTY\n9"),
            ("6\npush 1\npush 2\npush 3\npop\npush 4\npop", "3\n4"),
            ("4\npush x\npop\npop\nsize", "x\nEMPTY\n0"),
        ),
    ),
    Draft(
        name="word_counts",
        level=2,
        idea="count lower-case words, sort, print",
        statement="""\
Read a text. Print each different word (capitals count as small letters; words are separated by white
space) with its count, one a line, as "word count", in alphabetical order. The text may have several
lines.""",
        solution="""\
import sys
from collections import Counter

for word, count in sorted(Counter(sys.stdin.read().lower().split()).items()):
    print(word, count)
""",
        broken="""\
import sys
from collections import Counter

for word, count in Counter(sys.stdin.read().lower().split()).items():
    print(word, count)
""",
        tests=(
            ("the cat the dog", "cat 1\ndog 1\nthe 2"),
            ("One one ONE", "one 3"),
            ("a", "a 1"),
            ("b a c", "a 1\nb 1\nc 1"),
            ("to be\nor not to be", "be 2\nnot 1\nor 1\nto 2"),
            ("z y z y x", "x 1\ny 2\nz 2"),
            ("Red red\nBlue", "blue 1\nred 2"),
            ("one two three two one", "one 2\nthree 1\ntwo 2"),
        ),
    ),
    Draft(
        name="rock_paper_scissors",
        level=2,
        idea="look each pair up among the winning ones",
        statement="""\
Two players play several rounds. The first line holds the number of rounds, each following line two words
out of rock, paper and scissors: the choices of the first and the second player. Paper beats rock, rock
beats scissors, scissors beat paper. Print the number of rounds that each player won, separated by a
space.""",
        solution="""\
wins = {("paper", "rock"), ("rock", "scissors"), ("scissors", "paper")}
score = [0, 0]
for _ in range(int(input())):
    a, b = input().split()
    score[0] += (a, b) in wins
    score[1] += (b, a) in wins
print(*score)
""",
        broken="""\
wins = {("paper", "rock"), ("rock", "scissors"), ("scissors", "paper")}
rounds = int(input())
first = sum(tuple(input().split()) in wins for _ in range(rounds))
print(first, rounds - first)
""",
        tests=(
            ("2\npaper rock\nrock rock", "1 0"),
            ("1\nrock paper", "0 1"),
            ("0", "0 0"),
            ("3\nrock rock\npaper paper\nscissors scissors", "0 0"),
            ("2\nscissors paper\nscissors rock", "1 1"),
            ("4\nrock scissors\nrock paper\npaper rock\nrock rock", "2 1"),
            ("1\nscissors paper", "1 0"),
            ("5\npaper scissors\npaper scissors\npaper rock\nrock rock\nscissors paper", "2 2"),
        ),
    ),
    Draft(
        name="perfect_numbers",
        level=2,
        idea="test each number by its divisors up to the root",
        statement="""\
Read whole numbers a and b, separated by a space, 1 <= a <= b <= 10000. Print all numbers from a to b
that equal the sum of their proper divisors, separated by spaces; print NONE when there is none.""",
        solution="""\
def divisor_sum(n):
    total = 1 if n > 1 else 0
    d = 2
    while d * d <= n:
        if n % d == 0:
            total += d + (n // d if d * d != n else 0)
        d += 1
    return total


a, b = map(int, input().split())
found = [n for n in range(a, b + 1) if divisor_sum(n) == n]
print(*(found or ["NONE"]))
""",
        broken="""\
a, b = map(int, input().split())
print(*[n for n in (1, 6, 28, 496, 8128) if a <= n <= b] or ["NONE"])
""",
        tests=(
            ("1 10", "6"),
            ("7 20", "NONE"),
            ("1 1", "NONE"),
            ("6 6", "6"),
            ("20 500", "28 496"),
            ("1 1000", "6 28 496"),
            ("8000 9000", "8128"),
            ("500 600", "NONE"),
        ),
    ),
    Draft(
        name="earliest_date",
        level=2,
        idea="compare as year, month, day",
        statement="""\
The first line holds n, each of the next n lines a date as day, month and year, separated by spaces.
Print the earliest date in the form YYYY-MM-DD.""",
        solution="""\
dates = []
for _ in range(int(input())):
    day, month, year = map(int, input().split())
    dates.append((year, month, day))
year, month, day = min(dates)
print(f"{year:04d}-{month:02d}-{day:02d}")
""",
        broken="""\
dates = [tuple(map(int, input().split())) for _ in range(int(input()))]
day, month, year = min(dates)
print(f"{year:04d}-{month:02d}-{day:02d}")
""",
        tests=(
            ("2\n5 3 2020\n1 4 2021", "2020-03-05"),
            ("1\n29 2 2024", "2024-02-29"),
            ("2\n1 12 1999\n31 1 1999", "1999-01-31"),
            ("3\n1 1 2001\n2 1 2000\n3 1 2002", "2000-01-02"),
            ("2\n10 10 2010\n9 10 2010", "2010-10-09"),
            ("1\n1 1 987", "0987-01-01"),
            ("3\n15 6 2015\n14 7 2015\n16 5 2015", "2015-05-16"),
            ("2\n31 12 2022\n1 1 2023", "2022-12-31"),
        ),
    ),
    Draft(
        name="budget",
        level=2,
        idea="buy the cheapest first",
        statement="""\
The first line holds a budget, the second line the prices of things, each there once (positive whole
numbers). Print the largest number of things that can be bought.""",
        solution="""\
budget = int(input())
count = 0
for price in sorted(map(int, input().split())):
    if price <= budget:
        budget -= price
        count += 1
print(count)
""",
        broken="""\
budget = int(input())
count = 0
for price in map(int, input().split()):
    if price <= budget:
        budget -= price
        count += 1
print(count)
""",
        tests=(
            ("10\n5 4 3", "2"),
            ("3\n4 5", "0"),
            ("0\n1", "0"),
            ("7\n7 1 6", "2"),
            ("15\n9 8 2 1 1", "4"),
            ("100\n60 50 40 10", "3"),
            ("6\n6 1 2 3", "3"),
            ("20\n19 2 5 5 5 5", "4"),
        ),
    ),
    Draft(
        name="range_sums",
        level=3,
        idea="prefix sums",
        statement="""\
The first line holds n and q, the second line n whole numbers, each of the next q lines positions l and r
with 1 <= l <= r <= n. For each of these print the sum of the numbers from position l to position r, one
a line.""",
        solution="""\
n, q = map(int, input().split())
sums = [0]
for number in map(int, input().split()):
    sums.append(sums[-1] + number)
for _ in range(q):
    left, right = map(int, input().split())
    print(sums[right] - sums[left - 1])
""",
        broken="""\
n, q = map(int, input().split())
sums = [0]
for number in map(int, input().split()):
    sums.append(sums[-1] + number)
for _ in range(q):
    left, right = map(int, input().split())
    print(sums[right] - sums[left])
""",
        tests=(
            ("3 2\n1 2 3\n1 3\n2 2", "6\n2"),
            ("1 1\n5\n1 1", "5"),
            ("4 1\n0 0 0 0\n1 4", "0"),
            ("5 3\n1 -1 1 -1 1\n1 5\n2 3\n5 5", "1\n0\n1"),
            ("2 2\n10 20\n1 1\n2 2", "10\n20"),
            ("6 2\n3 1 4 1 5 9\n2 5\n1 6", "11\n23"),
            ("3 1\n-1 -2 -3\n1 2", "-3"),
            ("4 4\n1 2 4 8\n1 2\n2 3\n3 4\n1 4", "3\n6\n12\n15"),
        ),
    ),
    Draft(
        name="stairs",
        level=3,
        idea="each count is the sum of the two before",
        statement="""\
Read a whole number n, 1 <= n <= 90. Print in how many ways n stairs can be climbed by steps of one or
two stairs.""",
        solution="""\
a, b = 1, 1
for _ in range(int(input())):
    a, b = b, a + b
print(a)
""",
        broken="""\
a, b = 1, 2
for _ in range(int(input())):
    a, b = b, a + b
print(a)
""",
        tests=(
            ("3", "3"),
            ("5", "8"),
            ("1", "1"),
            ("2", "2"),
            ("4", "5"),
            ("10", "89"),
            ("40", "165580141"),
            ("90", "4660046610375530309"),
        ),
    ),
    Draft(
        name="acquaintances",
        level=3,
        idea="breadth-first search over names",
        statement="""\
Each line of the input but the last is a pair "a b": the two know each other. The last line is a pair
too, and the question: print the smallest number of acquaintances along the chain from the first to the
second of them (1 when they know each other, 0 when they are the same), or NO when there is no chain.
Names consist of letters.""",
        solution="""\
import sys
from collections import deque

pairs = [line.split() for line in sys.stdin if line.strip()]
start, goal = pairs.pop()
known = {}
for a, b in pairs:
    known.setdefault(a, []).append(b)
    known.setdefault(b, []).append(a)
steps = {start: 0}
queue = deque([start])
while queue:
    name = queue.popleft()
    for other in known.get(name, []):
        if other not in steps:
            steps[other] = steps[name] + 1
            queue.append(other)
print(steps.get(goal, "NO"))
""",
        broken="""\
import sys

pairs = [line.split() for line in sys.stdin if line.strip()]
start, goal = pairs.pop()
if start == goal:
    print(0)
elif [start, goal] in pairs or [goal, start] in pairs:
    print(1)
else:
    print(2 if {x for p in pairs for x in p} >= {start, goal} else "NO")
""",
        tests=(
            ("a b\nb c\na c", "2"),
            ("a b\nc d\na d", "NO"),
            ("x x", "0"),
            ("a b\nb a", "1"),
            ("a b\na b", "1"),
            ("p q\nq r\nr s\ns t\np t", "4"),
            ("p q\nq r\nr s\np s\np s", "1"),
            ("one two\nthree four\ntwo three\none four", "3"),
        ),
    ),
    Draft(
        name="rain",
        level=3,
        idea="highest so far from both sides",
        statement="""\
The first line holds n, the second line the n heights of posts in a row (positive whole numbers). Water
stands between the posts after heavy rain: over a post up to the lower one of the highest posts on its
left and its right. Print the total amount.""",
        solution="""\
n = int(input())
posts = list(map(int, input().split()))
total = 0
for i, post in enumerate(posts):
    total += min(max(posts[: i + 1]), max(posts[i:])) - post
print(total)
""",
        broken="""\
n = int(input())
posts = list(map(int, input().split()))
print(sum(max(0, min(posts[i - 1], posts[i + 1]) - posts[i]) for i in range(1, n - 1)))
""",
        tests=(
            ("3\n2 1 2", "1"),
            ("3\n1 2 3", "0"),
            ("1\n5", "0"),
            ("5\n3 1 1 1 3", "6"),
            ("6\n1 4 2 3 1 2", "2"),
            ("7\n5 1 2 1 4 1 2", "9"),
            ("4\n4 3 2 1", "0"),
            ("8\n2 1 3 1 1 2 1 3", "8"),
        ),
    ),
    Draft(
        name="queens",
        level=3,
        idea="place row by row and remember columns and diagonals",
        statement="""\
Read a whole number n, 4 <= n <= 8, and print the number of ways to place n queens on an n x n board so
that no two stand in the same row, column or diagonal.""",
        solution="""\
n = int(input())


def place(row, columns, rising, falling):
    if row == n:
        return 1
    return sum(
        place(row + 1, columns | {c}, rising | {row + c}, falling | {row - c})
        for c in range(n)
        if c not in columns and row + c not in rising and row - c not in falling
    )


print(place(0, set(), set(), set()))
""",
        broken="""\
n = int(input())


def place(row, columns, rising):
    if row == n:
        return 1
    return sum(
        place(row + 1, columns | {c}, rising | {row + c})
        for c in range(n)
        if c not in columns and row + c not in rising
    )


print(place(0, set(), set()))
""",
        tests=(
            ("4", "2"),
            ("5", "10"),
            ("6", "4"),
            ("7", "40"),
            ("8", "92"),
        ),
    ),
    Draft(
        name="common_letters",
        level=3,
        idea="table over prefixes of both words",
        statement="""\
Read two words, one a line. Print the length of the longest sequence of letters that can be got from
either word by striking letters out.""",
        solution="""\
a, b = input().strip(), input().strip()
row = [0] * (len(b) + 1)
for x in a:
    before = 0
    for j, y in enumerate(b, 1):
        before, row[j] = row[j], before + 1 if x == y else max(row[j], row[j - 1])
print(row[-1])
""",
        broken="""\
a, b = input().strip(), input().strip()
print(sum(min(a.count(c), b.count(c)) for c in set(a)))
""",
        tests=(
            ("abcde\nace", "3"),
            ("abc\nxyz", "0"),
            ("a\na", "1"),
            ("abc\ncba", "1"),
            ("aggtab\ngxtxayb", "4"),
            ("stone\nlongest", "3"),
            ("banana\nnabana", "4"),
            ("abcdef\nfbdamn", "2"),
        ),
    ),
)
