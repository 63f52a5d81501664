"""Writes a stream for `git fast-import`: a repository with many commits."""
import sys

out = sys.stdout.buffer
files = {f"src/file{i}.c": [f"int f{i}_{j}(void) {{ return {j}; }}" for j in range(60)] for i in range(40)}
state = 3
for commit in range(int(sys.argv[1])):
    message = f"commit {commit}\n".encode()
    out.write(b"commit refs/heads/main\ncommitter A U Thor <author@example.org> %d +0000\n" % (1_600_000_000 + commit * 60))
    out.write(b"data %d\n" % len(message) + message)
    for _ in range(3):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        name = f"src/file{(state >> 40) % 40}.c"
        lines = files[name]
        lines[(state >> 20) % len(lines)] = f"int changed_{commit}(void) {{ return {state >> 50}; }}"
        lines.insert((state >> 30) % len(lines), f"/* line of commit {commit} */")
        data = "\n".join(lines).encode()
        out.write(b"M 100644 inline %s\ndata %d\n" % (name.encode(), len(data)) + data + b"\n")
    out.write(b"\n")
