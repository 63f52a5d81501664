import collections, sys
import everypath

for process in everypath.open(sys.argv[1]).processes:
    calls = collections.Counter()
    for thread in process.threads:
        for event in thread.events("call", "indirect_call"):
            calls[event.target] += 1
    names = process.names(calls)
    for target, number in calls.most_common(5):
        print(f"{number:12,}  {names[target]}")
