"""Writes N megabytes of word-like text, the same on every machine."""
import sys

megabytes = int(sys.argv[1])
state = 12345
words = []
for _ in range(4096):
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    letters = 2 + (state >> 60)
    bits = state >> 8
    words.append("".join(chr(97 + (bits >> (5 * i)) % 26) for i in range(min(letters, 10))))
out, size = sys.stdout, 0
while size < megabytes << 20:
    line = []
    for _ in range(12):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        # The product of two draws prefers small indices, as words of a language do.
        line.append(words[((state >> 52) * (state >> 40 & 4095)) >> 12])
    text = " ".join(line) + f" {state >> 44}\n"
    out.write(text)
    size += len(text)
