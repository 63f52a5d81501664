"""A mixture of what Python programs do: objects, dicts, strings, json, re, sort."""
import json
import re


class Body:
    def __init__(self, x, v):
        self.x, self.v = x, v

    def move(self, others, dt):
        for other in others:
            if other is not self:
                d = other.x - self.x
                self.v += dt * d / (abs(d) ** 3 + 0.01)
        self.x += dt * self.v


def bodies(steps):
    all_bodies = [Body(float(i), 0.1 * i) for i in range(8)]
    for _ in range(steps):
        for body in all_bodies:
            body.move(all_bodies, 0.001)
    return sum(body.x for body in all_bodies)


def words(n):
    counts = {}
    for i in range(n):
        word = "w%d" % (i * 7919 % 5003)
        counts[word] = counts.get(word, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3]


def documents(n):
    document = {"list": list(range(50)), "text": "a\u00e9b" * 20, "nested": {"x": [1.5, None, True]}}
    size = 0
    for _ in range(n):
        size += len(json.dumps(json.loads(json.dumps(document))))
    return size


def matches(n):
    text = " ".join("key%d=value%d;" % (i, i * i) for i in range(400))
    return sum(len(re.findall(r"(\w+?)=(\w+\d);", text)) for _ in range(n))


print("%.6f" % bodies(10_000), words(1_500_000), documents(30_000), matches(600))
