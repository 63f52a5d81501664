"""Writes orders as JSON, reads them again, and searches them: the program of README's screen."""

import json
import re

orders = [
    {"id": i, "customer": f"customer-{i * 7919 % 1000}", "lines": [{"item": j, "price": i * j % 97} for j in range(4)]}
    for i in range(10_000)
]
text = json.dumps(orders)
again = json.loads(text)
found = re.findall(r'"customer": "customer-(\d*7)"', text)
total = sum(line["price"] for order in again for line in order["lines"])
print(len(again), "orders,", len(found), "of customers whose number ends in 7, worth", total)
