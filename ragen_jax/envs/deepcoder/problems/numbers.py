"""Problems about numbers."""

from __future__ import annotations

from ragen_jax.envs.deepcoder.problems.draft import Draft

NUMBERS = (
    Draft(
        name="digit_sum",
        function="digit_sum",
        level=1,
        idea="add the digits one by one",
        statement="""\
Return the sum of the decimal digits of a whole number n, n >= 0.""",
        solution="""\
def digit_sum(n):
    return sum(int(digit) for digit in str(n))
""",
        broken="""\
def digit_sum(n):
    return n % 10 + n // 10
""",
        tests=(
            ((7,), 7),
            ((345,), 12),
            ((0,), 0),
            ((10,), 1),
            ((99,), 18),
            ((100203,), 6),
            ((987654321,), 45),
            ((5005,), 10),
            ((1999,), 28),
        ),
    ),
    Draft(
        name="count_multiples",
        function="count_multiples",
        level=1,
        idea="count both kinds and take the common multiples away once",
        statement="""\
Return how many whole numbers from 1 to n are divisible by a or by b (or by both). n, a and b are
positive.""",
        solution="""\
def count_multiples(n, a, b):
    return sum(1 for k in range(1, n + 1) if k % a == 0 or k % b == 0)
""",
        broken="""\
def count_multiples(n, a, b):
    return n // a + n // b
""",
        tests=(
            ((10, 2, 3), 7),
            ((20, 4, 6), 7),
            ((1, 2, 3), 0),
            ((100, 5, 5), 20),
            ((1000, 7, 11), 220),
            ((30, 1, 9), 30),
            ((999, 10, 15), 132),
            ((50, 60, 70), 0),
            ((360, 8, 12), 60),
        ),
    ),
    Draft(
        name="later",
        function="later",
        level=1,
        idea="turn the time into minutes, add and wrap at 1440",
        statement="""\
A clock shows h hours and m minutes (0 <= h < 24, 0 <= m < 60). Return the list [hours, minutes] that it
shows d minutes later. d may be negative or very large.""",
        solution="""\
def later(h, m, d):
    total = (60 * h + m + d) % 1440
    return [total // 60, total % 60]
""",
        broken="""\
def later(h, m, d):
    total = 60 * h + m + d
    return [total // 60, total % 60]
""",
        tests=(
            ((10, 30, 45), [11, 15]),
            ((23, 50, 20), [0, 10]),
            ((0, 0, 0), [0, 0]),
            ((0, 0, -1), [23, 59]),
            ((12, 15, 1440), [12, 15]),
            ((5, 5, 100000), [15, 45]),
            ((18, 0, -1500), [17, 0]),
            ((9, 59, 1), [10, 0]),
            ((23, 59, 1), [0, 0]),
        ),
    ),
    Draft(
        name="is_long_year",
        function="is_long_year",
        level=1,
        idea="check 400, then 100, then 4",
        statement="""\
Return True when the year has 366 days in the Gregorian calendar, else False: years divisible by 4 do,
but those divisible by 100 do only when they are divisible by 400.""",
        solution="""\
def is_long_year(year):
    return year % 400 == 0 or (year % 4 == 0 and year % 100 != 0)
""",
        broken="""\
def is_long_year(year):
    return year % 4 == 0
""",
        tests=(
            ((2024,), True),
            ((2023,), False),
            ((1900,), False),
            ((2000,), True),
            ((2100,), False),
            ((1996,), True),
            ((2026,), False),
            ((1600,), True),
            ((1800,), False),
        ),
    ),
    Draft(
        name="prime_factors",
        function="prime_factors",
        level=2,
        idea="divide by the smallest divisor until nothing is left",
        statement="""\
Return the list of prime factors of n (n >= 2), smallest first, each as often as it divides n.""",
        solution="""\
def prime_factors(n):
    found = []
    divisor = 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 1
    return found + [n] if n > 1 else found
""",
        broken="""\
def prime_factors(n):
    return [d for d in range(2, n + 1) if n % d == 0 and all(d % e for e in range(2, d))]
""",
        tests=(
            ((12,), [2, 2, 3]),
            ((7,), [7]),
            ((2,), [2]),
            ((81,), [3, 3, 3, 3]),
            ((360,), [2, 2, 2, 3, 3, 5]),
            ((97,), [97]),
            ((1024,), [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]),
            ((2310,), [2, 3, 5, 7, 11]),
            ((1001,), [7, 11, 13]),
            ((8633,), [89, 97]),
        ),
    ),
    Draft(
        name="steps_to_one",
        function="steps_to_one",
        level=2,
        idea="simulate and count",
        statement="""\
Start with n (n >= 1). Halve an even number; replace an odd number k by 3 k + 1. Return how many steps it
takes to reach 1.""",
        solution="""\
def steps_to_one(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps
""",
        broken="""\
def steps_to_one(n):
    steps = 1
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps
""",
        tests=(
            ((6,), 8),
            ((1,), 0),
            ((2,), 1),
            ((7,), 16),
            ((16,), 4),
            ((27,), 111),
            ((97,), 118),
            ((128,), 7),
            ((1000,), 111),
        ),
    ),
    Draft(
        name="in_base",
        function="in_base",
        level=2,
        idea="collect remainders from the right",
        statement="""\
Write n (n >= 0) in the given base (2 to 16), with the digits 0123456789abcdef, as a text without leading
zeros. Zero is "0".""",
        solution="""\
def in_base(n, base):
    digits = ""
    while n:
        digits = "0123456789abcdef"[n % base] + digits
        n //= base
    return digits or "0"
""",
        broken="""\
def in_base(n, base):
    digits = ""
    while n:
        digits += "0123456789abcdef"[n % base]
        n //= base
    return digits or "0"
""",
        tests=(
            ((10, 2), "1010"),
            ((255, 16), "ff"),
            ((0, 7), "0"),
            ((1, 3), "1"),
            ((100, 10), "100"),
            ((123456, 8), "361100"),
            ((48879, 16), "beef"),
            ((80, 3), "2222"),
            ((12, 12), "10"),
        ),
    ),
    Draft(
        name="common_multiple",
        function="common_multiple",
        level=2,
        idea="fold with the product over the greatest common divisor",
        statement="""\
Return the smallest positive number that every number in the list divides. The list holds at least one
positive number.""",
        solution="""\
from math import gcd


def common_multiple(numbers):
    result = 1
    for number in numbers:
        result = result * number // gcd(result, number)
    return result
""",
        broken="""\
def common_multiple(numbers):
    result = 1
    for number in numbers:
        if result % number:
            result *= number
    return result
""",
        tests=(
            (([2, 3],), 6),
            (([4, 6],), 12),
            (([1],), 1),
            (([5, 5, 5],), 5),
            (([2, 4, 8],), 8),
            (([6, 10, 15],), 30),
            (([7, 13, 21],), 273),
            (([12, 18, 30],), 180),
            (([9, 1, 27],), 27),
        ),
    ),
    Draft(
        name="primes_up_to",
        function="primes_up_to",
        level=2,
        idea="strike out multiples",
        statement="""\
Return the list of all numbers from 2 to n that have no divisor but 1 and themselves, in rising order.""",
        solution="""\
def primes_up_to(n):
    free = [True] * (n + 1)
    found = []
    for number in range(2, n + 1):
        if free[number]:
            found.append(number)
            for multiple in range(number * number, n + 1, number):
                free[multiple] = False
    return found
""",
        broken="""\
def primes_up_to(n):
    return [k for k in range(2, n) if all(k % d for d in range(2, int(k**0.5) + 1))]
""",
        tests=(
            ((10,), [2, 3, 5, 7]),
            ((13,), [2, 3, 5, 7, 11, 13]),
            ((1,), []),
            ((2,), [2]),
            ((3,), [2, 3]),
            ((30,), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
            ((29,), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
            ((50,), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]),
            ((97,), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97]),
        ),
    ),
    Draft(
        name="last_digits",
        function="last_digits",
        level=3,
        idea="square and multiply modulo a power of ten",
        statement="""\
Return the last m digits of a to the power of b, as a number. a, b >= 0 and 1 <= m <= 9; b may have
hundreds of digits worth of size, so the power itself cannot be written down. 0 to the power of 0 is 1.""",
        solution="""\
def last_digits(a, b, m):
    return pow(a, b, 10**m)
""",
        broken="""\
def last_digits(a, b, m):
    return pow(a % 10, b, 10**m)
""",
        tests=(
            ((7, 3, 2), 43),
            ((2, 10, 4), 1024),
            ((3, 0, 1), 1),
            ((0, 0, 3), 1),
            ((0, 5, 2), 0),
            ((13, 1000000007, 9), 62748517),
            ((99, 123456789012345678, 6), 462201),
            ((10, 3, 3), 0),
            ((12345, 67890, 5), 40625),
            ((2, 1000000000000000000000000000000000000000000000000000000000000, 8), 87109376),
        ),
    ),
    Draft(
        name="rectangles",
        function="rectangles",
        level=3,
        idea="count divisors up to the square root",
        statement="""\
Return the number of pairs (a, b) of positive whole numbers with a <= b and a * b = n. n may be as large
as 10 to the power of 12.""",
        solution="""\
def rectangles(n):
    count = 0
    a = 1
    while a * a <= n:
        count += n % a == 0
        a += 1
    return count
""",
        broken="""\
def rectangles(n):
    count = 0
    a = 1
    while a * a < n:
        count += n % a == 0
        a += 1
    return count
""",
        tests=(
            ((12,), 3),
            ((16,), 3),
            ((1,), 1),
            ((17,), 1),
            ((36,), 5),
            ((100,), 5),
            ((9699690,), 128),
            ((1000000000000,), 85),
            ((999999000001,), 1),
            ((720720,), 120),
        ),
    ),
    Draft(
        name="ways_to_pay",
        function="ways_to_pay",
        level=3,
        idea="table over amounts, one coin value after the other",
        statement="""\
Coins have the given values (positive, all different), as many of each as you like. Return in how many
ways they pay the amount exactly; the order of the coins does not matter. The amount 0 is paid in one
way, with no coin.""",
        solution="""\
def ways_to_pay(coins, amount):
    ways = [1] + [0] * amount
    for coin in coins:
        for total in range(coin, amount + 1):
            ways[total] += ways[total - coin]
    return ways[amount]
""",
        broken="""\
def ways_to_pay(coins, amount):
    ways = [1] + [0] * amount
    for total in range(1, amount + 1):
        ways[total] = sum(ways[total - coin] for coin in coins if coin <= total)
    return ways[amount]
""",
        tests=(
            (([1, 2], 4), 3),
            (([2, 5], 10), 2),
            (([3], 0), 1),
            (([2], 3), 0),
            (([1, 5, 10, 25], 100), 242),
            (([1, 2, 3], 7), 8),
            (([4, 6], 8), 1),
            (([7, 3, 2], 20), 8),
            (([1, 2, 5, 10, 20, 50], 200), 69118),
        ),
    ),
)
