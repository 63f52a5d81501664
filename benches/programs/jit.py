"""Objects, dictionaries, strings and numbers in loops, for a tracing compiler."""


class Node:
    def __init__(self, value, next):
        self.value, self.next = value, next


def lists(n):
    head = None
    for i in range(n):
        head = Node(i % 7, head)
    total = 0
    while head:
        total += head.value
        head = head.next
    return total


def sieve(n):
    flags = bytearray([1]) * n
    for i in range(2, int(n**0.5) + 1):
        if flags[i]:
            for j in range(i * i, n, i):
                flags[j] = 0
    return sum(flags)


def words(n):
    counts = {}
    for i in range(n):
        key = "w%d" % (i * 7919 % 5003)
        counts[key] = counts.get(key, 0) + 1
    return sorted(counts.items())[100]


print(lists(2500000), sieve(5000000), words(500000), sum(x * x % 7 for x in range(10000000)))
