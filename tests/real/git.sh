# A repository from clone to garbage collection, with threads and children.
# real: limit 240
# real: small-chaos packing compares every pair of objects
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org GIT_COMMITTER_DATE='1700000000 +0000'
export GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat

setup() {
    local programs=$REAL/../../benches/programs
    for size in small:60 full:1000; do
        git init -q -b main "$SHARED/${size%:*}"
        python3 "$programs/gen_repository.py" "${size#*:}" |
            git -C "$SHARED/${size%:*}" fast-import --quiet
        git -C "$SHARED/${size%:*}" config pack.threads 2
    done
}

run() {
    git clone -q --no-local "$SHARED/$SIZE" clone
    cd clone
    git log --stat -p --format='%H %s' | sha256sum
    git log --graph --oneline --all | head -5
    git -c core.commitGraph=true commit-graph write --reachable 2>/dev/null
    git rev-list --objects --all | sort | sha256sum
    git checkout -q -b side HEAD~5
    echo changed >new; git add new; git commit -q -m 'a commit'
    git rev-parse HEAD
    git merge -q --no-edit main; git rev-parse HEAD
    git diff HEAD~3 | sha256sum
    git rebase -q main 2>/dev/null; git rev-parse HEAD
    git stash list; git status --porcelain=v2 --branch
    git blame new
    git grep -c -e a HEAD | wc -l
    git archive HEAD | sha256sum
    git gc -q --prune=now
    git repack -q -a -d -f --depth=20 --window=10
    git fsck --full --strict
    git count-objects -v | grep -E 'in-pack|count|garbage'
    git worktree add -q ../second HEAD~1 && git -C ../second log --oneline | wc -l
    git bundle create -q ../all.bundle --all && git bundle verify -q ../all.bundle
    # What is compared is named above; packs hold times and the threads' choice of deltas.
    cd .. && rm -rf clone second all.bundle
}
